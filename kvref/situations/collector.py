"""Collects the tallies of whatever campaigns and state machines run in this process.

Two may collect. A test *session* does from its beginning to its end (`start_session`,
`stop_session`; the pytest plugin calls them), in each worker. In between, anybody may `start` and
`stop` a collection of their own, which then goes before that of the session. `merged` puts those
of several processes together. Each campaign and each machine asks `counting` for where to
count. Nothing is collected, and nothing costs anything, while neither is on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvref.requests.target import RequestTargetFactory
from kvref.situations.counting import Counting
from kvref.situations.tally import Tally, merge
from kvref.target import TargetFactory

__all__ = ["counting", "merged", "start", "start_session", "stop", "stop_session"]

_Key = tuple[str, Any]
_active: dict[_Key, Counting] | None = None
_session: dict[_Key, Counting] | None = None
_held: set[_Key] = set()


def start() -> None:
    """Collect from now on; what was collected before is dropped."""
    global _active
    _active = {}


def stop() -> list[Tally]:
    """What was collected since `start`, a tally for each machine and target; collects no more."""
    global _active
    found, _active = _active or {}, None
    return [each.tally() for each in found.values()]


def start_session() -> None:
    """Collect for the session from now on, whatever nobody else collects."""
    global _session
    _session = {}
    _held.clear()


def stop_session() -> list[tuple[Tally, bool]]:
    """What the session collected; True where it has to meet all that is required."""
    global _session
    found, _session = _session or {}, None
    return [(each.tally(), key in _held) for key, each in found.items()]


def counting(
    target: TargetFactory | RequestTargetFactory, name: str = "", *, held: bool = False
) -> Counting | None:
    """Where to count runs of this target, or None while nothing is collected.

    A factory that nobody names is called by its module and its function: factories that one
    function makes are then one target. `held` says that a whole session has to meet on this
    target whatever is required: a suite and its shards say so, a test of a broken one does not.
    """
    into = _session if _active is None else _active
    if into is None:
        return None
    build = target.build
    named = name or f"{build.__module__}:{getattr(build, '__qualname__', type(build).__name__)}"
    key = (named, target.promises)
    if key not in into:
        into[key] = Counting(named, target.promises)
    if held and into is _session:
        _held.add(key)
    return into[key]


def merged(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each machine and target, in the order in which they came."""
    groups: dict[Any, list[Tally]] = {}
    for tally in tallies:
        groups.setdefault(tally.about, []).append(tally)
    return [merge(group) for group in groups.values()]
