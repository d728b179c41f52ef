"""The interfaces: what stores K and V (`BaseKVCache`), and what decides whose they are.

A *slot* is the place of one token's K and V in the pool. A *page* is `page_size` consecutive
slots from a multiple of `page_size` on: the unit of allocation, matching and sharing.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch

__all__ = ["BaseCacheHandle", "BaseCacheManager", "BaseKVCache", "KVCacheLayout", "SizeInfo"]


class KVCacheLayout(enum.Enum):
    """The order of the axes in memory; the views that a cache hands out look alike in both."""

    LayerFirst = enum.auto()
    """`[2, layers, pages, page_size, heads, dim]`: a layer's pages lie together."""
    PageFirst = enum.auto()
    """`[2, pages, layers, page_size, heads, dim]`: a page's layers lie together."""


class SizeInfo(NamedTuple):
    """What a manager holds, in slots."""

    evictable_size: int
    """Slots of nodes that no lock covers."""
    protected_size: int
    """Slots of nodes that at least one lock covers."""

    @property
    def total_size(self) -> int:
        """All slots that the cache owns."""
        return self.evictable_size + self.protected_size


@dataclass(frozen=True)
class BaseCacheHandle(ABC):
    """Names one cached prefix in one incarnation: what `lock_handle` takes.

    A plain value: equal and hashable by what it names, owned by nobody, never written to. It
    keeps nothing cached; only a lock does.
    """

    cached_len: int
    """Length of the prefix in tokens, a multiple of the page size; 0 names the empty prefix."""


class BaseKVCache(ABC):
    """Paged storage of K and V, for all layers."""

    @abstractmethod
    def k_cache(self, index: int) -> torch.Tensor:
        """K of layer `index`: `[pages, page_size, local_kv_heads, head_dim]`, a view."""

    @abstractmethod
    def v_cache(self, index: int) -> torch.Tensor:
        """V of layer `index`: `[pages, page_size, local_kv_heads, head_dim]`, a view."""

    @abstractmethod
    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        """Write row i of `k` and `v` to slot `out_loc[i]` of layer `layer_id`.

        Args:
            k, v: `[n, local_kv_heads, head_dim]`, the cache's dtype and device, any strides.
                Read only.
            out_loc: `[n]`, int32 or int64, the cache's device. A negative entry is padding:
                its row is skipped. Read only.
            layer_id: 0 .. num_layers - 1.
        """

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the buffer lives."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Of K and V."""

    @property
    @abstractmethod
    def num_layers(self) -> int:
        """Layers of the transformer that this cache serves."""

    @property
    @abstractmethod
    def num_pages(self) -> int:
        """Pages of each layer, of K and of V."""

    @property
    @abstractmethod
    def page_size(self) -> int:
        """Slots a page."""


class BaseCacheManager(ABC):
    """Decides which slots hold the K and V of which prefix.

    Every operation is atomic and may be called from any thread. A refused call raises a
    `KVCacheError` and has changed nothing.
    """

    @abstractmethod
    def match_prefix(
        self, input_ids: torch.Tensor, *, namespace: str | None = None
    ) -> tuple[BaseCacheHandle, torch.Tensor]:
        """Find the longest cached prefix of whole pages.

        Args:
            input_ids: `[n]`, int32 or int64, on the CPU, any stride. Read only, not kept.
            namespace: prefixes of different namespaces never meet (a LoRA adapter, a
                tenant's salt).

        Returns:
            The handle of the prefix, and its slots: `[handle.cached_len]`, int32, on the
            manager's device. The tensor is the caller's, but the slots are the cache's: use
            them only while the handle is locked, and never free them. An empty result may be
            one shared tensor.

        Raises:
            InvalidType: not a tensor, or not int32 or int64.
            InvalidValue: not 1-D, or not on the CPU.
        """

    @abstractmethod
    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        """Protect the prefix of `handle` from eviction, or give one lock back.

        Locks are counted for each prefix. The empty handle is accepted and ignored.

        Raises:
            InvalidType: `handle` is not a handle.
            ForeignHandle, StaleHandle: nothing of this manager, or evicted since.
            UnbalancedUnlock: `unlock` without a lock at this very prefix.
        """

    @abstractmethod
    def insert_prefix(
        self, input_ids: torch.Tensor, indices: torch.Tensor, *, namespace: str | None = None
    ) -> int:
        """Hand the K and V of a prefix over to the cache; they must have been stored before.

        With `a` the length rounded down to whole pages and `c` the result, afterwards:
            `indices[:c]`   not taken: the cache has its own slots there. What is not the
                            cache's own slot is a duplicate that the caller still owns.
            `indices[c:a]`  the cache's from now on: whole aligned pages, distinct, in range.
            `indices[a:]`   the part page, still the caller's.

        Args:
            input_ids: `[n]`, int32 or int64, on the CPU, any stride. Read only, copied.
            indices: `[n]`, int32, on the CPU or on the manager's device; on a GPU the call
                waits for their values. Read only, copied.
            namespace: as in `match_prefix`.

        Returns:
            `c`: how many tokens of the prefix were cached already; a multiple of the page size.

        Raises:
            InvalidType, InvalidValue: the arguments, or lengths that differ; in checked mode
                also slots that the cache cannot take over.
        """

    @abstractmethod
    def evict(self, size: int) -> torch.Tensor:
        """Give up least-wanted leaf nodes that no lock covers, until `size` slots are free.

        Returns:
            The slots, the caller's from now on: `[>= size]`, int32, on the manager's device;
            nodes in the order in which they went, each node's slots in token order.

        Raises:
            InvalidType, InvalidValue: `size` is not an int, or negative.
            NotEvictable: more than the evictable size.
        """

    @abstractmethod
    def reset(self) -> torch.Tensor:
        """Give up everything, as an evict of all would; every handle becomes stale.

        Returns:
            The slots, the caller's from now on: `[total_size]`, int32, on the manager's device.

        Raises:
            CacheInUse: something is locked.
        """

    @property
    @abstractmethod
    def size_info(self) -> SizeInfo:
        """Evictable and protected slots, in constant time."""

    @abstractmethod
    def check_integrity(self) -> None:
        """Recount everything; changes nothing.

        Raises:
            IntegrityError: naming the damage and the path of the node. Never on a healthy cache.
        """
