"""What a campaign does with each failure: writes it, shrinks it, and shows the shortest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from kvref.buffers import KEPT
from kvref.campaign import Failure
from kvref.divergence import Divergence, DivergenceKind
from kvref.known import KnownFailures, fingerprint
from kvref.machine import Bench, Machine, Program
from kvref.shrink import NotFailing, Shrunk, same_way, shrink
from kvref.traces.failures import python_of, record, write_failure
from kvref.traces.targets import replay_command
from kvref.traces.writer import safe_name

__all__ = ["Findings", "Shrinking", "body", "length"]

SECONDS = 5.0
"""For shrinking one failure while a campaign waits. `kvref shrink` has all the time it wants."""


@dataclass(frozen=True)
class Shrinking:
    """How to shrink: `quick` is a bench with a short time limit, on which a hang is a short one."""

    quick: Bench
    seconds: float = SECONDS


@dataclass
class _Way:
    """One way of failing, and the shortest program found for it."""

    count: int = 0
    best: Shrunk | None = None
    path: Path | None = None


@dataclass
class Findings:
    """All failures of a campaign.

    Attributes:
        again: the command that the campaign was started by, as far as a run depends on it.
        found: how many there were of each kind at each operation, known ones left out.
    """

    console: Console
    machine: Machine
    bench: Bench
    target: str
    again: str
    out: Path
    shrinking: Shrinking | None
    known: KnownFailures
    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    _ways: dict[object, _Way] = field(default_factory=dict)

    def take(self, failure: Failure) -> None:
        """Shrink it, see whether it is known, and if not write and show it."""
        program = Program(failure.operations, failure.configuration)
        shrunk = self._shrunk(program, failure.divergence)
        if shrunk is not None and shrunk.finished:
            seen = fingerprint(self.machine, shrunk.program, shrunk.divergence)
            if self.known.meet(seen) is not None:
                return
        divergence = failure.divergence
        self.found[divergence.kind.value, type(divergence.operation).__name__] += 1
        which = "-requests" if self.machine.name == "requests" else ""
        stem = f"{safe_name(self.target)}{which}-seed{failure.seed}-run{failure.run}"
        path = self.out / f"{stem}.jsonl"
        where = self._write(path, failure, program)
        way = self._ways.setdefault(same_way(divergence), _Way())
        way.count += 1
        again = f"{self.again} --seed {failure.seed} --run {failure.run}"
        if way.count == 1:
            self._in_full(failure, again, path, where, shrunk)
        else:
            self._put(f"once more: {divergence.kind.value}, {again}, {where}")
        if shrunk is not None:
            self._keep_shortest(way, shrunk, failure, self.out / f"{stem}-shrunk.jsonl")
        if shrunk is not None and shrunk.interrupted:
            raise KeyboardInterrupt

    # ----------------------------------------------------------------------------- shrinking

    def _shrunk(self, program: Program, divergence: Divergence) -> Shrunk | None:
        """None where it was not asked for, or the failure does not come again."""
        if self.shrinking is None:
            return None
        try:
            hangs = divergence.kind is DivergenceKind.HANG
            bench = self.shrinking.quick if hangs else self.bench
            shrunk = shrink(self.machine, bench, program, seconds=self.shrinking.seconds)
            if hangs:  # it may have been slow and no more
                really = self.bench.run(shrunk.program)
                if really is None or same_way(really) != same_way(shrunk.divergence):
                    return None
        except NotFailing:
            return None
        return shrunk

    def _keep_shortest(self, way: _Way, shrunk: Shrunk, failure: Failure, path: Path) -> None:
        size = self.machine.size
        if way.best is not None and size(way.best.program) <= size(shrunk.program):
            self._put(f"  shrunk to {length(shrunk)}, no shorter than the one above")
            return
        previous, way.best = way.path, shrunk
        earlier = "" if way.count == 1 else ", shorter than before and kept instead"
        self._put(f"  shrunk to {length(shrunk)}{earlier}:")
        for line in body(self.machine, self.bench, shrunk):
            self._put(f"    {line}")
        if way.count > 1 or str(shrunk.divergence) != str(failure.divergence):
            for line in str(shrunk.divergence).splitlines():
                self._put(f"    {line}")
        try:
            write_failure(
                path,
                self.machine,
                self.bench,
                shrunk.program,
                shrunk.divergence,
                target=self.target,
                look_every=shrunk.look_every,
                seed=failure.seed,
                run=failure.run,
            )
        except OSError as error:
            self._put(f"  NOT written: {error}")
            return
        way.path = path
        if previous is not None:
            previous.unlink(missing_ok=True)
            previous.with_suffix(".py").unlink(missing_ok=True)
        self._put(f"  written to {path}; replay it: {replay_command(path, self.target)}")

    # --------------------------------------------------------------------- files and words

    def _write(self, path: Path, failure: Failure, program: Program) -> str:
        """Says where, or why not, so that a full disk ends no campaign."""
        try:
            came_again = write_failure(
                path,
                self.machine,
                self.bench,
                program,
                failure.divergence,
                target=self.target,
                seed=failure.seed,
                run=failure.run,
            )
        except OSError as error:
            return f"NOT written: {error}"
        flaky = "" if came_again else "; IT DID NOT COME AGAIN when it was run again"
        return f"written to {path}, and as a program beside it (.py){flaky}"

    def _in_full(
        self, failure: Failure, again: str, path: Path, where: str, shrunk: Shrunk | None
    ) -> None:
        """The difference, how to have it again, and the end of the program if it is not shrunk."""
        self.console.print("\n[bold red]DIFFERENCE[/bold red] ", end="")
        self._put(str(failure.divergence))
        self._put(f"  run again: {again}")
        self._put(f"  {where}")
        if shrunk is None:
            self._put(f"  the program ends ({len(failure.operations)} operations in all):")
            for line in failure.program.splitlines()[-8:]:
                self._put(f"    {line}")
            if path.exists():
                self._put(f"  replay it: {replay_command(path, self.target)}")

    def _put(self, line: str) -> None:
        self.console.print(line, markup=False)


def body(machine: Machine, bench: Bench, shrunk: Shrunk) -> list[str]:
    """The program without what every program begins with."""
    records = record(bench, shrunk.program, shrunk.divergence, shrunk.look_every)
    python = python_of(machine, shrunk.program, records or ())
    remark = [f"# {KEPT}"] if shrunk.kept_buffer else []
    return [*python.rpartition("\n\n")[2].splitlines(), *remark]


def length(shrunk: Shrunk) -> str:
    """How long the program is, and whether it may become shorter yet."""
    count = len(shrunk.program.operations)
    words = "1 operation" if count == 1 else f"{count} operations"
    return words if shrunk.finished else f"{words} (not finished: kvref shrink goes on)"
