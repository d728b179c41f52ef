"""Runs steps of requests on a target, and turns whatever happens into an answer.

One call answers all that is judged after one step: what came back, what the step can have
changed in the request's row, and the state of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, Protocol

import msgspec

from kvref.answers import Answer, Died, Hung, Malformed, Raised, Returned, short
from kvref.executor import read_nodes
from kvref.guard import Guard, NotAsDeclared
from kvref.oracle import NodeView
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
from kvref.requests.target import RequestTarget
from kvref.target import InspectableTarget
from kvref.time_limit import in_progress

__all__ = ["Done", "LocalRequestExecutor", "Pool", "RequestAnswer", "RequestExecutor"]


class Pool(msgspec.Struct, frozen=True, tag=True):
    """The pool after a step: slots that are evictable and protected, pages that are free."""

    evictable: int
    protected: int
    free_pages: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """A step that was not refused, and what can be seen after it.

    Fields:
        pool: the state of the pool.
        value: of a commit the length, of a preempt the tokens (None if it does not say).
        cached_len, extended_len: of the request, while it runs.
        slots: of its row, for a begin all, for an extend the new ones, for a commit all that
            was not the cache's before.
        content: for a begin, what its matched slots hold.
        victims: of a begin or an extend, if the target tells them.
    """

    pool: Pool
    value: int | list[int] | None = None
    cached_len: int | None = None
    extended_len: int | None = None
    slots: list[int] = []
    content: list[int | str] = []
    victims: list[int] | None = None


RequestAnswer = Done | Malformed | Raised | Hung | Died


class RequestExecutor(Protocol):
    """One target for one run. Each method answers with `Hung`, `Died` and the like itself."""

    @property
    def limited(self) -> bool:
        """Whether a call that does not return in time becomes an answer."""

    def call(
        self, index: int, operation: RequestOperation, tags: Sequence[int] = ()
    ) -> RequestAnswer:
        """Run the operation number `index`; a store stores `tags`."""

    def pool(self) -> Pool | Answer:
        """The state of the pool."""

    def row(self, request: int, start: int, stop: int) -> list[int] | Answer:
        """The slots of a running request."""

    def read(self, slots: Sequence[int]) -> list[int | str] | Answer:
        """The tags in these slots, or words about what else is there."""

    def check(self) -> Answer:
        """The target's own check: `Returned(None)` if it passed."""

    def nodes(self) -> list[NodeView] | Answer | None:
        """The cache's structure, or None where it shows none."""

    def fingerprint(self) -> Any:
        """Equal to an earlier one if nothing has changed; None where the target has none."""

    def forget(self, request: int) -> None:
        """No later operation will name this request."""

    def close(self) -> None:
        """Give back what the executor holds."""


