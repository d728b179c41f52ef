"""Planted faults of locks and sizes."""

from __future__ import annotations

import dataclasses
from typing import Any

from kvgpu import RadixCacheManager
from kvgpu.errors import UnbalancedUnlock
from kvgpu.radix_core import RadixCore
from kvgpu.radix_node import Cut, Node
from tests.faults.fault import fault


@fault("MSG-52")
class LockSkipsTheNode(RadixCore):
    """The walk to the root begins at the parent, so the matched node itself is not covered."""

    def lock_path(self, node: Node) -> None:
        super().lock_path(node)
        node.ref_count -= 1
        if node.ref_count == 0:
            self.unprotect(node)

    def unlock_path(self, node: Node) -> None:
        if node.ref_count == 0:
            self.protect(node)
        node.ref_count += 1
        super().unlock_path(node)


@fault("MSG-46")
class HandleNamesAnAncestor(RadixCacheManager):
    """The walk overwrites its variable, and the handle names the uppermost node of the path."""

    def match_prefix(self, *args: Any, **keywords: Any) -> Any:
        handle, indices = super().match_prefix(*args, **keywords)
        node = handle.node
        while node is not None and node.parent is not None and node.parent.parent is not None:
            node = node.parent
        return dataclasses.replace(handle, node=node), indices


@fault("RUST-508")
class PartialMatchIsNotSplit(RadixCacheManager):
    """A match that ends inside a node locks the whole of it."""

    class core_class(RadixCore):  # noqa: N801
        def plan_match(self, namespace: str | None, data: bytes) -> Any:
            walk = self.walk(namespace, data)
            plan = super().plan_match(namespace, data)
            if walk.partial is not None:
                plan.path[-1] = walk.partial
                plan.cut = None
            return plan

    def match_prefix(self, *args: Any, **keywords: Any) -> Any:
        handle, indices = super().match_prefix(*args, **keywords)
        return dataclasses.replace(handle, cached_len=len(indices)), indices


@fault("SGL-38480")
class SplitDropsTheLockCount(RadixCore):
    """The upper half of a split locked node begins with no locks."""

    def split(self, cut: Cut) -> None:
        super().split(cut)
        cut.upper.ref_count = 0


@fault("SGL-38480")
class SplitMovesTheBoundary(RadixCore):
    """The locks of the prefix that ended at the split node now end at its upper half."""

    def split(self, cut: Cut) -> None:
        super().split(cut)
        cut.upper.own_locks, cut.node.own_locks = cut.node.own_locks, 0


@fault("LMC-2954")
class UnlockStealsALock(RadixCacheManager):
    """An unlock too many takes a lock that somebody else holds below."""

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        try:
            super().lock_handle(handle, unlock)
        except UnbalancedUnlock:
            if handle.node.ref_count == 0:
                raise
            handle.node.own_locks += 1
            self.core.unlock_path(handle.node)


@fault("LMC-2954")
class UnlockIsClamped(RadixCacheManager):
    """An unlock too many is ignored instead of refused."""

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        try:
            super().lock_handle(handle, unlock)
        except UnbalancedUnlock:
            return


@fault("OMLX-1450")
class UnlockForgetsTheAncestors(RadixCore):
    """Unlock gives the last node back and leaves the path above it pinned."""

    def unlock_path(self, node: Node) -> None:
        node.own_locks -= 1
        node.ref_count -= 1
        if node.ref_count == 0:
            self.unprotect(node)


@fault("MSG-44")
class LastUnlockIsRefused(RadixCore):
    """A sanity check demands a positive count after the decrement."""

    def unlock_path(self, node: Node) -> None:
        super().unlock_path(node)
        if node.ref_count == 0:
            raise AssertionError("ref_count must be positive")


@fault("LMD-4700")
class LockedLeafIsOffered(RadixCore):
    """A locked leaf stays among the candidates of an eviction."""

    def protect(self, node: Node) -> None:
        super().protect(node)
        if not node.children:
            self.enlist(node)

    def unprotect(self, node: Node) -> None:
        if not node.children:
            self.delist(node)
        super().unprotect(node)


@fault("MLLM-656")
class SplitChangesTheSizes(RadixCore):
    """A split counts the upper half once more."""

    def split(self, cut: Cut) -> None:
        super().split(cut)
        if cut.node.ref_count == 0:
            self.evictable_size += len(cut.upper.pages) * self.page_size


@fault("MLLM-656")
class LockMovesOneNodesSize(RadixCore):
    """Only the size of the last node of the path moves to protected."""

    def lock_path(self, node: Node) -> None:
        before = self.evictable_size
        moved = len(node.pages) * self.page_size if node.ref_count == 0 else 0
        super().lock_path(node)
        self.protected_size -= before - moved - self.evictable_size
        self.evictable_size = before - moved


@fault("MSG-142")
class LockedByLengthAlone(RadixCacheManager):
    """A handle of some length unlocks whatever was locked at that length."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._locked: dict[int, list[Node]] = {}

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        node = getattr(handle, "node", None)
        locked = self._locked.setdefault(getattr(handle, "cached_len", 0), [])
        if unlock and locked and node is not None and node.parent is not None:
            self.core.unlock_path(locked.pop())
            return
        super().lock_handle(handle, unlock)
        if not unlock and node is not None:
            locked.append(node)
