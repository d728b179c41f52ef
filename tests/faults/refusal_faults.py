"""Planted faults of refusals, handles and reset."""

from __future__ import annotations

from typing import Any

from kvgpu import RadixCacheManager
from kvgpu.errors import ForeignHandle, InvalidValue, NotEvictable, StaleHandle
from kvgpu.radix_core import RadixCore
from kvgpu.radix_node import EvictPlan, InsertPlan
from tests.faults.fault import fault


@fault("VLLM-18957")
class StaleHandleIsAccepted(RadixCacheManager):
    """Locking a prefix that was evicted meanwhile does nothing, without a word."""

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        try:
            super().lock_handle(handle, unlock)
        except StaleHandle:
            return


@fault("VLLM-18957")
class HandleOutlivesItsIncarnation(RadixCacheManager):
    """A stale handle locks what was inserted since for the same tokens."""

    def match_prefix(self, input_ids: Any, *, namespace: str | None = None) -> Any:
        handle, indices = super().match_prefix(input_ids, namespace=namespace)
        if not hasattr(self, "_prefixes"):
            self._prefixes: dict[Any, Any] = {}
        self._prefixes[handle.node] = (input_ids[: handle.cached_len].clone(), namespace)
        return handle, indices

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        try:
            super().lock_handle(handle, unlock)
        except StaleHandle:
            tokens, namespace = self._prefixes[handle.node]
            again, _ = super().match_prefix(tokens, namespace=namespace)
            if again.cached_len != handle.cached_len:
                raise
            super().lock_handle(again, unlock)


@fault("LMC-4405")
class ForeignHandleIsAccepted(RadixCacheManager):
    """A handle of another manager is taken for one of its own."""

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        try:
            super().lock_handle(handle, unlock)
        except ForeignHandle:
            return


@fault("MSG-44")
class EmptyHandleIsRefused(RadixCacheManager):
    """The handle of nothing goes stale like any other."""

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        if getattr(handle, "cached_len", None) == 0 and not self.size_info.total_size:
            raise StaleHandle(0)
        super().lock_handle(handle, unlock)


@fault("KVC-430")
class RefusedEvictHasEvicted(RadixCore):
    """An evict of too much takes what there is, and then fails."""

    def plan_evict(self, size: int, keeping: Any = None) -> EvictPlan:
        if size > self.evictable_size:
            evictable = self.evictable_size
            self.apply_evict(super().plan_evict(evictable))
            raise NotEvictable(size, evictable)
        return super().plan_evict(size, keeping)


@fault("VLLM-11562")
class RefusedInsertHasTouched(RadixCore):
    """A refused insert has refreshed the prefix that it found."""

    def plan_insert(self, namespace: str | None, data: bytes, slots: Any) -> InsertPlan:
        try:
            return super().plan_insert(namespace, data, slots)
        except InvalidValue:
            self.clock += 1
            self.touch(self.walk(namespace, data).path)
            raise


@fault("KVC-430")
class EvictTakesWhatThereIs(RadixCore):
    """An evict of too much is cut to the evictable size instead of refused."""

    def plan_evict(self, size: int, keeping: Any = None) -> EvictPlan:
        return super().plan_evict(min(size, self.evictable_size), keeping)


@fault("SGL-22753")
class ResetIgnoresLocks(RadixCore):
    """Reset goes through while something is locked."""

    def plan_reset(self) -> EvictPlan:
        self.protected_size = 0
        return super().plan_reset()


@fault("VLLM-43569")
class ResetLeavesHandlesAlive(RadixCore):
    """After a reset the handles of before still pass for good ones."""

    def apply_reset(self, plan: EvictPlan) -> None:
        kept = [
            (node, node.parent, dict(node.children), node.key, node.pages) for node in plan.victims
        ]
        super().apply_reset(plan)
        for node, parent, children, key, pages in kept:
            node.parent, node.key, node.pages = parent, key, pages
            node.children.update(children)


@fault("LMC-5005")
class SamePageTwiceIsTaken(RadixCore):
    """In checked mode the slots of an insert are not compared with what the cache holds."""

    def plan_insert(self, namespace: str | None, data: bytes, slots: Any) -> InsertPlan:
        held, self.held = self.held, set() if self.held is not None else None
        try:
            return super().plan_insert(namespace, data, slots)
        finally:
            self.held = held


@fault("SGL-22753")
class CheckerRefusesTheHealthy(RadixCacheManager):
    """The integrity check takes a locked prefix for a leak."""

    def check_integrity(self) -> None:
        super().check_integrity()
        assert self.size_info.protected_size == 0, "leaked locks"


@fault("SGL-3029")
class OneTokenPromptCrashes(RadixCacheManager):
    """An input shorter than a page indexes past its end."""

    def match_prefix(self, input_ids: Any, **keywords: Any) -> Any:
        if len(input_ids):
            input_ids[self.page_size - 1].item()
        return super().match_prefix(input_ids, **keywords)
