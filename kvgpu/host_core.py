"""What a manager offers on the host, so that several of its operations become one step.

The public operations of a manager each hold its mutex, and make tensors. Whoever manages whole
requests holds the mutex from the first decision to the last, and talks to the core behind it:
bytes, page numbers and plain ints, nothing that waits for a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import torch

from kvgpu.radix_node import EvictPlan, InsertPlan, IntArray, MatchPlan, Node

__all__ = ["HostCore", "HostManager"]


class HostCore(Protocol):
    """The operations of a cache on the host: `plan_*` reads and may fail, `apply_*` may not.

    Sizes are in slots, `data` is whole pages of int64 tokens. `RadixCore` says more of each.
    """

    page_size: int
    num_slots: int | None
    evictable_size: int

    def plan_match(self, namespace: str | None, data: bytes) -> MatchPlan:
        """Work out the longest cached prefix."""

    def apply_match(self, plan: MatchPlan) -> None:
        """Split where it ends, and refresh it."""

    def unlocked_size(self, plan: MatchPlan) -> int:
        """How much of a matched prefix no lock covers."""

    def plan_insert(self, namespace: str | None, data: bytes, slots: IntArray) -> InsertPlan:
        """Work out what an insert adds."""

    def apply_insert(self, plan: InsertPlan) -> None:
        """Add it, and refresh the whole prefix."""

    def pages_from(self, path: Sequence[Node], start: int) -> IntArray:
        """The cache's pages of the prefix that `path` leads to, from token `start` on."""

    def lock_path(self, node: Node) -> None:
        """Count one more lock on the prefix that ends at `node`."""

    def unlock_path(self, node: Node) -> None:
        """Give one of them back."""

    def plan_evict(self, size: int, keeping: MatchPlan | None = None) -> EvictPlan:
        """Choose what goes, once `keeping` was applied and locked."""

    def apply_evict(self, plan: EvictPlan) -> None:
        """Remove it."""

    def plan_reset(self) -> EvictPlan:
        """Choose everything."""

    def apply_reset(self, plan: EvictPlan) -> None:
        """Remove it."""

    def nodes(self) -> Iterable[Node]:
        """Everything that is cached, each page once."""


@runtime_checkable
class HostManager(Protocol):
    """A manager that lets others hold its mutex and talk to its core."""

    @property
    def core(self) -> HostCore:
        """To be called by the holder of `mutex` alone."""

    @property
    def mutex(self) -> AbstractContextManager[bool]:
        """Held by each public operation of the manager; not reentrant."""

    @property
    def device(self) -> torch.device:
        """Where its index tensors go."""

    @property
    def page_size(self) -> int:
        """Slots a page."""
