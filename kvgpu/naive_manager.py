"""The baseline with no memory: nothing is ever cached, so nothing can be shared or evicted."""

from __future__ import annotations

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

__all__ = ["NaiveCacheHandle", "NaiveCacheManager"]

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class NaiveCacheHandle(BaseCacheHandle):
    """Names the empty prefix, the only one there is."""


_EMPTY_HANDLE = NaiveCacheHandle(0)


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
        if require_size("size", size, minimum=0):
            raise EvictionUnsupported(size)
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
