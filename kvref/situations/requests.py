"""Watches the judge of whole requests, and counts what its operations met."""

from __future__ import annotations

from typing import Any

from kvref.configuration import Configuration
from kvref.oracle import Oracle
from kvref.refusals import RefusalKind
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    RequestOperation,
    Store,
)
from kvref.requests.oracle import RequestOracle
from kvref.requests.run import Outcome
from kvref.situations.manager import Looking
from kvref.situations.registry import (
    ACCEPTED,
    PAGE_SIZES,
    bit,
    kind_bit,
    law_bit,
    mark_bit,
)
from kvref.situations.request_ends import committed, ended
from kvref.situations.request_memory import Before, RequestMemory
from kvref.situations.request_steps import (
    appended,
    begun,
    extended,
    refused_begin,
    refused_extend,
    stored,
)
from kvref.situations.shape import EMPTY_TREE, shape

__all__ = ["RequestWatcher"]

_ACCEPTED = mark_bit(ACCEPTED)
_KIND: dict[type, int] = {
    kind: kind_bit(kind.__name__.lower())
    for kind in (Begin, Extend, Append, Store, Commit, Finish, Abort, Preempt, Flush)
}
_ENDED = bit("use-after-the-end") | law_bit("refused-after-the-end")
_FLUSH = bit("flush-of-something")
_FLUSH_BESIDE = bit("flush-beside-a-request")
_FLUSH_LOCKED = bit("flush-while-locked")
_LAW_ROOM = law_bit("refused-for-room")
_LAW_SIZES = law_bit("request-sizes")
_LAW_FREE = law_bit("free-pages")
_LAW_UNCHANGED = law_bit("request-refused-unchanged")
_LOOKS = ("request-structure", "ledger")


class RequestWatcher:
    """An observer of one judge. `counts` and `looks` are its caller's, shared by many runs."""

    def __init__(
        self, configuration: Configuration, counts: dict[int, int], looks: dict[str, int]
    ) -> None:
        self._memory = RequestMemory(configuration.page_size)
        self._counts, self._looks = counts, looks
        size = PAGE_SIZES[configuration.page_size > 1]
        self._marks = mark_bit(size) | mark_bit(configuration.policy)
        self._before: Before | None = None
        self._tree = EMPTY_TREE
        self._judge: Looking | None = None
        self._looks_seen = 0
        self._cached = self._used = False

    def attach(self, judge: Looking) -> None:
        """Watch how often it looks, too."""
        self._judge = judge

    def finish(self) -> None:
        """After the last look of the run."""
        self._see_looks()

    # ---------------------------------------------------------------- what the judge shows

    def before(self, operation: RequestOperation, oracle: RequestOracle) -> None:
        """Note what the operation will change."""
        self._see_looks()
        self._before = before = Before(oracle)
        if isinstance(operation, Begin):
            before.of_begin(operation, oracle, self._memory)
        elif not isinstance(operation, Flush):
            request = oracle.requests[operation.request]
            if request.running:
                before.of_request(request, self._memory.page_size)
                if isinstance(operation, Commit | Finish):
                    before.of_insert(request, oracle)
        self._tree = shape(oracle.cache) if isinstance(oracle.cache, Oracle) else EMPTY_TREE

    def after(
        self, index: int, operation: RequestOperation, outcome: Outcome, oracle: RequestOracle
    ) -> None:
        """It was judged: count what it met."""
        before = self._before
        assert before is not None
        met = self._marks | self._tree | _KIND[type(operation)]
        if self._cached:
            met |= _LAW_SIZES
        if self._used:
            met |= _LAW_FREE
        if outcome.refused is None:
            met |= _ACCEPTED | self._accepted(index, operation, outcome, oracle, before)
        else:
            met |= self._refused(operation, outcome, before)
            if self._used:
                met |= _LAW_UNCHANGED
        self._counts[met] = self._counts.get(met, 0) + 1
        cache = oracle.cache
        self._cached = cache.evictable_size + cache.protected_size > 0
        self._used = self._cached or oracle.num_running > 0

    def _accepted(
        self,
        index: int,
        operation: Any,
        outcome: Outcome,
        oracle: RequestOracle,
        before: Before,
    ) -> int:
        memory, kind = self._memory, type(operation)
        if kind is Begin:
            return begun(memory, before, operation, outcome, oracle.requests[index])
        if kind is Flush:
            met = _FLUSH if before.evictable else 0
            return met | _FLUSH_BESIDE if before.running else met
        if kind is Append:
            return appended(before, operation)
        if kind is Commit:
            return committed(memory, before, operation.request)
        request = oracle.requests.get(operation.request)
        if request is not None and kind is Extend:
            return extended(memory, before, operation, outcome, request)
        if request is not None and kind is Store:
            return stored(memory, before, request)
        if request is not None and kind is Preempt:
            memory.preempted.add(tuple(request.tokens))
        return ended(memory, before, operation)

    def _refused(self, operation: Any, outcome: Outcome, before: Before) -> int:
        refusal = outcome.refused
        assert refusal is not None
        if refusal.kind is RefusalKind.ENDED:
            return _ENDED
        if refusal.kind is RefusalKind.IN_USE:
            return _FLUSH_LOCKED
        met = _LAW_ROOM if refusal.kind is RefusalKind.NO_ROOM else 0
        if isinstance(operation, Begin):
            return met | refused_begin(self._memory, before, outcome)
        return met | refused_extend(outcome)

    def _see_looks(self) -> None:
        """Count the looks since the last operation, if there was anything to see."""
        looks = self._judge.looks if self._judge else 0
        for law in _LOOKS:
            if self._cached or (law == "ledger" and self._used):
                self._looks[law] = self._looks.get(law, 0) + looks - self._looks_seen
        self._looks_seen = looks
