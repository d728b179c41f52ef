"""Watches the judge of a bare manager, and counts what its operations met."""

from __future__ import annotations

from typing import Any, Protocol

from kvref.answers import Answer, Returned
from kvref.configuration import Configuration
from kvref.naive_oracle import NaiveOracle
from kvref.operations import Evict, Insert, Lock, Match, Reset, Unlock
from kvref.oracle import Oracle
from kvref.refusals import Refusal, RefusalKind
from kvref.situations.evictions import evicted, refused_evict, reset
from kvref.situations.locks import locked, refused_handle, unlocked
from kvref.situations.memory import Memory
from kvref.situations.registry import (
    ACCEPTED,
    PAGE_SIZES,
    bit,
    kind_bit,
    law_bit,
    mark_bit,
)
from kvref.situations.shape import EMPTY_TREE, shape
from kvref.situations.walks import arguments, inserted, matched, refused_insert

__all__ = ["Looking", "ManagerWatcher"]

_RESET_LOCKED = bit("reset-while-locked")
_RESET_EMPTY = bit("reset-of-nothing")
_LENGTHS = bit("insert-of-different-lengths")
_NO_HANDLE = bit("not-a-handle")
_EMPTY = bit("empty-handle") | law_bit("the-empty-handle")
_WRONG_SIZES = {
    RefusalKind.TYPE: bit("evict-of-no-number"),
    RefusalKind.VALUE: bit("evict-of-less-than-nothing"),
}
_LOOKS = ("structure", "integrity")
_SIZES = law_bit("sizes")
_UNCHANGED = law_bit("refused-unchanged")
_REFUSED = {
    RefusalKind.TYPE: law_bit("wrong-types"),
    RefusalKind.VALUE: law_bit("wrong-values"),
    RefusalKind.STALE: law_bit("stale-handles"),
    RefusalKind.FOREIGN: law_bit("foreign-handles"),
    RefusalKind.UNBALANCED: law_bit("unbalanced-unlocks"),
    RefusalKind.NOT_EVICTABLE: law_bit("not-evictable"),
    RefusalKind.IN_USE: law_bit("reset-in-use"),
    RefusalKind.UNSUPPORTED: 0,
}

_ACCEPTED = mark_bit(ACCEPTED)
_KIND_ALONE: dict[type, int] = {
    kind: kind_bit(kind.__name__.lower()) for kind in (Match, Insert, Lock, Unlock, Evict, Reset)
}
_KIND = {kind: its | _ACCEPTED for kind, its in _KIND_ALONE.items()}
_MATCH, _LOCK, _UNLOCK = _KIND[Match], _KIND[Lock], _KIND[Unlock]


class Looking(Protocol):
    """What is read from a judge while it runs."""

    looks: int


