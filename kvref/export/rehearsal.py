"""Runs a program without its target, to learn what has to come back from each operation.

There is no second judge: the one that judges targets is given an executor that is right because it
answers what the oracle has just said, and everything that the judge asks for is written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kvref.answers import Answer, Raised, Returned
from kvref.configuration import Configuration
from kvref.executor import Sizes
from kvref.judge import Judge
from kvref.listener import AnyOracle
from kvref.machine import Program
from kvref.manager_machine import rightly_owned
from kvref.naive_oracle import NaiveOracle
from kvref.operations import Evict, Insert, Match, Operation, Unlock
from kvref.oracle import Handle, NodeView, Oracle
from kvref.promises import Promises
from kvref.refusals import BUILTIN, Refusal
from kvref.requests.executor import RequestAnswer
from kvref.traces.format import Record

__all__ = ["Rehearsed", "Step", "raised", "rehearse"]


@dataclass
class Step:
    """One operation, and what has to come back.

    Attributes:
        expected: the oracle's answer, or a Refusal. The size for an eviction whose victims are
            the target's own choice: `chosen` is what it chose, `allowed` what no lock covered.
        skipped: not issued.
        twin: the match whose handle this one's is compared with, and whether they are equal.
        sizes: evictable and protected, afterwards.
    """

    index: int
    operation: Operation
    expected: Any = None
    skipped: bool = False
    chosen: list[int] | None = None
    allowed: list[int] | None = None
    twin: tuple[int, bool] | None = None
    sizes: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Rehearsed:
    """All that can be said of the program.

    Attributes:
        steps: of the program, in order.
        showing: evictions one by one after it, which show what lay where; none if not asked for.
        cut: why it ends before its end, or None.
    """

    steps: list[Step]
    showing: list[Step]
    cut: str | None


def rehearse(
    program: Program, promises: Promises, records: Sequence[Record], *, show: bool
) -> Rehearsed:
    """What has to come back from each operation, for a target that promises that.

    Args:
        records: what came back, for a target that chooses its victims itself.
        show: go on after the program, to bring out a difference that lies inside.
    """
    configuration: Configuration = program.configuration
    right = _Right(promises, records)
    judge = Judge(right, configuration, promises, look_every=2**62, listener=right)
    right.oracle = judge.oracle
    cut = None
    trusting = not configuration.checked and isinstance(judge.oracle, Oracle)
    for index, operation in enumerate(program.operations):
        if trusting and isinstance(operation, Insert):
            assert isinstance(judge.oracle, Oracle)
            if not rightly_owned(judge.oracle, operation):
                cut = "the slots of the next insert are none that its caller may give"
                break
        judge.apply(operation)
        if judge.divergence is not None:
            if index + 1 < len(program.operations):
                cut = "which slots went was not recorded, and what comes next depends on it"
            break
    steps = right.steps
    right.steps = []
    if show and judge.divergence is None and promises.eviction == "exact" and cut is None:
        for reference in judge.outstanding():
            judge.apply(Unlock(reference))
        while judge.oracle.evictable_size:
            judge.apply(Evict(1))
    return Rehearsed(steps, right.steps, cut)


class _Right:
    """A judge's executor and listener in one: it hears what is right before it is asked."""

    limited = False

    def __init__(self, promises: Promises, records: Sequence[Record]) -> None:
        self.steps: list[Step] = []
        self.oracle: Oracle | NaiveOracle | None = None
        self._promises, self._records = promises, records
        self._handles: dict[int, Handle] = {}

    # ------------------------------------------------------------------------- the listener

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        step = Step(index, operation, expected)
        if isinstance(operation, Match):
            self._handles[index] = expected[0]
        elif isinstance(operation, Evict) and self._own_choice(expected):
            assert self.oracle is not None
            got = self._records[index].got if index < len(self._records) else None
            step.chosen = _slots(got)
            unlocked = (page.slots for page in self.oracle.pages() if page.locks == 0)
            step.allowed = [slot for slots in unlocked for slot in slots]
        self.steps.append(step)

    def answers(self, index: int, answer: Answer | RequestAnswer) -> None:
        """It is our own."""

    def ends(self, index: int, oracle: AnyOracle) -> None:
        self.steps[-1].sizes = self._sizes()

    def skips(self, index: int, operation: Any, oracle: AnyOracle) -> None:
        self.steps.append(Step(index, operation, skipped=True))

    # ------------------------------------------------------------------------- the executor

    def call(self, index: int, operation: Operation) -> tuple[Answer, Sizes]:
        evictable, protected = self._sizes()
        step = self.steps[-1]
        if step.allowed is not None:  # the oracle follows once it has seen the choice
            evictable -= len(step.chosen or ())
        return self._answer(operation), (evictable, protected)

    def _answer(self, operation: Operation) -> Answer:
        step = self.steps[-1]
        expected = step.expected
        if isinstance(expected, Refusal):
            return raised(expected)
        if isinstance(operation, Match):
            handle, slots = expected
            return Returned(slots, handle.cached_len)
        if step.allowed is not None:
            return Returned(step.chosen or [])
        return Returned(expected)

    def integrity(self) -> Answer:
        return Returned(None)

    def nodes(self) -> list[NodeView] | Answer | None:
        return None

    def fingerprint(self) -> Any:
        return None

    def same_handle(self, one: int, other: int) -> bool | Answer:
        same = self._handles[one] == self._handles[other]
        self.steps[-1].twin = one, same
        return same

    def close(self) -> None:
        """Nothing to give back."""

    def _sizes(self) -> tuple[int, int]:
        assert self.oracle is not None
        return self.oracle.evictable_size, self.oracle.protected_size

    def _own_choice(self, expected: Any) -> bool:
        return self._promises.eviction == "legal" and isinstance(expected, int)


def raised(refusal: Refusal) -> Raised:
    """The answer of a target that refuses rightly."""
    builtin = BUILTIN[refusal.kind]
    bases = [each.__name__ for each in builtin.__mro__]
    return Raised(refusal.kind, bases, builtin.__name__, "", refusal.fields)


def _slots(got: str | None) -> list[int] | None:
    """The slots that a record of an eviction names; None if it names none."""
    try:
        return msgspec.json.decode((got or "").removeprefix("slots "), type=list[int])
    except msgspec.DecodeError:
        return None
