"""Finding targets: by the name that a package registered, or as `module:factory`."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from importlib.metadata import EntryPoint, entry_points

from kvref.requests.life import life
from kvref.requests.target import RequestTargetFactory
from kvref.target import TargetFactory

__all__ = ["GROUP", "UnknownTarget", "find", "find_requests", "load", "place", "registered"]

GROUP = "kvref.targets"
"""The entry point group: `name = "module:factory"`."""


class UnknownTarget(LookupError):
    """No such target, or it cannot be imported; the text says what to do."""


def registered() -> dict[str, EntryPoint]:
    """Every registered target by name, none of them imported."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP))}


def find(target: str) -> TargetFactory:
    """The factory of managers that `target` names."""
    factory = load(target)
    if isinstance(factory, TargetFactory):
        return factory
    raise UnknownTarget(f"target {target!r} has no bare manager: it runs whole requests alone")


def find_requests(target: str) -> RequestTargetFactory:
    """The factory of requests that `target` names: its own, or the reference life over it."""
    factory = load(target)
    if isinstance(factory, RequestTargetFactory):
        return factory
    return factory.requests or life(factory)


def place(target: str) -> str:
    """Where it is to be, as `module:factory`, without a look there.

    UnknownTarget if it is neither registered nor of that form.
    """
    known = registered()
    if target in known:
        return known[target].value
    module, _, attribute = target.partition(":")
    if module and attribute:
        return target
    near = difflib.get_close_matches(target, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
    raise UnknownTarget(f"no target named {target!r} ({hint}); or give module:factory")


def load(target: str) -> TargetFactory | RequestTargetFactory:
    """What `target` names: a registered name, or `module:factory`.

    That is a `TargetFactory`, a `RequestTargetFactory`, or any callable from a Configuration to
    a Target, which then promises the whole contract. The current directory is searched too.
    """
    entry = registered().get(target)
    module, _, attribute = place(target).partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: object = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as error:  # a module may fail in any way when it is imported
        why = f"{type(error).__name__}: {error}"
        if entry is not None and isinstance(error, ImportError) and module.startswith("kvref."):
            why += "; pip install 'kvref[gpu]'"
        raise UnknownTarget(f"target {target!r} cannot be imported: {why}") from error
    if isinstance(found, TargetFactory | RequestTargetFactory):
        return found
    if not callable(found):
        raise UnknownTarget(f"target {target!r} is a {type(found).__name__}, not a factory")
    return TargetFactory(found)