class ManagerWatcher:
    """A listener of one judge. `counts` and `looks` are its caller's, and shared by many runs.

    What an operation meets is seen after the oracle answered, from a few pages and from what the
    watcher remembers: it never walks the tree, and looks at all leaves only where an evict did.
    """

    def __init__(
        self, configuration: Configuration, counts: dict[int, int], looks: dict[str, int]
    ) -> None:
        self._memory = Memory(
            configuration.page_size, configuration.num_slots, configuration.policy
        )
        self._counts = counts
        self._looks = looks
        size = PAGE_SIZES[configuration.page_size > 1]
        self._marks = mark_bit(size) | mark_bit(configuration.policy)
        self._came_upon = self._marks | EMPTY_TREE
        self._operation: Any = None
        self._expected: Any = None
        self._answer: Answer | None = None
        self._judge: Looking | None = None
        self._looks_seen = 0

    def attach(self, judge: Looking) -> None:
        """Watch how often it looks, too."""
        self._judge = judge

    def finish(self) -> None:
        """After the last look of the run."""
        self._see_looks()

    # ------------------------------------------------------------- what the judge tells

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        """The operation is about to run; the oracle has answered."""
        self._operation, self._expected = operation, expected

    def answers(self, index: int, answer: Answer) -> None:
        """What came back."""
        self._answer = answer

    def skips(self, index: int, operation: Any, oracle: Oracle | NaiveOracle) -> None:
        """It was not issued, so nothing was met."""

    def ends(self, index: int, oracle: Oracle | NaiveOracle) -> None:
        """The operation was judged: count what it met."""
        memory, operation, expected = self._memory, self._operation, self._expected
        judge = self._judge
        if judge is not None and judge.looks != self._looks_seen:
            self._see_looks()
        met = self._came_upon
        if type(expected) is Refusal:
            met |= _refused(memory, oracle, operation, expected)
        elif isinstance(oracle, NaiveOracle):
            met |= _KIND[type(operation)] | _without_memory(memory.page_size, operation)
        else:
            # By type, the most frequent first: this runs once an operation.
            kind = type(operation)
            if kind is Match:
                met |= matched(memory, oracle, index, operation, expected) | _MATCH
            elif kind is Lock:
                met |= locked(memory, oracle, operation) | _LOCK
                memory.evictable = oracle.evictable_size
                memory.protected = oracle.protected_size
            elif kind is Unlock:
                met |= unlocked(memory, oracle, operation) | _UNLOCK
                memory.evictable = oracle.evictable_size
                memory.protected = oracle.protected_size
            else:
                met |= self._changed(index, oracle, operation, expected) | _KIND[kind]
                memory.evictable = oracle.evictable_size
                memory.protected = oracle.protected_size
                self._came_upon = self._marks | shape(oracle)
                if memory.evictable or memory.protected:
                    self._came_upon |= _SIZES
        counts = self._counts
        counts[met] = counts.get(met, 0) + 1

    def _changed(self, index: int, oracle: Oracle, operation: Any, expected: Any) -> int:
        memory, kind = self._memory, type(operation)
        if kind is Insert:
            return inserted(memory, oracle, index, operation, expected)
        if kind is Reset:
            return reset(memory, expected)
        size = memory.page_size
        if isinstance(expected, list):
            firsts, freed = expected[::size], len(expected)
            return evicted(memory, oracle, index, operation, firsts, freed)
        # The target's own choice, which the oracle has followed if it was a legal one.
        chosen = self._answer.value if isinstance(self._answer, Returned) else None
        slots = chosen if isinstance(chosen, list) else []
        pages = dict.fromkeys(slot // size * size for slot in slots)
        return evicted(memory, oracle, index, operation, pages, len(slots))

    def _see_looks(self) -> None:
        """Count the looks since the last operation, if there was anything to see."""
        looks = self._judge.looks if self._judge else 0
        if self._memory.evictable or self._memory.protected:
            for law in _LOOKS:
                self._looks[law] = self._looks.get(law, 0) + looks - self._looks_seen
        self._looks_seen = looks


def _refused(memory: Memory, oracle: Oracle | NaiveOracle, operation: Any, refusal: Refusal) -> int:
    kind = type(operation)
    met = _KIND_ALONE[kind] | _REFUSED[refusal.kind]
    if not isinstance(oracle, Oracle):
        return met | _without_memory(memory.page_size, operation, refusal)
    if memory.evictable or memory.protected:
        met |= _UNCHANGED
    if kind is Insert:
        return met | refused_insert(memory, oracle, operation)
    if kind is Evict:
        return met | refused_evict(memory, operation, refusal)
    if kind is Reset:
        return met | _RESET_LOCKED
    return met | refused_handle(memory, oracle, operation, refusal)


def _without_memory(page_size: int, operation: Any, refusal: Refusal | None = None) -> int:
    """Of a manager that remembers nothing: what can be told from the arguments alone."""
    kind = type(operation)
    if kind is Match or (kind is Insert and refusal is None):
        return arguments(operation, page_size)
    if kind is Insert:
        return _LENGTHS
    if kind is Evict:
        return _WRONG_SIZES.get(refusal.kind, 0) if refusal is not None else 0
    if kind is Lock or kind is Unlock:
        return _NO_HANDLE if refusal is not None else _EMPTY
    return _RESET_EMPTY
