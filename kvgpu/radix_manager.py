"""The radix cache as torch sees it: arguments in, handles and index tensors out.

What is cached and what goes is decided by `RadixCore` on the host. Nothing here waits for a
device, except that an insert reads `indices` that lie on one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import torch

from kvgpu import integrity
from kvgpu._arguments import (
    INDICES,
    TOKENS,
    require_device,
    require_handle,
    require_namespace,
    require_same_length,
    require_size,
    require_vector,
    token_bytes,
)
from kvgpu.base import BaseCacheHandle, BaseCacheManager, SizeInfo
from kvgpu.errors import ForeignHandle, InvalidValue, StaleHandle, UnbalancedUnlock
from kvgpu.radix_core import RadixCore
from kvgpu.radix_node import IntArray, Node

__all__ = ["RadixCacheHandle", "RadixCacheManager"]

_POLICIES = ("lru", "fifo")
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class RadixCacheHandle(BaseCacheHandle):
    """Names the prefix that ends at one node, for as long as that node is in the tree.

    Equal handles name one incarnation; the empty handles of all managers are equal.
    """

    node: Node | None = field(default=None, repr=False)
    """Ends the prefix; None for the empty one. It is the manager's: never write to it."""
    owner: object = field(default=None, repr=False, compare=False)
    """The `identity` of the core that the node belongs to."""


_EMPTY_HANDLE = RadixCacheHandle(0)


class RadixCacheManager(BaseCacheManager):
    """Shares the KV of common prefixes through a radix tree of whole pages.

    Every public operation holds `mutex`, so each is one step. Several operations become one
    step for whoever holds it and talks to `core`.
    """

    core_class: type[RadixCore] = RadixCore
    """What makes `core`; a subclass may name another."""

    def __init__(
        self,
        device: torch.device | str,
        *,
        page_size: int = 1,
        num_slots: int | None = None,
        policy: str = "lru",
        checked: bool = False,
    ) -> None:
        """Make an empty cache.

        Args:
            device: where the returned index tensors go.
            page_size: slots of a page.
            num_slots: of the pool, for range checks; None: any slot from 0 on is in range. It
                need not be a multiple of the page size: no whole page fits into the rest.
            policy: the leaf that goes first has the least recency ("lru") or the earliest
                creation ("fifo").
            checked: validate the slots of every insert, on the host.

        Raises:
            InvalidType, InvalidValue: sizes below 1, an unknown policy, not a device.
        """
        require_size("page_size", page_size, minimum=1)
        if num_slots is not None:
            require_size("num_slots", num_slots, minimum=1)
        if policy not in _POLICIES:
            raise InvalidValue("policy", repr(policy), " or ".join(map(repr, _POLICIES)))
        # The empty tensor also turns "cuda" into "cuda:0", which is what its tensors say.
        self._empty = torch.empty(0, dtype=torch.int32, device=require_device(device))
        self.device = self._empty.device
        self.page_size = page_size
        self._index_devices = (_CPU, self.device)
        self.mutex = threading.Lock()
        self.core = self.core_class(
            page_size=page_size, num_slots=num_slots, policy=policy, checked=checked
        )

    def match_prefix(
        self, input_ids: torch.Tensor, *, namespace: str | None = None
    ) -> tuple[RadixCacheHandle, torch.Tensor]:
        """As in the base; the tensor was made on the calling thread's current stream."""
        require_vector("input_ids", input_ids, TOKENS)
        require_namespace(namespace)
        data = token_bytes(input_ids, self.page_size)
        with self.mutex:
            plan = self.core.plan_match(namespace, data)
            node = plan.node
            if node is None:
                return _EMPTY_HANDLE, self._empty
            indices = self.upload(plan.slots)
            handle = RadixCacheHandle(node.end, node, self.core.identity)
            self.core.apply_match(plan)
        return handle, indices

    def insert_prefix(
        self, input_ids: torch.Tensor, indices: torch.Tensor, *, namespace: str | None = None
    ) -> int:
        """As in the base; checked mode looks at all slots but those of the part page."""
        require_vector("input_ids", input_ids, TOKENS)
        require_vector("indices", indices, INDICES, self._index_devices)
        require_same_length("indices", indices, "input_ids", input_ids)
        require_namespace(namespace)
        data = token_bytes(input_ids, self.page_size)
        # Outside the mutex: from a GPU, this waits. On the CPU, a call less into torch.
        slots = (indices if indices.is_cpu else indices.cpu()).numpy()
        with self.mutex:
            plan = self.core.plan_insert(namespace, data, slots)
            self.core.apply_insert(plan)
        return plan.already_len

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        """As in the base."""
        require_handle(handle)
        if handle.cached_len == 0:
            return
        if not isinstance(handle, RadixCacheHandle) or handle.owner is not self.core.identity:
            raise ForeignHandle(handle.cached_len)
        node = handle.node
        assert node is not None
        with self.mutex:
            if node.parent is None:
                raise StaleHandle(handle.cached_len)
            if not unlock:
                self.core.lock_path(node)
            elif node.own_locks:
                self.core.unlock_path(node)
            else:
                raise UnbalancedUnlock(handle.cached_len)

    def evict(self, size: int) -> torch.Tensor:
        """As in the base; the tensor was made on the calling thread's current stream."""
        require_size("size", size, minimum=0)
        with self.mutex:
            plan = self.core.plan_evict(size)
            indices = self.upload(plan.slots)
            self.core.apply_evict(plan)
        return indices

    def reset(self) -> torch.Tensor:
        """As in the base; the tensor was made on the calling thread's current stream."""
        with self.mutex:
            plan = self.core.plan_reset()
            indices = self.upload(plan.slots)
            self.core.apply_reset(plan)
        return indices

    @property
    def size_info(self) -> SizeInfo:
        """As in the base."""
        with self.mutex:
            return SizeInfo(self.core.evictable_size, self.core.protected_size)

    def check_integrity(self) -> None:
        """As in the base; O(n log n) of everything cached, and holds the mutex meanwhile."""
        with self.mutex:
            integrity.check(self.core)

    def upload(self, slots: IntArray) -> torch.Tensor:
        """The one way of a result to the device.

        Args:
            slots: `[n]`, int32, which nobody else keeps: on the CPU the tensor is that memory.

        Returns:
            `[n]`, int32, on the manager's device; the shared empty tensor if n is 0.
        """
        if not len(slots):
            return self._empty
        tensor = torch.from_numpy(slots)
        if self.device == _CPU:
            return tensor
        if self.device.type == "cuda":
            # From pageable memory the copy would wait for what the stream still has to do.
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)
