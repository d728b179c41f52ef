"""Runs operations on a target and turns whatever happens into an answer."""

from __future__ import annotations

from time import monotonic
from typing import Any, Protocol

from kvref.answers import Answer, Hung, Malformed, Raised, Returned, from_exception, short
from kvref.guard import Guard
from kvref.operations import FOREIGN, Evict, Insert, Lock, Match, Operation, Unlock
from kvref.oracle import NodeView
from kvref.target import InspectableTarget, Target
from kvref.time_limit import TimeLimitExceeded, in_progress

__all__ = ["Executor", "LocalExecutor", "Sizes", "read_nodes"]

_INT = frozenset({int})

Sizes = tuple[int, int] | Answer
"""Evictable and protected size, or what came in their place."""


class Executor(Protocol):
    """One target for one run. Each method answers with `Hung`, `Died` and the like itself."""

    @property
    def limited(self) -> bool:
        """Whether a call that does not return in time becomes an answer."""

    def call(self, index: int, operation: Operation) -> tuple[Answer, Sizes]:
        """Run the operation number `index`; its answer, and the sizes after it."""

    def integrity(self) -> Answer:
        """The target's own check: `Returned(None)` if it passed."""

    def nodes(self) -> list[NodeView] | Answer | None:
        """The target's structure, or None where it shows none."""

    def fingerprint(self) -> Any:
        """Equal to an earlier one if nothing has changed; None where the target has none."""

    def same_handle(self, one: int, other: int) -> bool | Answer:
        """Whether the handles of two matches are equal (and then have equal hashes)."""

    def close(self) -> None:
        """Give back what the executor holds."""


class LocalExecutor:
    """Runs the target in this process, under a time limit where one can be had.

    Close it, so that the limit's timer ends.
    """

    def __init__(self, target: Target, seconds: float | None = 10.0) -> None:
        self._target = target
        # Asked once: the check of a protocol costs more than most operations.
        self._inspectable = target if isinstance(target, InspectableTarget) else None
        self._guard = Guard(seconds)
        self.limited = self._guard.limited
        self._seconds = self._guard.seconds
        self._handles: dict[int, Any] = {}

    def call(self, index: int, operation: Operation) -> tuple[Answer, Sizes]:
        """Run the operation number `index`; its answer, and the sizes after it.

        Both under one limit, since a second one would cost as much as many an operation. A
        target that hangs or exits is not asked for sizes: its answer stands in their place.
        """
        # The deadline inline: see `in_progress`.
        outer = in_progress.deadline
        in_progress.deadline = monotonic() + self._seconds if self.limited else None
        try:
            try:
                try:
                    answer = self._run(index, operation)
                except Exception as error:  # the usual one, a refusal
                    answer = from_exception(error)
                except BaseException as error:
                    answer = self._guard.failure(error)
                    if not isinstance(answer, Raised):
                        return answer, answer
                try:
                    return answer, self._sizes()
                except BaseException as error:
                    return answer, self._guard.failure(error)
            finally:
                in_progress.deadline = outer
        except TimeLimitExceeded:  # the tick came outside the two calls
            in_progress.deadline = outer
            return (late := Hung(self._seconds)), late

    def integrity(self) -> Answer:
        """The target's own check: `Returned(None)` if it passed."""
        return self._guard(self._check_integrity)

    def nodes(self) -> list[NodeView] | Answer | None:
        """The target's structure, or None where it shows none."""
        if self._inspectable is None:
            return None
        return self._guard(read_nodes, self._inspectable)

    def fingerprint(self) -> Any:
        """Equal to an earlier one if nothing has changed; None where the target has none."""
        if self._inspectable is None:
            return None
        return self._guard(self._inspectable.fingerprint)

    def same_handle(self, one: int, other: int) -> bool | Answer:
        """Whether the handles of two matches are equal (and then have equal hashes)."""
        return self._guard(_same, self._handles[one], self._handles[other])

    def close(self) -> None:
        """End the time limit's timer."""
        self._guard.close()

    def _run(self, index: int, operation: Any) -> Answer:
        # By type and not by pattern, the most frequent first: this runs once an operation.
        target, kind = self._target, type(operation)
        if kind is Match:
            handle, slots = target.match_prefix(
                operation.tokens, namespace=operation.namespace, carried=operation.carried
            )
            self._handles[index] = handle
            cached_len = getattr(handle, "cached_len", None)
            if type(cached_len) is not int:
                return Malformed(f"a handle whose cached_len is {short(cached_len)}")
            return _slots(slots, cached_len)
        if kind is Insert:
            already = target.insert_prefix(
                operation.tokens,
                operation.slots,
                namespace=operation.namespace,
                carried=operation.carried,
            )
            # An int itself: a bool or an element of a tensor is none.
            return Returned(already) if type(already) is int else Malformed(short(already))
        if kind is Lock or kind is Unlock:
            handle = self._resolve(operation.handle)
            if kind is Lock:
                target.lock_handle(handle)
            else:
                target.lock_handle(handle, unlock=True)
            return Returned(None)
        return _slots(target.evict(operation.size) if kind is Evict else target.reset())

    def _resolve(self, reference: int | str) -> Any:
        if isinstance(reference, int):
            return self._handles[reference]
        return self._target.foreign_handle() if reference == FOREIGN else object()

    def _sizes(self) -> Sizes:
        sizes: tuple[Any, ...] = self._target.sizes()
        if len(sizes) == 2 and type(sizes[0]) is int and type(sizes[1]) is int:
            return sizes[0], sizes[1]
        return Malformed(short(sizes))

    def _check_integrity(self) -> Answer:
        self._target.check_integrity()
        return Returned(None)


def read_nodes(target: InspectableTarget) -> list[NodeView] | Answer:
    """The target's nodes, if they are what they are declared to be."""
    nodes: object = target.nodes()
    if isinstance(nodes, list) and all(map(_is_node, nodes)):
        return nodes
    return Malformed(short(nodes))


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and hash(one) == hash(other)


def _slots(slots: object, cached_len: int | None = None) -> Returned | Malformed:
    if type(slots) is list and _INT.issuperset(map(type, slots)):
        return Returned(slots, cached_len)
    return Malformed(short(slots))


def _is_node(node: object) -> bool:
    """As it is declared: it is a target's own, and may hold anything."""
    if not isinstance(node, NodeView):
        return False
    parts: tuple[Any, ...] = node
    namespace, prefix, slots, lock_count = parts
    return (
        (namespace is None or isinstance(namespace, str))
        and type(prefix) is type(slots) is tuple
        and type(lock_count) is int
        and _INT.issuperset(map(type, prefix))
        and _INT.issuperset(map(type, slots))
    )
