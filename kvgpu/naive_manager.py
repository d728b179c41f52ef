"""The baseline with no memory: nothing is ever cached, so nothing can be shared or evicted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kvgpu._arguments import (
    INDICES,
    TOKENS,
    require_device,
    require_handle,
    require_namespace,
    require_same_length,
    require_size,
    require_vector,
)
from kvgpu.base import BaseCacheHandle, BaseCacheManager, SizeInfo
from kvgpu.errors import EvictionUnsupported
from kvgpu.radix_node import (
    NO_PAGES,
    TOKEN_BYTES,
    EvictPlan,
    InsertPlan,
    IntArray,
    MatchPlan,
    Node,
)

__all__ = ["NaiveCacheHandle", "NaiveCacheManager", "NaiveCore"]

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class NaiveCacheHandle(BaseCacheHandle):
    """Names the empty prefix, the only one there is."""


_EMPTY_HANDLE = NaiveCacheHandle(0)


class NaiveCore:
    """The host core of what caches nothing: every plan is empty, and to act on it does nothing.

    An insert takes nothing over and says so as the manager does: all of it was there already,
    though no node ends it.
    """

    num_slots: int | None = None
    evictable_size = 0

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size

    def plan_match(self, namespace: str | None, data: bytes) -> MatchPlan:
        """Find nothing."""
        return MatchPlan([], None, NO_PAGES)

    def apply_match(self, plan: MatchPlan) -> None:
        """Do nothing."""

    def unlocked_size(self, plan: MatchPlan) -> int:
        """Nothing was matched."""
        return 0

    def plan_insert(self, namespace: str | None, data: bytes, slots: IntArray) -> InsertPlan:
        """Take nothing over."""
        return InsertPlan([], None, None, None, len(data) // TOKEN_BYTES)

    def apply_insert(self, plan: InsertPlan) -> None:
        """Do nothing."""

    def pages_from(self, path: Sequence[Node], start: int) -> IntArray:
        """No page is the cache's."""
        return NO_PAGES

    def lock_path(self, node: Node) -> None:
        """Do nothing: there is no node to be called with."""

    def unlock_path(self, node: Node) -> None:
        """Do nothing: there is no node to be called with."""

    def plan_evict(self, size: int, keeping: MatchPlan | None = None) -> EvictPlan:
        """Choose nothing.

        Raises:
            EvictionUnsupported: any size above 0.
        """
        if size:
            raise EvictionUnsupported(size)
        return EvictPlan([], NO_PAGES)

    def apply_evict(self, plan: EvictPlan) -> None:
        """Do nothing."""

    def plan_reset(self) -> EvictPlan:
        """Choose nothing."""
        return EvictPlan([], NO_PAGES)

    def apply_reset(self, plan: EvictPlan) -> None:
        """Do nothing."""

    def nodes(self) -> Sequence[Node]:
        """None."""
        return ()


class NaiveCacheManager(BaseCacheManager):
    """Caches nothing, and checks its arguments as the radix manager does."""

    def __init__(self, device: torch.device | str, *, page_size: int = 1) -> None:
        """Make one.

        Args:
            device: where the empty index tensor lies.
            page_size: slots of a page.

        Raises:
            InvalidType, InvalidValue: a page size below 1, or not a device.
        """
        require_size("page_size", page_size, minimum=1)
        self._empty = torch.empty(0, dtype=torch.int32, device=require_device(device))
        self.device = self._empty.device
        self.page_size = page_size
        self._index_devices = (_CPU, self.device)
        # Its own operations touch nothing that would want the mutex; the requests' do.
        self.mutex = threading.Lock()
        self.core = NaiveCore(page_size)

    def match_prefix(
        self, input_ids: torch.Tensor, *, namespace: str | None = None
    ) -> tuple[NaiveCacheHandle, torch.Tensor]:
        """Find nothing: the empty handle, and one shared empty tensor."""
        require_vector("input_ids", input_ids, TOKENS)
        require_namespace(namespace)
        return _EMPTY_HANDLE, self._empty

    def lock_handle(
        self,
        handle: BaseCacheHandle,
        unlock: bool = False,
    ) -> None:
        """Accept any handle, whoever made it, and do nothing."""
        require_handle(handle)

    def insert_prefix(
        self, input_ids: torch.Tensor, indices: torch.Tensor, *, namespace: str | None = None
    ) -> int:
        """Take nothing over.

        Returns:
            The length rounded down to whole pages, as if all of that were cached already: the
            caller goes on owning every slot, and frees them as duplicates and part page.
        """
        require_vector("input_ids", input_ids, TOKENS)
        require_vector("indices", indices, INDICES, self._index_devices)
        require_same_length("indices", indices, "input_ids", input_ids)
        require_namespace(namespace)
        return len(input_ids) // self.page_size * self.page_size

    def evict(self, size: int) -> torch.Tensor:
        """Give up nothing: the shared empty tensor.

        Raises:
            InvalidType, InvalidValue: as in the base.
            EvictionUnsupported: any size above 0.
        """
        self.core.plan_evict(require_size("size", size, minimum=0))
        return self._empty

    def reset(self) -> torch.Tensor:
        """Give up nothing: the shared empty tensor."""
        return self._empty

    @property
    def size_info(self) -> SizeInfo:
        """Nothing."""
        return SizeInfo(0, 0)

    def check_integrity(self) -> None:
        """What is not there is never damaged."""
