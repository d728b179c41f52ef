"""The life of many requests over one cache and one pool: who may begin, and who owns what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy.typing as npt
import torch

from kvgpu import ledger
from kvgpu._arguments import describe, require_namespace, require_size, token_array
from kvgpu._slot_checks import ALL_SLOTS
from kvgpu.allocator import PageAllocator
from kvgpu.base import BaseCacheManager, BaseKVCache
from kvgpu.errors import InvalidType, InvalidValue
from kvgpu.host_core import HostCore, HostManager
from kvgpu.page_table import PageTable, StepInput
from kvgpu.request import Request
from kvgpu.request_steps import RequestSteps

__all__ = ["RequestManager"]


class RequestManager:
    """Admits requests, and keeps every page in exactly one place: free, cached, or a request's.

    It owns the cache manager, the storage and all pages from now on: nobody else inserts, locks
    or evicts. Every method, and every method of a request, is one step under the manager's
    mutex and may be called from any thread; a call that raises has changed nothing. Nothing
    waits for a device.

    Attributes:
        manager, kv_cache: as given.
        allocator, page_table: made here; to look at.
        page_size: in slots.
        max_len: tokens that a request may have slots for.
        steps: where pages and locks go; to be called by the holder of its mutex alone.
    """

    steps_class: type[RequestSteps] = RequestSteps
    """What makes `steps`; a subclass may name another."""

    def __init__(
        self,
        manager: BaseCacheManager,
        kv_cache: BaseKVCache,
        *,
        max_requests: int,
        max_len: int | None = None,
    ) -> None:
        """Make one over an empty cache.

        Args:
            manager: empty, with a host core; a `RadixCacheManager` or `NaiveCacheManager`.
            kv_cache: of the manager's page size and device. It is not touched here.
            max_requests: how many may run at a time: rows of the page table.
            max_len: tokens that one of them may have slots for; None: all slots of the pool.
                Host and device keep an int32 for each of its pages and each of the requests.

        Raises:
            InvalidType, InvalidValue: an argument, or two that do not fit each other.
        """
        core, mutex = _host_side(manager, kv_cache)
        page_size, num_slots = kv_cache.page_size, kv_cache.num_pages * kv_cache.page_size
        max_len = num_slots if max_len is None else require_size("max_len", max_len, minimum=1)
        self.manager = manager
        self.kv_cache = kv_cache
        self.page_size = page_size
        self.max_len = max_len
        self.allocator = PageAllocator(kv_cache.num_pages, page_size)
        self.page_table = PageTable(max_requests, max_len, page_size, kv_cache.device)
        self.steps = self.steps_class(core, mutex, self.allocator, self.page_table, max_len)

    @property
    def running(self) -> tuple[Request, ...]:
        """The requests that run now."""
        with self.steps.mutex:
            return tuple(self.steps.running.values())

    @property
    def num_free_pages(self) -> int:
        """Pages that could be had without evicting anything."""
        return self.allocator.num_free_pages

    @property
    def num_available_pages(self) -> int:
        """Free and evictable pages together."""
        with self.steps.mutex:
            evictable_pages = self.steps.core.evictable_size // self.page_size
            return self.allocator.num_free_pages + evictable_pages

    def begin(
        self,
        input_ids: torch.Tensor | npt.NDArray[Any] | Sequence[int],
        *,
        namespace: str | None = None,
        max_tokens: int | None = None,
    ) -> Request:
        """Admit a request: lock what is cached of its prompt, get slots for the rest.

        One token at least is left to compute, also where the whole prompt is cached. Evicts
        what is missing of free pages, and no more.

        Args:
            input_ids: the prompt: `[n]`, `1 <= n <= max_len`, a tensor on the CPU (int32 or
                int64, any stride), an array of signed integers, or ints. Copied.
            namespace: as in `match_prefix`.
            max_tokens: at most so many of the tokens left to compute get slots now (the first
                chunk of a prefill; `Request.extend` gets more); None: all of them.

        Raises:
            InvalidType, InvalidValue: the arguments.
            TooManyRequests: `max_requests` run already.
            NoRoom: not enough pages are free or evictable.
        """
        tokens = token_array("input_ids", input_ids)
        require_namespace(namespace)
        if not 1 <= len(tokens) <= self.max_len:
            raise InvalidValue("input_ids", f"length {len(tokens)}", f"1 to {self.max_len}")
        if max_tokens is not None:
            require_size("max_tokens", max_tokens, minimum=1)
        request = Request(self.steps, namespace, tokens)
        aligned_len = (len(tokens) - 1) // self.page_size * self.page_size
        data = request.tokens[:aligned_len].tobytes()
        with self.steps.mutex:
            self.steps.admit(request, data, max_tokens)
        return request

    def flush(self) -> None:
        """Empty the cache: all its pages are free afterwards.

        Raises:
            CacheInUse: a running request uses some of it.
        """
        with self.steps.mutex:
            self.steps.flush()

    def upload(self, batch: Iterable[Request]) -> StepInput:
        """Send the device all that a step needs to know, in one copy; nothing waits.

        Everything of `StepInput` is enqueued on the current stream: a kernel on another has to be
        ordered after it, and a step still reading the page table on another before it.

        Args:
            batch: running requests of this manager, each once, in the order of the step; any
                iterable.

        Raises:
            InvalidType, InvalidValue: something else.
            RequestEnded: one of them has.
        """
        try:
            batch = list(batch)
        except TypeError:
            raise InvalidType("batch", describe(batch), "requests") from None
        for request in batch:
            if not isinstance(request, Request):
                raise InvalidType("batch", describe(request), "requests")
        with self.steps.mutex:
            running = self.steps.running
            for request in batch:
                request.require_running()
                if running.get(request.row) is not request:
                    raise InvalidValue("batch", "another manager's request", "requests of this one")
            rows = [request.row for request in batch]
            if len(set(rows)) < len(rows):
                raise InvalidValue("batch", "a request twice", "each request once")
            return self.page_table.upload(
                rows,
                [request.stored_len for request in batch],
                [request.extended_len for request in batch],
            )

    def check_ledger(self) -> None:
        """Recount who owns what, from scratch; changes nothing.

        Two steps: first the cache by itself, as `check_integrity`, then who owns its pages. Damage
        that another thread does to the cache between the two may be read as the ledger's.

        Raises:
            IntegrityError: the cache itself is damaged.
            LedgerError: a page in no place or in two; a row, or a lock, that is not as its
                request says. Never while all is well.
        """
        self.manager.check_integrity()
        with self.steps.mutex:
            ledger.check(self.steps)


def _host_side(manager: Any, kv_cache: Any) -> tuple[HostCore, AbstractContextManager[bool]]:
    """The core and the mutex of an empty manager that fits the storage."""
    if not isinstance(manager, BaseCacheManager) or not isinstance(manager, HostManager):
        raise InvalidType("manager", describe(manager), "a cache manager with a host core")
    if not isinstance(kv_cache, BaseKVCache):
        raise InvalidType("kv_cache", describe(kv_cache), "a BaseKVCache")
    core, num_slots = manager.core, kv_cache.num_pages * kv_cache.page_size
    if manager.page_size != kv_cache.page_size:
        expected = f"{kv_cache.page_size}, as the storage"
        raise InvalidValue("manager", f"pages of {manager.page_size} slots", expected)
    if manager.device != kv_cache.device:
        expected = f"{kv_cache.device}, as the storage"
        raise InvalidValue("manager", f"device {manager.device}", expected)
    if core.num_slots is not None and core.num_slots < num_slots:
        expected = f"at least {num_slots}, as the storage has"
        raise InvalidValue("manager", f"{core.num_slots} slots", expected)
    if num_slots > ALL_SLOTS:
        raise InvalidValue("kv_cache", f"{num_slots} slots", f"at most {ALL_SLOTS}")
    if manager.size_info.total_size:
        raise InvalidValue("manager", f"{manager.size_info.total_size} slots cached", "none")
    return core, manager.mutex
