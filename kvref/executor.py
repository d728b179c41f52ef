"""Runs operations on a target and turns whatever happens into an answer."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

from kvref.answers import Answer, Malformed, Returned, short
from kvref.guard import Guard
from kvref.operations import FOREIGN, Evict, Insert, Lock, Match, Operation, Unlock
from kvref.oracle import NodeView
from kvref.target import InspectableTarget, Target

__all__ = ["Executor", "LocalExecutor", "read_nodes"]


class Executor(Protocol):
    """One target for one run. Each method answers with `Hung`, `Died` and the like itself."""

    def call(self, index: int, operation: Operation) -> Answer:
        """Run the operation number `index`."""

    def sizes(self) -> tuple[int, int] | Answer:
        """Evictable and protected size after the last operation."""

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
        self._handles: dict[int, Any] = {}

    def call(self, index: int, operation: Operation) -> Answer:
        """Run the operation number `index`."""
        return self._guard(self._run, index, operation)

    def sizes(self) -> tuple[int, int] | Answer:
        """Evictable and protected size after the last operation."""
        return self._guard(self._sizes)

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
            if not _is_int(cached_len):
                return Malformed(f"a handle whose cached_len is {short(cached_len)}")
            return _slots(slots, cached_len)
        if kind is Insert:
            already = target.insert_prefix(
                operation.tokens,
                operation.slots,
                namespace=operation.namespace,
                carried=operation.carried,
            )
            return Returned(already) if _is_int(already) else Malformed(short(already))
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

    def _sizes(self) -> tuple[int, int] | Answer:
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


def _is_int(value: object) -> TypeGuard[int]:
    """An int itself: a bool or an element of a tensor is none."""
    return type(value) is int


def _slots(slots: object, cached_len: int | None = None) -> Returned | Malformed:
    if type(slots) is list and set(map(type, slots)) <= {int}:
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
        and set(map(type, (*prefix, *slots, lock_count))) <= {int}
    )
