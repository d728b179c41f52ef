"""Runs operations on a target and turns whatever happens into an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kvref.answers import Answer, Hung, Returned, from_exception
from kvref.operations import FOREIGN, Evict, Insert, Lock, Match, Operation, Reset, Unlock
from kvref.oracle import NodeView
from kvref.target import InspectableTarget, Target
from kvref.time_limit import TimeLimit, TimeLimitExceeded

__all__ = ["Executor", "LocalExecutor"]

_R = TypeVar("_R")


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

    def same_handle(self, one: int, other: int) -> bool:
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
        self._limit = TimeLimit(seconds or 0.0)
        if seconds is not None:
            self._limit.open()
        self._handles: dict[int, Any] = {}

    def call(self, index: int, operation: Operation) -> Answer:
        """Run the operation number `index`."""
        return self._guard(self._run, index, operation)

    def sizes(self) -> tuple[int, int] | Answer:
        """Evictable and protected size after the last operation."""
        return self._guard(self._target.sizes)

    def integrity(self) -> Answer:
        """The target's own check: `Returned(None)` if it passed."""
        return self._guard(self._target.check_integrity) or Returned(None)

    def nodes(self) -> list[NodeView] | Answer | None:
        """The target's structure, or None where it shows none."""
        if self._inspectable is None:
            return None
        return self._guard(self._inspectable.nodes)

    def fingerprint(self) -> Any:
        """Equal to an earlier one if nothing has changed; None where the target has none."""
        if self._inspectable is None:
            return None
        return self._guard(self._inspectable.fingerprint)

    def same_handle(self, one: int, other: int) -> bool:
        """Whether the handles of two matches are equal (and then have equal hashes)."""
        first, second = self._handles[one], self._handles[other]
        return bool(first == second) and hash(first) == hash(second)

    def close(self) -> None:
        """End the time limit's timer."""
        self._limit.close()

    def _guard(self, function: Callable[..., _R], *args: Any) -> _R | Answer:
        limit = self._limit
        try:
            limit.begin()
            try:
                return function(*args)
            finally:
                limit.end()
        except TimeLimitExceeded:
            return Hung(limit.seconds)
        except Exception as error:
            return from_exception(error)

    def _run(self, index: int, operation: Operation) -> Answer:
        target = self._target
        match operation:
            case Match(tokens, namespace, carried):
                handle, slots = target.match_prefix(tokens, namespace=namespace, carried=carried)
                self._handles[index] = handle
                return Returned(slots, handle.cached_len)
            case Insert(tokens, slots, namespace, carried):
                return Returned(
                    target.insert_prefix(tokens, slots, namespace=namespace, carried=carried)
                )
            case Lock(reference):
                target.lock_handle(self._resolve(reference))
                return Returned(None)
            case Unlock(reference):
                target.lock_handle(self._resolve(reference), unlock=True)
                return Returned(None)
            case Evict(size):
                return Returned(target.evict(size))
            case Reset():
                return Returned(target.reset())

    def _resolve(self, reference: int | str) -> Any:
        if isinstance(reference, int):
            return self._handles[reference]
        return self._target.foreign_handle() if reference == FOREIGN else object()
