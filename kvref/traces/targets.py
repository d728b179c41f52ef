"""The target that a file names: data like the rest of it, and imported only if it is registered.

A name that a package registered is code that somebody installed. `module:factory` in a file could
name anything that can be imported from the working directory, and whoever wrote the file would
have it called.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from kvref.registry import UnknownTarget, registered
from kvref.traces.format import Trace

__all__ = ["NoTarget", "replay_command", "target_of"]


class NoTarget(LookupError):
    """The file names none, and none was given."""


def target_of(trace: Trace, path: Path, given: str | None, command: Sequence[str]) -> str:
    """The name of the target to run the trace on: the one given, or the one that the file names.

    Args:
        trace, path: the file.
        given: by whoever runs it, who may name anything.
        command: what has to be typed before the name of a target to give one.

    Raises:
        NoTarget: there is none.
        UnknownTarget: the file names one that is not registered; the text says how to give it.
    """
    if given is not None:
        return given
    named = trace.header.target
    if named is None:
        raise NoTarget(f"{path} names no target; give one: {_typed(*command, 'module:factory')}")
    if named not in registered() and ":" in named:
        raise UnknownTarget(
            f"{path} names the target {named!r}, which is not registered, and a file may come "
            "from anybody: what it names is not imported unless you name it yourself: "
            f"{_typed(*command, named)}"
        )
    return named


def replay_command(path: Path, target: str | None) -> str:
    """What replays the trace at `path` on this target, of which None has no name."""
    named = target or "module:factory"
    return _typed("kvref", "replay", str(path), *([] if named in registered() else [named]))


def _typed(*arguments: str) -> str:
    return " ".join(map(shlex.quote, arguments))
