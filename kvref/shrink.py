"""Shrinks a program that fails to a short one that fails in the same way.

A delta debugger: the judge stays the judge, and every smaller program is run. First the program is
cut at the difference, then the shortest end of it is looked for that fails from an empty start,
then runs of operations are left out, long ones first, then single ones, and at last what is in the
operations is simplified (`Machine.passes`), which may make more operations superfluous.

No randomness: the same program and target shrink to the same end, unless time ran out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from kvref.buffers import left_alone
from kvref.divergence import Divergence, DivergenceKind
from kvref.machine import Bench, Machine, Program, keep
from kvref.target import CannotBuild

__all__ = ["LOOKED", "Alike", "NotFailing", "Shrunk", "Way", "same_way", "shrink"]

Way = Hashable
Alike = Callable[[Divergence], Way]
"""Two failures are alike where this gives equal values."""

LOOKED = (DivergenceKind.STRUCTURE, DivergenceKind.INTEGRITY)
"""Found when somebody looked, which may be after any operation."""

_SHORTEST_WINDOW = 16
_PAIRS_UP_TO = 12
_REMEMBERED_UP_TO = 2000
_REPAIRED_ABOVE = 40
_ONE_TRY_ABOVE = 2000


def same_way(divergence: Divergence) -> Way:
    """Kind, law and type of the operation; the operation not where only a look found it."""
    looked = divergence.kind in LOOKED
    operation = "" if looked else type(divergence.operation).__name__
    return divergence.kind, divergence.law, operation


class NotFailing(Exception):
    """There is nothing to shrink: the program agrees with the oracle."""


@dataclass(frozen=True)
class Shrunk:
    """The shortest program found, and its difference.

    Attributes:
        look_every: with which it fails.
        tries: how many programs were run.
        finished: nothing more could be left out. False where time ran out or somebody
            interrupted (`interrupted`): then it is the best so far.
        kept_buffer: it does not fail where a bridge leaves buffers alone (`kvref.buffers`).
    """

    program: Program
    divergence: Divergence
    look_every: int
    tries: int
    finished: bool
    interrupted: bool = False
    kept_buffer: bool = False


class _OutOfTime(Exception):
    pass


def shrink(
    machine: Machine,
    bench: Bench,
    program: Program,
    *,
    alike: Alike = same_way,
    seconds: float | None = None,
    progress: Callable[[int, int], None] = lambda operations, tries: None,
) -> Shrunk:
    """The shortest program found that fails as this one does; NotFailing if it does not fail.

    Args:
        machine: of the operations.
        bench: the target.
        program: what fails.
        alike: which failures count as the same.
        seconds: after so much time the best so far is good enough; None for no limit. What it
            takes to run the program itself is not counted.
        progress: told after each try how many operations there are left, and the tries.
    """
    shrinker = _Shrinker(machine, bench, alike, progress)
    shrinker.begin(program)
    finished = interrupted = kept_buffer = False
    if seconds is not None:
        shrinker.deadline = time.monotonic() + seconds
    try:
        with suppress(_OutOfTime):
            shrinker.minimise()
            finished = True
        kept_buffer = shrinker.kept_buffer()
    except KeyboardInterrupt:
        interrupted = True
    assert shrinker.divergence is not None
    return Shrunk(
        shrinker.best,
        shrinker.divergence,
        shrinker.look_every,
        shrinker.tries,
        finished,
        interrupted,
        kept_buffer,
    )


class _Shrinker:
    def __init__(
        self,
        machine: Machine,
        bench: Bench,
        alike: Alike,
        progress: Callable[[int, int], None],
    ) -> None:
        self.best = Program((), None)
        self.divergence: Divergence | None = None
        self.look_every = bench.look_every
        self.tries = 0
        self.deadline: float | None = None
        self._machine, self._bench, self._alike, self._progress = machine, bench, alike, progress
        self._way: Way = None
        self._seen: set[Program] = set()
        self._one_try = True  # in a very long program, where a second one takes its time
        self._partners: dict[int, int] = {}
        self._partners_of: Program | None = None

    def begin(self, program: Program) -> None:
        """Run the program, and take what comes before its difference and is not needed off."""
        divergence = self._bench.run(program)
        if divergence is None:
            raise NotFailing
        self._way = self._alike(divergence)
        self._take(program, divergence)
        if divergence.kind in LOOKED and self.look_every > 1:
            # Where the damage is done, and not where somebody happened to look. What is found
            # then may be another fault, of course.
            closer = self._bench.run(self.best, look_every=1)
            if closer is not None and self._alike(closer) == self._way:
                self.look_every = 1
                self._take(self.best, closer)

    def minimise(self) -> None:
        """Until nothing more can be left out."""
        if len(self.best.operations) > _REPAIRED_ABOVE:
            self._fails(self._machine.untangled(self.best, self._bench.promises))
        self._windows()
        while True:
            self._leave_out()
            before = self.best
            self._simplify()
            if self.best == before:
                return

    def kept_buffer(self) -> bool:
        """Whether the best agrees with the oracle as long as nobody overwrites a buffer."""
        assert self.divergence is not None
        if self.divergence.kind in (DivergenceKind.HANG, DivergenceKind.CRASH):
            return False  # the program says enough, and would take its time
        with left_alone():
            return self._bench.run(self.best, look_every=self.look_every) is None

    @property
    def _last(self) -> int:
        """1 where the last operation has to stay: it is there that the program fails.

        Without it a look at the end may still find what it did not do.
        """
        assert self.divergence is not None
        return int(self.divergence.kind not in LOOKED)

    # -------------------------------------------------------------------------------- tries

    def _take(self, program: Program, divergence: Divergence) -> None:
        """What comes after the difference had no part in it."""
        self.best = Program(program.operations[: divergence.index + 1], program.configuration)
        self.divergence = divergence

    def _fails(self, program: Program) -> bool:
        """Whether it fails in the same way; then it is the best."""
        if len(program.operations) <= _REMEMBERED_UP_TO:
            if program in self._seen:
                return False
            self._seen.add(program)
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise _OutOfTime
        self.tries += 1
        try:
            divergence = self._bench.run(program, look_every=self.look_every)
        except CannotBuild:
            divergence = None
        fails = divergence is not None and self._alike(divergence) == self._way
        if divergence is not None and fails:
            self._take(program, divergence)
        self._progress(len(self.best.operations), self.tries)
        return fails

    def _only(self, indices: Sequence[int]) -> bool:
        """Whether these operations fail alone, in a long program also when that is made right."""
        if len(indices) > _REPAIRED_ABOVE:
            if self._fails(self._repaired(indices)):
                return True
            if self._one_try and len(indices) > _ONE_TRY_ABOVE:
                return False
        operations = keep(self._machine, self.best.operations, indices)
        return self._fails(Program(operations, self.best.configuration))

    def _repaired(self, indices: Sequence[int]) -> Program:
        """These operations without those whose partner is not among them, made right again."""
        machine, promises = self._machine, self._bench.promises
        if self._partners_of is not self.best:
            self._partners_of = self.best
            self._partners = machine.partners(self.best)
        kept, partners = set(indices), self._partners
        whole = [index for index in indices if partners.get(index, index) in kept]
        operations = keep(machine, self.best.operations, whole)
        return machine.repaired(Program(operations, self.best.configuration), promises)

    # --------------------------------------------------------------- fewer operations

    def _windows(self) -> None:
        """Most failures need only what came shortly before: try ends of the run, short ones first.

        The tries together run fewer operations than the program has.
        """
        total = len(self.best.operations)
        length = _SHORTEST_WINDOW
        while length < total // 8:
            if self._only(self._window(total - length, total)):
                return
            length *= 2

    def _window(self, start: int, stop: int) -> list[int]:
        """These, and what made that which they name."""
        reference, operations = self._machine.reference, self.best.operations
        made = {reference(operations[index]) for index in range(start, stop)}
        earlier = sorted(index for index in made if index is not None and 0 <= index < start)
        return [*earlier, *range(start, stop)]

    def _leave_out(self) -> None:
        """Runs of operations, halves first, down to single ones until none can go; then pairs."""
        total = len(self.best.operations)
        size = max(1, total // 2)
        while True:
            found = self._pass(size)
            if size <= total // 8 and len(self.best.operations) == total:
                # Nothing yet. Perhaps because it needs what is wrong in it, and was made right.
                size = total if self._one_try and size > 1 else size
                self._one_try = False
            if size > 1:
                size //= 2
            elif not found and not self._pair():
                return

    def _pass(self, size: int) -> bool:
        """Try to leave out each run of that size, from the end on; whether any could go."""
        found = False
        stop = len(self.best.operations) - self._last
        while stop > 0:
            start = max(0, stop - size)
            total = len(self.best.operations)
            if self._only([*range(start), *range(stop, total)]):
                found = True
            stop = min(start, len(self.best.operations) - self._last)
        return found

    def _pair(self) -> bool:
        """Try to leave out two that need each other, as a lock and its unlock."""
        total = len(self.best.operations)
        if total > _PAIRS_UP_TO:
            return False
        return any(
            self._only([index for index in range(total) if index not in pair])
            for pair in combinations(range(total - self._last), 2)
        )

    # -------------------------------------------------------------- simpler operations

    def _simplify(self) -> None:
        """One pass after the other, again and again until none finds anything."""
        found = True
        while found:
            found = False
            for simpler in self._machine.passes:
                found |= self._exhaust(simpler)

    def _exhaust(self, simpler: Callable[[Program, Any], Iterator[Program]]) -> bool:
        """Take what the pass offers until nothing of it fails any more; whether any did.

        After a success the offers are new ones. Going on where it was is right most often; from
        the start again only when the end was reached.
        """
        found, position = False, 0
        while True:
            for number, candidate in enumerate(simpler(self.best, self._bench.promises)):
                if number >= position and self._fails(candidate):
                    found, position = True, number
                    break
            else:
                if position == 0:
                    return found
                position = 0
