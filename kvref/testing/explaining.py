"""What a test says of a failure: shrunk, as a program, on disk, with the line that replays it."""

from __future__ import annotations

from pathlib import Path

from kvref.buffers import KEPT
from kvref.divergence import Divergence
from kvref.known import Known, KnownFailures, fingerprint
from kvref.machine import Bench, Machine, Program
from kvref.shrink import NotFailing, Shrunk, shrink
from kvref.testing.found import Found
from kvref.traces.failures import python_of, record, write_failure
from kvref.traces.targets import replay_command
from kvref.traces.writer import safe_name

__all__ = ["SECONDS", "explained", "known", "known_failures", "use_known"]

SECONDS = 5.0
"""For shrinking: somebody waits for the end of a test."""

_failures = KnownFailures(())


def use_known(failures: KnownFailures) -> None:
    """Go past these from now on in this process."""
    global _failures
    _failures = failures


def known_failures() -> KnownFailures:
    """Those in force, and how often each was met."""
    return _failures


def known(machine: Machine, bench: Bench, program: Program) -> Known | None:
    """The known failure that this program ends in, counted; None if it is new.

    Costs a shrinking, so nothing is done where none is known.
    """
    if not _failures:
        return None
    try:
        shrunk = shrink(machine, bench, program, seconds=SECONDS)
    except NotFailing:
        return None
    if not shrunk.finished:
        return None
    return _failures.meet(fingerprint(machine, shrunk.program, shrunk.divergence))


def explained(
    machine: Machine,
    bench: Bench,
    program: Program,
    divergence: Divergence,
    *,
    target: str | None,
    folder: Path,
    note: str,
    text: str = "",
    seed: int | None = None,
    run: int | None = None,
) -> Found:
    """The failure with the shorter program, and where to find it.

    Args:
        machine, bench, program: what failed, and where.
        divergence: how.
        target: its name, for the file; None where it has none.
        folder: for the file.
        note: for its header.
        text: what is said where no program is shorter than this one.
        seed, run: of the campaign that found it.
    """
    try:
        shrunk = shrink(machine, bench, program, seconds=SECONDS)
    except NotFailing:
        program_text = text or f"{divergence}\n\nthe program:\n{_python(machine, program)}"
        return Found(f"{program_text}\n\nkvref: it did not fail when it was run again")
    if not text or machine.size(shrunk.program) < machine.size(program):
        records = record(bench, shrunk.program, shrunk.divergence, shrunk.look_every)
        python = python_of(machine, shrunk.program, records or ())
        count = len(program.operations)
        text = f"{shrunk.divergence}\n\nthe program (from {count} operations):\n{python}"
    if shrunk.kept_buffer:
        text = f"{text}\n# {KEPT}"
    path = _path(folder, machine, target, shrunk)
    again = f"replay it: {replay_command(path, target)}"
    try:
        write_failure(
            path,
            machine,
            bench,
            shrunk.program,
            shrunk.divergence,
            target=target,
            look_every=shrunk.look_every,
            seed=seed,
            run=run,
            note=note,
        )
    except OSError as error:
        return Found(f"{text}\nNOT written: {error}")
    return Found(f"{text}\n{again}", path)


def _path(folder: Path, machine: Machine, target: str | None, shrunk: Shrunk) -> Path:
    kind = shrunk.divergence.kind.value
    operation = type(shrunk.divergence.operation).__name__.lower()
    which = "" if machine.name == "manager" else f"-{machine.name}"
    return folder / f"{safe_name(target or 'machine')}{which}-{kind}-{operation}.jsonl"


def _python(machine: Machine, program: Program) -> str:
    return machine.python(program, (), ())
