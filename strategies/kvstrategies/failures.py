"""A failure of a state machine goes through the shrinker of kvref too, and the shorter is shown.

Hypothesis shrinks what it drew; kvref shrinks what was issued, and knows what it means.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis.control import _current_build_context

from kvref.machine import Bench, Machine, Program
from kvref.testing import explaining
from kvref.testing.found import Found

__all__ = ["is_final", "is_known", "shorter"]


def is_final() -> bool:
    """Whether this is the run that Hypothesis shows: its last, after shrinking."""
    context = _current_build_context.value
    return context is not None and bool(context.is_final)


def is_known(machine: Machine, bench: Bench, judge: Any) -> bool:
    """Whether the failure is one of those that this session goes past."""
    program = Program(tuple(judge.operations), judge.configuration)
    return explaining.known(machine, bench, program) is not None


def shorter(
    machine: Machine, bench: Bench, judge: Any, text: str, target: str | None, folder: Path
) -> Found:
    """The failure with the shorter program, and where to find it.

    Args:
        machine, bench: of the target that failed.
        judge: of the run that failed.
        text: what would be said otherwise.
        target: its name, for the file; None where it has none.
        folder: for the file.
    """
    return explaining.explained(
        machine,
        bench,
        Program(tuple(judge.operations), judge.configuration),
        judge.divergence,
        target=target,
        folder=folder,
        note="found by the state machine",
        text=text,
    )
