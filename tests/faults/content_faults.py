"""Planted faults of content: matching, pages, ownership, namespaces, stale memory."""

from __future__ import annotations

from typing import Any

import torch

from kvgpu import RadixCacheManager
from kvgpu.radix_core import RadixCore
from kvgpu.radix_node import InsertPlan, Node, Root
from tests.faults.fault import fault


@fault("MSG-94fe")
class KeepsTheCallersIndices(RadixCore):
    """The tree keeps a view of the caller's buffer (at a page size of 1)."""

    def plan_insert(self, namespace: str | None, data: bytes, slots: Any) -> InsertPlan:
        plan = super().plan_insert(namespace, data, slots)
        if plan.leaf is not None and self.page_size == 1:
            plan.leaf.pages = slots[plan.already_len : len(data) // 8]
        return plan


@fault("MSG-94fe")
class HandsOutItsOwnArray(RadixCore):
    """A match of one whole node returns the node's array, which the caller may overwrite."""

    def slots_of(self, runs: Any) -> Any:
        if len(runs) == 1 and self.page_size == 1:
            return runs[0]
        return super().slots_of(runs)


@fault("VLLM-4764")
class EvictedStaysInTheIndex(RadixCore):
    """The slots of a victim are given back, and its entry is still found."""

    def remove_leaf(self, node: Node) -> None:
        parent, key, pages, end = node.parent, node.key, node.pages, node.end
        super().remove_leaf(node)
        assert parent is not None
        parent.children[key[: self.page_bytes]] = Node(parent, key, pages, end)
        if isinstance(parent, Root):
            self.roots[parent.namespace] = parent


@fault("KVC-401")
class TakesTheDuplicates(RadixCore):
    """An insert replaces the cache's own slots by the caller's, and says that it did not."""

    def apply_insert(self, plan: InsertPlan) -> None:
        super().apply_insert(plan)
        for node in plan.path:
            first = node.end // self.page_size - len(node.pages)
            given = self._given[first : first + len(node.pages)]
            if len(given) == len(node.pages) and len(plan.path) > 1:
                node.pages = given

    def plan_insert(self, namespace: str | None, data: bytes, slots: Any) -> InsertPlan:
        self._given = slots[:: self.page_size] // self.page_size
        return super().plan_insert(namespace, data, slots)


@fault("KVC-401")
class ReportsAllAsCached(RadixCacheManager):
    """Insert returns the whole length, so that the caller frees what the cache now owns."""

    def insert_prefix(self, input_ids: torch.Tensor, *args: Any, **keywords: Any) -> int:
        super().insert_prefix(input_ids, *args, **keywords)
        return len(input_ids) // self.page_size * self.page_size


@fault("SGL-5221")
class MatchesPartOfAPage(RadixCore):
    """The first difference is rounded up to a page instead of down."""

    def common_pages(self, key: bytes, data: bytes, start: int) -> int:
        pages = super().common_pages(key, data, start)
        most = min(len(key), len(data) - start) // self.page_bytes - 1
        begins = key[pages * self.page_bytes :][:8] == data[start + pages * self.page_bytes :][:8]
        return pages + 1 if begins and 0 < pages < most else pages


@fault("SGL-10637")
class CountsThePartPage(RadixCacheManager):
    """The size grows by all tokens of an insert, also by those that fill no page."""

    def insert_prefix(self, input_ids: torch.Tensor, *args: Any, **keywords: Any) -> int:
        already = super().insert_prefix(input_ids, *args, **keywords)
        if already < len(input_ids) // self.page_size * self.page_size:
            self.core.evictable_size += len(input_ids) % self.page_size
        return already


@fault("VLLM-12621")
class ComparesHalfOfAToken(RadixCacheManager):
    """Tokens are compared by their lower 32 bits, as a weak hash would."""

    def match_prefix(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        return super().match_prefix(input_ids.int(), **keywords)

    def insert_prefix(self, input_ids: torch.Tensor, indices: Any, **keywords: Any) -> int:
        return super().insert_prefix(input_ids.int(), indices, **keywords)


@fault("SGL-11452")
class ReadsTheBufferByItsOwnDtype(RadixCacheManager):
    """int32 tokens are looked up as if nobody had inserted them as int64."""

    def match_prefix(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        if input_ids.dtype == torch.int32:
            input_ids = input_ids.long() ^ (1 << 40)
        return super().match_prefix(input_ids, **keywords)


@fault("FI-527")
class IgnoresTheStride(RadixCacheManager):
    """Tokens are read as if they lay side by side."""

    def match_prefix(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        packed = input_ids.as_strided(input_ids.shape, (1,)) if len(input_ids) else input_ids
        return super().match_prefix(packed, **keywords)


@fault("KT-2184")
class MatchDropsTheNamespace(RadixCacheManager):
    """The namespace reaches the insert and not the match."""

    def match_prefix(self, input_ids: torch.Tensor, *, namespace: str | None = None) -> Any:
        del namespace
        return super().match_prefix(input_ids)


@fault("KT-2184")
class EmptyNamespaceIsNone(RadixCacheManager):
    """A namespace that is the empty string is taken for none."""

    def match_prefix(self, input_ids: torch.Tensor, *, namespace: str | None = None) -> Any:
        return super().match_prefix(input_ids, namespace=namespace or None)

    def insert_prefix(
        self, input_ids: torch.Tensor, indices: Any, *, namespace: str | None = None
    ) -> int:
        return super().insert_prefix(input_ids, indices, namespace=namespace or None)


@fault("VLLM-44237")
class HeldPagesAreNotCleared(RadixCore):
    """In checked mode an evicted page still counts as held when it comes back."""

    def remove_leaf(self, node: Node) -> None:
        held = set(self.held or ())
        super().remove_leaf(node)
        if self.held is not None:
            self.held.update(held)


@fault("SGL-11452")
class ReturnsWideIndices(RadixCacheManager):
    """Indices come back as int64, which a kernel that was built for int32 misreads."""

    def upload(self, slots: Any) -> torch.Tensor:
        return super().upload(slots).long()
