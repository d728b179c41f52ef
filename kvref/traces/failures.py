"""A failure on disk: its trace, and beside it the same as a Python program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvref.divergence import Divergence, DivergenceKind
from kvref.export.exporters import export
from kvref.export.text import Style
from kvref.files import replace
from kvref.machine import Bench, Machine, Program
from kvref.shrink import same_way
from kvref.traces.format import Record, Trace
from kvref.traces.writer import Recorder, divergence_line, header_of, write_trace

__all__ = ["FAILURES", "python_of", "record", "write_failure"]


FAILURES = Path("kvref-failures")
"""The folder for what was found, if nobody names another."""


def record(
    bench: Bench, program: Program, divergence: Divergence, look_every: int
) -> list[Record] | None:
    """Run the program once more and write down what was said; None if it ends otherwise now.

    What hung or died is not made to do so again: of that operation there is no record.
    """
    gone = divergence.kind in (DivergenceKind.HANG, DivergenceKind.CRASH)
    operations = program.operations[: divergence.index + (0 if gone else 1)]
    recorder = Recorder()
    again = bench.run(program._replace(operations=operations), recorder, look_every=look_every)
    # Not the words: they may name addresses.
    came_again = (
        again is None
        if gone
        else again is not None
        and (same_way(again), again.index) == (same_way(divergence), divergence.index)
    )
    return recorder.records if came_again else None


def python_of(machine: Machine, program: Program, records: Sequence[Record]) -> str:
    """The program as Python, which goes on after what had to be refused."""
    refused, skipped = [], []
    for index, each in enumerate(records):
        if each.expected is None:
            skipped.append(index)
        elif each.expected.startswith("refused: "):
            refused.append(index)
    return machine.python(program, refused, skipped)


def write_failure(
    path: Path,
    machine: Machine,
    bench: Bench,
    program: Program,
    divergence: Divergence,
    *,
    target: str | None,
    look_every: int | None = None,
    seed: int | None = None,
    run: int | None = None,
    note: str | None = None,
) -> bool:
    """Write one failure, after running it once more; OSError if it cannot.

    First the trace, whole or not at all. Then beside it, with the ending .py, what `kvref export
    --as script` makes of it. Returns whether the failure came again; if it did not, the trace has
    the operations alone.
    """
    look_every = look_every or bench.look_every
    records = record(bench, program, divergence, look_every)
    header = header_of(
        machine,
        target,
        bench.promises,
        program.configuration,
        look_every=look_every,
        seed=seed,
        run=run,
        note=note,
    )
    ending = divergence_line(divergence)
    trace = Trace(header, machine, bench.promises, program, tuple(records or ()), ending)
    write_trace(path, machine, header, program, records or (), divergence)
    if path.is_file():  # of a pipe, or /dev/null, there is no beside
        replace(path.with_suffix(".py"), export(trace, Style.SCRIPT).encode())
    return records is not None
