"""Runs a program of whole requests without its target, to learn what has to come back.

As for bare managers (`kvref.export.rehearsal`): the judge is given an executor that answers what
the oracle has just said, and all that it asks for is written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kvref.answers import Answer, Returned
from kvref.export.rehearsal import raised
from kvref.export.request_expected import Content, Look, RequestStep, Span
from kvref.listener import AnyOracle, Foreseen
from kvref.machine import Program
from kvref.oracle import NodeView, Oracle, Page
from kvref.refusals import Refusal
from kvref.requests.executor import Done, Pool, RequestAnswer
from kvref.requests.judge import RequestJudge
from kvref.requests.ledger import FREE
from kvref.requests.operations import (
    Abort,
    Begin,
    Commit,
    Extend,
    Flush,
    Preempt,
    RequestOperation,
    Store,
)
from kvref.requests.oracle import Request, RequestOracle
from kvref.requests.promises import RequestPromises
from kvref.requests.target import ON_THE_DEVICE

__all__ = ["RehearsedRequests", "rehearse_requests"]


@dataclass(frozen=True)
class RehearsedRequests:
    """All that can be said of the program.

    Attributes:
        steps: of the program, in order.
        showing: after it the ends of all that runs, and begins with what is cached; `evicted`:
            what goes then, one node after the other. Nothing if not asked for.
        cut: why it ends before its end, or None.
    """

    steps: list[RequestStep]
    showing: list[RequestStep]
    evicted: list[list[Span]]
    cut: str | None


def rehearse_requests(
    program: Program,
    promises: RequestPromises,
    *,
    look_every: int,
    show: bool,
    find_again: bool,
) -> RehearsedRequests:
    """What has to come back from each operation, for a target that promises that.

    Args:
        look_every: as often as the run did that it is the program of.
        show: go on after the program, to bring out a difference that lies inside.
        find_again: by beginning with all that is cached, too. That uses it, so it hides what
            was used when.
    """
    right = _Right()
    judge = _Judge(right, program.configuration, promises, look_every=look_every, listener=right)
    right.judge = judge
    cut = None
    for operation in program.operations:
        if judge.apply(operation) is not None:
            cut = "which slots went is the target's own choice, and was not recorded"
            right.steps.pop()
            break
    if right.steps and right.steps[-1].look is None:
        judge.look()
    steps, evicted = list(right.steps), []
    del right.steps[:]
    exact = promises.eviction == "exact"
    if show and cut is None:
        for request in judge.oracle.running():
            judge.apply(Preempt(request.number))
        if find_again and exact and isinstance(judge.oracle.cache, Oracle):
            _find_again(judge, judge.oracle.cache)
        if right.steps:
            right.steps[-1].look = None
            judge.look()
        while exact and judge.oracle.cache.evictable_size:
            evicted.append(right.spans(judge.oracle.cache.evict(1)))
    return RehearsedRequests(steps, right.steps, evicted, cut)


def _find_again(judge: RequestJudge, cache: Oracle) -> None:
    """Begin with each cached prefix, in its namespace and in none, and end that at once."""
    for leaf in list(cache.leaves):
        tokens: tuple[int, ...] = (0,)
        page: Page | None = leaf
        while page is not None:
            tokens, page = page.tokens + tokens, page.parent
        for namespace in dict.fromkeys((leaf.namespace, None)):
            if leaf.cached and len(tokens) <= judge.oracle.max_len:
                number = judge.count
                judge.apply(Begin(tokens, namespace, max_tokens=1))
                judge.apply(Abort(number))


class _Oracle(RequestOracle):
    """Evicts when it is first asked for it, and says the same when it is asked again."""

    _evicted: list[int] | None = None

    def evict_early(self, missing: int) -> None:
        """Before the judge asks, so that the pages can be given that become free by it."""
        self._evicted = super().evict(missing)

    def evict(self, missing: int) -> list[int]:
        """As it did."""
        evicted, self._evicted = self._evicted, None
        return super().evict(missing) if evicted is None else evicted


class _Judge(RequestJudge):
    oracle_class = _Oracle
    oracle: _Oracle


class _Right:
    """A judge's executor and listener in one: it hears what is right before it is asked."""

    limited = False
    judge: _Judge

    def __init__(self) -> None:
        self.steps: list[RequestStep] = []
        self._places: dict[int, tuple[int, int]] = {}  # of each slot: the request, where in its row
        self._lengths: dict[int, int] = {}  # of all rows
        self._cached: dict[int, int] = {}
        self._sequences: dict[int, list[int]] = {}  # the judge's, which it forgets at the end
        self._tags: dict[int, int] = {}  # in each slot
        self._stores = 0

    # ------------------------------------------------------------------------- the listener

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        step = RequestStep(index, operation, expected)
        if isinstance(operation, Store):
            self._stores += 1
            step.on_device = self._stores % ON_THE_DEVICE == 0
        self.steps.append(step)

    def answers(self, index: int, answer: Answer | RequestAnswer) -> None:
        """It is our own."""

    def ends(self, index: int, oracle: AnyOracle) -> None:
        step = self.steps[-1]
        pool = self.pool()
        step.pool = pool.evictable, pool.protected, pool.free_pages
        request = self._request(step)
        if request is not None and request.running:
            step.lengths = self._cached[request.number], _ = request.cached_len, len(request.row)

    def skips(self, index: int, operation: Any, oracle: AnyOracle) -> None:
        self.steps.append(RequestStep(index, operation, skipped=True))

    # ------------------------------------------------------------------------- the executor

    def call(
        self, index: int, operation: RequestOperation, tags: Sequence[int] = ()
    ) -> RequestAnswer:
        step = self.steps[-1]
        if isinstance(step.expected, Refusal):
            return raised(step.expected)
        request = self._request(step)
        if request is None:
            return Done(self.pool())
        number, row = request.number, request.row
        if isinstance(operation, Begin):
            self._sequences[number] = self.judge.sequences[number]
            step.start = len(row)
            step.row = self.spans(row)
            step.content = self._content(step.row, number, 0, len(row))
        if isinstance(operation, Begin | Extend):
            return self._given(step, request)
        if isinstance(operation, Commit):
            step.start = self._cached[number]
            step.row = self.spans(row[step.start :])
            lengths = request.cached_len, len(row)
            return Done(self.pool(), request.cached_len, *lengths, row[step.start :])
        if isinstance(operation, Store):
            step.start = request.stored_len - len(tags)
            self._tags.update(zip(row[step.start : request.stored_len], tags, strict=True))
            step.content = self._content([], number, step.start, request.stored_len)
        if isinstance(operation, Preempt):
            assert isinstance(step.expected, Foreseen)
            return Done(self.pool(), list(step.expected.tokens or ()))
        return Done(self.pool(), None, request.cached_len, len(row))

    def pool(self) -> Pool:
        oracle = self.judge.oracle
        cache = oracle.cache
        return Pool(cache.evictable_size, cache.protected_size, oracle.ledger.num_free)

    def row(self, request: int, start: int, stop: int) -> list[int]:
        self._look().rows.append(request)
        return self.judge.oracle.requests[request].row[start:stop]

    def read(self, slots: Sequence[int]) -> list[int | str]:
        # What is in a slot is what its last owner had there.
        self._look().contents += [
            self._content([span], span.request, span.start, span.stop)
            for span in self.spans(self._sorted(slots))
        ]
        return [self._tags[slot] for slot in slots]

    def check(self) -> Answer:
        self._look().checks = True
        return Returned(None)

    def nodes(self) -> list[NodeView] | Answer | None:
        return None

    def fingerprint(self) -> Any:
        return None

    def forget(self, request: int) -> None:
        """No run here is so long."""

    def close(self) -> None:
        """Nothing to give back."""

    # ---------------------------------------------------------------------------- the parts

    def spans(self, slots: Iterable[int]) -> list[Span]:
        """Where these slots are found, in this order."""
        spans: list[Span] = []
        for request, at in map(self._places.__getitem__, slots):
            if spans and spans[-1].request == request and spans[-1].stop == at:
                spans[-1] = spans[-1]._replace(stop=at + 1)
            else:
                spans.append(Span(request, at, at + 1, self._lengths[request]))
        return spans

    def _request(self, step: RequestStep) -> Request | None:
        """That of the step; None for a flush, and a begin that is refused."""
        operation = step.operation
        if isinstance(operation, Flush):
            return None
        number = step.index if isinstance(operation, Begin) else operation.request
        return self.judge.oracle.requests.get(number)

    def _content(self, spans: list[Span], number: int, start: int, stop: int) -> Content:
        namespace = self.judge.oracle.requests[number].namespace
        return Content(spans, tuple(self._sequences[number][:stop]), namespace, start)

    def _look(self) -> Look:
        step = self.steps[-1]
        step.look = step.look or Look()
        return step.look

    def _given(self, step: RequestStep, request: Request) -> Done:
        """New slots for a request, on pages that are free, or are so once others were evicted."""
        judge, row, number = self.judge, request.row, request.number
        oracle, size = judge.oracle, judge.configuration.page_size
        assert isinstance(step.expected, Foreseen)
        count = step.expected.more_slots
        begun = min(-len(row) % size, count)
        pages = -(-(count - begun) // size)
        missing = max(0, pages - oracle.ledger.num_free) * size
        step.start, step.evicted = len(row), missing > 0
        exact = judge.promises.eviction == "exact"
        if exact:
            oracle.evict_early(missing)
        pool = self.pool()
        slots = [row[-1] + 1 + at for at in range(begun)]
        for page in sorted(oracle.ledger.held_by(FREE))[:pages]:
            slots += range(page * size, page * size + size)
        taken = self._taken() if pages else []
        del slots[count:]
        self._lengths[number] = len(row) + count
        for at, slot in enumerate(slots, len(row)):
            self._places[slot] = number, at
        step.taken = self.spans(taken)
        begins = isinstance(step.operation, Begin)
        return Done(
            Pool(pool.evictable, pool.protected, pool.free_pages - pages),
            None,
            request.cached_len,
            len(row) + count,
            row + slots if begins else slots,
            [self._tags[slot] for slot in row] if begins else [],
            None if exact or missing else [],
        )

    def _taken(self) -> list[int]:
        """All slots that are cached, or a running request's."""
        oracle = self.judge.oracle
        slots = {slot for request in oracle.running() for slot in request.row}
        if isinstance(oracle.cache, Oracle):
            slots |= {slot for page in oracle.cache.pages() for slot in page.slots}
        return self._sorted(slots)

    def _sorted(self, slots: Iterable[int]) -> list[int]:
        return sorted(slots, key=self._places.__getitem__)
