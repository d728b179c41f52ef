"""A failure of a state machine goes through the shrinker of kvref too, and the shorter is shown.

Hypothesis shrinks what it drew; kvref shrinks what was issued, and knows what it means.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis.control import _current_build_context

from kvref.judge import Judge
from kvref.machine import Bench, Machine, Program
from kvref.manager_machine import MANAGER
from kvref.requests.judge import RequestJudge
from kvref.shrink import NotFailing, Shrunk, shrink
from kvref.traces.failures import write_failure
from kvref.traces.writer import safe_name

__all__ = ["is_final", "shorter"]

SECONDS = 5.0
"""For shrinking: somebody waits for the end of a test."""


def is_final() -> bool:
    """Whether this is the run that Hypothesis shows: its last, after shrinking."""
    context = _current_build_context.value
    return context is not None and bool(context.is_final)


def shorter(
    bench: Bench,
    judge: Judge | RequestJudge,
    text: str,
    target: str | None,
    folder: Path,
    machine: Machine = MANAGER,
) -> str:
    """The text of the failure with the shorter program, and where to find it.

    Args:
        bench: the target that failed.
        judge: of the run that failed.
        text: what would be said otherwise.
        target: its name, for the file; None where it has none.
        folder: for the file.
        machine: that of the bench.
    """
    program = Program(tuple(judge.operations), judge.configuration)
    try:
        shrunk = shrink(machine, bench, program, seconds=SECONDS)
    except NotFailing:
        return f"{text}\n\nkvref: it did not fail when it was run again"
    if machine.size(shrunk.program) < machine.size(program):
        program_text = machine.python(shrunk.program, (), ())
        text = (
            f"{shrunk.divergence}\n\nthe program (from {len(program.operations)} operations that "
            f"Hypothesis ended with):\n{program_text}"
        )
    return f"{text}\n{_written(bench, shrunk, target, folder, machine)}"


def _written(
    bench: Bench, shrunk: Shrunk, target: str | None, folder: Path, machine: Machine
) -> str:
    kind = shrunk.divergence.kind.value
    operation = type(shrunk.divergence.operation).__name__.lower()
    path = folder / f"{safe_name(target or 'machine')}-{kind}-{operation}.jsonl"
    try:
        write_failure(
            path,
            machine,
            bench,
            shrunk.program,
            shrunk.divergence,
            target=target,
            look_every=shrunk.look_every,
            note="found by the state machine",
        )
    except OSError as error:
        return f"NOT written: {error}"
    return f"replay it: kvref replay {path}" + ("" if target else " module:factory")