class LocalRequestExecutor:
    """Runs the target in this process, under a time limit where one can be had.

    Close it, so that the limit's timer ends.
    """

    def __init__(self, target: RequestTarget, seconds: float | None = 10.0) -> None:
        self._target = target
        # Asked once: the check of a protocol costs more than most operations.
        self._inspectable = target if isinstance(target, InspectableTarget) else None
        self._victims: Any = getattr(target, "victims", None)
        self._guard = Guard(seconds)
        self.limited = self._guard.limited
        self._seconds = self._guard.seconds
        self._requests: dict[int, Any] = {}

    def call(
        self, index: int, operation: RequestOperation, tags: Sequence[int] = ()
    ) -> RequestAnswer:
        """Run the operation number `index`; a store stores `tags`."""
        # As the guard does it, whose call would cost as much as a small step.
        outer = in_progress.deadline
        in_progress.deadline = monotonic() + self._seconds if self.limited else None
        try:
            try:
                return self._run(index, operation, tags)
            finally:
                in_progress.deadline = outer
        except BaseException as error:
            in_progress.deadline = outer  # the tick may have come before the `finally` got so far
            return self._guard.failure(error)

    def pool(self) -> Pool | Answer:
        """The state of the pool."""
        return self._guard(self._pool)

    def row(self, request: int, start: int, stop: int) -> list[int] | Answer:
        """The slots of a running request."""
        return self._guard(self._row, self._requests[request], start, stop)

    def read(self, slots: Sequence[int]) -> list[int | str] | Answer:
        """The tags in these slots, or words about what else is there."""
        return self._guard(self._read, slots)

    def check(self) -> Answer:
        """The target's own check: `Returned(None)` if it passed."""
        return self._guard(self._check)

    def nodes(self) -> list[NodeView] | Answer | None:
        """The cache's structure, or None where it shows none."""
        if self._inspectable is None:
            return None
        return self._guard(read_nodes, self._inspectable)

    def fingerprint(self) -> Any:
        """Equal to an earlier one if nothing has changed; None where the target has none."""
        if self._inspectable is None:
            return None
        return self._guard(self._inspectable.fingerprint)

    def forget(self, request: int) -> None:
        """No later operation will name this request."""
        del self._requests[request]

    def close(self) -> None:
        """End the time limit's timer."""
        self._guard.close()

    # ------------------------------------------------------------------- inside the guard

    def _run(self, index: int, operation: Any, tags: Sequence[int]) -> Done:
        # By type and not by pattern, the most frequent first: this runs once an operation.
        target, kind = self._target, type(operation)
        if kind is Begin:
            request = target.begin(
                operation.tokens,
                namespace=operation.namespace,
                max_tokens=operation.max_tokens,
                carried=operation.carried,
            )
            self._requests[index] = request
            cached, extended = _lengths(request)
            slots = self._row(request, 0, extended)
            content = self._read(slots[:cached]) if cached > 0 else []
            return Done(self._pool(), None, cached, extended, slots, content, self._evicted())
        if kind is Flush:
            target.flush()
            return Done(self._pool())
        request = self._requests[operation.request]
        if kind is Extend:
            before = request.extended_len
            target.extend(request, operation.count)
            cached, extended = _lengths(request)
            slots = self._row(request, before, extended)
            return Done(self._pool(), None, cached, extended, slots, [], self._evicted())
        if kind is Store:
            target.store(request, tags)
        elif kind is Append:
            target.append(request, operation.tokens)
        elif kind is Commit:
            before = request.cached_len
            length = target.commit(request)
            if type(length) is not int:
                raise NotAsDeclared(short(length))
            cached, extended = _lengths(request)
            slots = self._row(request, before, extended)
            return Done(self._pool(), length, cached, extended, slots)
        elif kind is Finish:
            target.finish(request)
            return Done(self._pool())
        elif kind is Abort:
            target.abort(request)
            return Done(self._pool())
        else:
            assert kind is Preempt
            tokens = target.preempt(request)
            return Done(self._pool(), None if tokens is None else _ints(tokens))
        return Done(self._pool(), None, *_lengths(request))

    def _pool(self) -> Pool:
        sizes: tuple[Any, ...] = self._target.sizes()
        free = self._target.num_free_pages()
        if len(sizes) == 2 and type(sizes[0]) is type(sizes[1]) is type(free) is int:
            return Pool(sizes[0], sizes[1], free)
        raise NotAsDeclared(f"sizes {short(sizes)}, free pages {short(free)}")

    def _row(self, request: Any, start: int, stop: int) -> list[int]:
        return _ints(self._target.row(request, start, stop))

    def _read(self, slots: Sequence[int]) -> list[int | str]:
        content: object = self._target.read(slots)
        if type(content) is list and set(map(type, content)) <= {int, str}:
            return content
        raise NotAsDeclared(short(content))

    def _evicted(self) -> list[int] | None:
        return None if self._victims is None else _ints(self._victims())

    def _check(self) -> Answer:
        self._target.check()
        return Returned(None)


def _lengths(request: Any) -> tuple[int, int]:
    cached, extended = request.cached_len, request.extended_len
    if type(cached) is type(extended) is int:
        return cached, extended
    raise NotAsDeclared(
        f"a request with cached_len {short(cached)} and extended_len {short(extended)}"
    )


def _ints(values: Any) -> list[int]:
    if type(values) is list and set(map(type, values)) <= {int}:
        return values
    raise NotAsDeclared(short(values))
