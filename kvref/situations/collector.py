"""Collects the tallies of whatever campaigns and state machines run in this process.

A test session that wants to know what it exercised calls `start` before its tests and `stop` after
them, in each worker; `merged` puts those of several processes together. In between each
campaign and each machine asks `counting` for where to count. Nothing is collected, and nothing
costs anything, while it is not on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvref.requests.target import RequestTargetFactory
from kvref.situations.counting import Counting
from kvref.situations.tally import Tally, merge
from kvref.target import TargetFactory

__all__ = ["counting", "merged", "start", "stop"]

_active: dict[Any, Counting] | None = None


def start() -> None:
    """Collect from now on; what was collected before is dropped."""
    global _active
    _active = {}


def stop() -> list[Tally]:
    """What was collected since `start`, a tally for each machine and target; collects no more."""
    global _active
    found, _active = _active or {}, None
    return [each.tally() for each in found.values()]


def counting(target: TargetFactory | RequestTargetFactory, name: str = "") -> Counting | None:
    """Where to count runs of this target, or None while nothing is collected.

    A factory that nobody names is called by its module and its function: factories that one
    function makes are then one target.
    """
    if _active is None:
        return None
    build = target.build
    named = name or f"{build.__module__}:{getattr(build, '__qualname__', type(build).__name__)}"
    key = (named, target.promises)
    if key not in _active:
        _active[key] = Counting(named, target.promises)
    return _active[key]


def merged(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each machine and target, in the order in which they came."""
    groups: dict[Any, list[Tally]] = {}
    for tally in tallies:
        groups.setdefault(tally.about, []).append(tally)
    return [merge(group) for group in groups.values()]
