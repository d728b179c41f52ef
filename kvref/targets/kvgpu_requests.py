"""The requests of kvgpu as a target: its managers, its pool of K and V, its page table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch

from kvgpu import KVCacheLayout, MHAKVCache, NaiveCacheManager, RadixCacheManager, RequestManager
from kvref.buffers import overwritten
from kvref.operations import Carried
from kvref.oracle import NodeView
from kvref.refusals import RefusalKind
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.promises import RequestPromises
from kvref.requests.target import ON_THE_DEVICE, RequestTargetFactory
from kvref.targets.kv_tags import KVTags
from kvref.targets.kvgpu_structure import fingerprint, nodes
from kvref.targets.torch_manager import JUNK, carry

__all__ = ["KvgpuRequests", "RadixRequests", "naive_requests", "radix_requests"]


class WrongStep(Exception):
    """What a step was told does not fit the request."""


class KvgpuRequests:
    """A `RequestManager` as a `kvref.requests.target.RequestTarget`.

    Every buffer that was passed in, or came back, is overwritten as soon as it was used.

    Args:
        manager: empty.
        configuration: of the requests and their pool.
        device: that of the manager.
        make_requests: the class `RequestManager`, or one like it.
    """

    def __init__(
        self,
        manager: Any,
        configuration: RequestConfiguration,
        device: str = "cpu",
        make_requests: Callable[..., Any] = RequestManager,
    ) -> None:
        self.manager = manager
        self.kv_cache = MHAKVCache(
            configuration.kv_heads,
            configuration.layers,
            configuration.head_dim,
            configuration.num_pages,
            getattr(torch, configuration.dtype),
            KVCacheLayout[configuration.layout],
            device,
            page_size=configuration.page_size,
        )
        self.requests = make_requests(
            manager,
            self.kv_cache,
            max_requests=configuration.max_requests,
            max_len=configuration.max_len,
        )
        self._tags = KVTags(self.kv_cache)
        self._size = configuration.page_size
        self._stores = 0
        self._overwrites = overwritten()

    def begin(
        self, tokens: Sequence[int], *, namespace: str | None, max_tokens: Any, carried: Carried
    ) -> Any:
        """The request itself."""
        buffer, input_ids = carry(tokens, carried)
        request = self.requests.begin(input_ids, namespace=namespace, max_tokens=max_tokens)
        if self._overwrites:
            buffer.fill(JUNK)
        return request

    def extend(self, request: Any, count: Any) -> None:
        """Slots for `count` more tokens."""
        request.extend(count)

    def append(self, request: Any, tokens: Sequence[int]) -> None:
        """The values of the next tokens."""
        values = np.array(tokens, dtype=np.int64)
        request.append(values)
        if self._overwrites:
            values.fill(JUNK)

    def store(self, request: Any, tags: Sequence[int]) -> None:
        """Rows that name the tags, to where the request says; then it is told so.

        Where to is asked on the host, or at some stores as a kernel is told.
        """
        self._stores += 1
        if self._stores % ON_THE_DEVICE:
            slots = torch.from_numpy(request.out_loc).to(self.kv_cache.device)
        else:
            slots = self.requests.upload([request]).out_loc
        if slots.shape[0] != len(tags):
            raise WrongStep(f"out_loc of {slots.shape[0]} slots, where {len(tags)} are due")
        if tags:
            for layer, (k, v) in enumerate(self._tags.rows(tags)):
                self.kv_cache.store_kv(k, v, slots, layer)
                k.zero_()
                v.zero_()
            if self._overwrites:
                slots.fill_(-1)
        request.mark_stored()

    def commit(self, request: Any) -> int:
        """What is cached of it."""
        length: int = request.commit()
        return length

    def finish(self, request: Any) -> None:
        """Publish, and give everything back."""
        request.finish()

    def abort(self, request: Any) -> None:
        """Give everything back."""
        request.abort()

    def preempt(self, request: Any) -> list[int]:
        """The tokens that it knew."""
        tokens: list[int] = request.preempt().tolist()
        return tokens

    def flush(self) -> None:
        """Empty the cache."""
        self.requests.flush()

    def row(self, request: Any, start: int, stop: int) -> list[int]:
        """Its slots."""
        slots = request.slots(start, stop)
        values: list[int] = slots.tolist()
        if self._overwrites:
            slots.fill(JUNK)
        return values

    def read(self, slots: Sequence[int]) -> list[int | str]:
        """The tags in these slots."""
        return self._tags.read(slots)

    def sizes(self) -> tuple[int, int]:
        """Evictable and protected size."""
        sizes: tuple[int, int] = self.manager.size_info
        return sizes

    def num_free_pages(self) -> int:
        """Pages that the allocator has."""
        free: int = self.requests.num_free_pages
        return free

    def check(self) -> None:
        """The check of the ledger, which begins with that of the cache; and the device's rows."""
        self.requests.check_ledger()
        running = self.requests.running
        step = self.requests.upload(running)
        if step.seq_lens.tolist() != [request.extended_len for request in running]:
            raise WrongStep(f"seq_lens {step.seq_lens.tolist()} of {running}")
        table = step.page_table.cpu().numpy()
        places = np.arange(self._size)
        for request, row in zip(running, step.rows.tolist(), strict=True):
            slots = request.slots().tolist()
            pages = table[row, : -(-len(slots) // self._size), None]
            shown = (pages * self._size + places).reshape(-1)[: len(slots)].tolist()
            if shown != slots:
                raise WrongStep(f"{request}: slots {slots}, on the device {shown}")


class RadixRequests(KvgpuRequests):
    """Over a `RadixCacheManager`, which can be looked into."""

    def nodes(self) -> list[NodeView]:
        """Every node with its slots and its lock count."""
        return nodes(self.manager.core)

    def fingerprint(self) -> Hashable:
        """The cache's, the free pages, and each request with its row."""
        requests = tuple(
            (request.row, request.known_len, request.extended_len, request.stored_len)
            for request in self.requests.running
        )
        rows = self.requests.page_table.host.tobytes()
        free = self.requests.allocator.free_pages.tobytes()
        return fingerprint(self.manager.core), free, requests, rows


def radix_requests(
    manager: Callable[..., Any] = RadixCacheManager,
    requests: Callable[..., Any] = RequestManager,
    description: str = "whole requests over the radix manager",
) -> RequestTargetFactory:
    """A target of classes with the constructors of `RadixCacheManager` and `RequestManager`."""

    def build(configuration: RequestConfiguration) -> RadixRequests:
        made = manager(
            "cpu",
            page_size=configuration.page_size,
            num_slots=configuration.num_slots,
            policy=configuration.policy,
            checked=configuration.checked,
        )
        return RadixRequests(made, configuration, make_requests=requests)

    return RequestTargetFactory(build, RequestPromises(), description)


def _build_naive(configuration: RequestConfiguration) -> KvgpuRequests:
    manager = NaiveCacheManager("cpu", page_size=configuration.page_size)
    return KvgpuRequests(manager, configuration)


naive_requests = RequestTargetFactory(
    _build_naive,
    RequestPromises(
        keeps_prefixes=False,
        checked_inserts=False,
        refuses=frozenset(
            {RefusalKind.VALUE, RefusalKind.NO_ROOM, RefusalKind.TOO_MANY, RefusalKind.ENDED}
        ),
    ),
    "whole requests over the manager that remembers nothing",
)
