"""An engine that stores: what the tests of requests share.

K and V of a token are a number that stands for its namespace and its whole prefix, so that
whoever reads a slot sees whose it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kvgpu import (
    KVCacheLayout,
    MHAKVCache,
    NaiveCacheManager,
    RadixCacheManager,
    Request,
    RequestManager,
)
from kvgpu.radix_node import Node
from tests.kvgpu.trees import picture


class Engine:
    """A RequestManager over a small pool, and the part that a model has in it."""

    def __init__(
        self,
        num_pages: int = 8,
        page_size: int = 1,
        *,
        naive: bool = False,
        max_requests: int = 4,
        max_len: int | None = None,
        policy: str = "lru",
        manager_class: type[RequestManager] = RequestManager,
    ) -> None:
        self.kv_cache = MHAKVCache(
            1, 1, 1, num_pages, torch.float64, KVCacheLayout.LayerFirst, "cpu", page_size=page_size
        )
        self.manager = (
            NaiveCacheManager("cpu", page_size=page_size)
            if naive
            else RadixCacheManager("cpu", page_size=page_size, policy=policy, checked=True)
        )
        self.requests = manager_class(
            self.manager, self.kv_cache, max_requests=max_requests, max_len=max_len
        )
        self.tags: dict[tuple[str | None, tuple[int, ...]], int] = {}
        # What a request's tokens are, also those that it was not told yet.
        self.tokens: dict[int, list[int]] = {}

    # Steps

    def begin(self, tokens: Sequence[int], **options: Any) -> Request:
        """Admit, without storing anything; one token at least is left to compute."""
        request = self.requests.begin(list(tokens), **options)
        assert request.extended_len > request.cached_len == request.stored_len
        assert request.cached_len % self.requests.page_size == 0
        self.tokens[id(request)] = list(tokens)
        return request

    def store(self, request: Request, ahead: Sequence[int] = ()) -> None:
        """Run a step: store all that has a slot; `ahead` are values that it is told later."""
        tokens = self.tokens[id(request)] = [*self.tokens[id(request)], *ahead]
        values = [
            self.tag(request.namespace, tokens[: end + 1])
            for end in range(request.stored_len, request.extended_len)
        ]
        rows = torch.tensor(values, dtype=torch.float64).reshape(-1, 1, 1)
        self.kv_cache.store_kv(rows, rows, torch.from_numpy(request.out_loc), 0)
        request.mark_stored()

    def run(self, tokens: Sequence[int], **options: Any) -> Request:
        """Admit and store."""
        request = self.begin(tokens, **options)
        self.store(request)
        return request

    def decode(self, request: Request, token: int) -> None:
        """One more token, known before it gets its slot."""
        request.append([token])
        request.extend()
        self.store(request, [token])

    def cache(self, tokens: Sequence[int], **options: Any) -> None:
        """Have these tokens cached, by a request that ends."""
        self.run(tokens, **options).finish()

    # Looks

    def tag(self, namespace: str | None, prefix: Sequence[int]) -> int:
        """The number of a prefix."""
        return self.tags.setdefault((namespace, tuple(prefix)), len(self.tags) + 1)

    def read(self, slots: Sequence[int]) -> list[float]:
        """What lies in K at these slots; V is the same."""
        k, v = (cache[0].reshape(-1) for cache in (self.kv_cache._pool.k, self.kv_cache._pool.v))
        at = torch.tensor(list(slots), dtype=torch.int64)
        assert torch.equal(k[at], v[at])
        return k[at].tolist()

    def check(self) -> None:
        """Ledger, integrity, and content of every cached page and of every running request."""
        self.requests.check_ledger()
        self.manager.check_integrity()
        for request in self.requests.running:
            tokens = self.tokens[id(request)][: request.stored_len]
            wanted = [self.tag(request.namespace, tokens[: i + 1]) for i in range(len(tokens))]
            assert self.read(request.slots(0, request.stored_len).tolist()) == wanted
        core = self.requests.steps.core
        for node in core.nodes():
            namespace, prefix = prefix_of(node)
            wanted = [self.tag(namespace, prefix[: i + 1]) for i in range(len(prefix))]
            slots = core.slots_of([node.pages]).tolist()  # type: ignore[attr-defined]
            assert self.read(slots) == wanted[-len(slots) :]

    def drain(self) -> None:
        """End what runs; then every page can be had, in one place each."""
        for request in self.requests.running:
            request.abort()
        assert self.manager.size_info.protected_size == 0
        self.check()
        self.requests.flush()
        assert self.requests.num_free_pages == self.kv_cache.num_pages
        self.check()

    def free(self) -> int:
        return self.requests.num_free_pages

    def sizes(self) -> tuple[int, int]:
        return tuple(self.manager.size_info)

    def picture(self) -> dict[str, Any]:
        """All that a refused call could have changed."""
        table, allocator = self.requests.page_table, self.requests.allocator
        return {
            "cache": picture(self.manager) if isinstance(self.manager, RadixCacheManager) else 0,
            "free": allocator.free_pages.tolist(),
            "marked free": allocator._is_free.tolist(),
            "rows": table.free_rows,
            "changed": table._changed.copy(),
            "table": table.host.tolist(),
            "requests": {
                id(each): [getattr(each, name) for name in LENGTHS]
                + [each.tokens[: each.known_len].tolist()]
                for each in self.requests.running
            },
        }


LENGTHS = (
    "state namespace known_len extended_len stored_len cached_len row node".split()  # noqa: SIM905
)


def lengths(request: Request) -> tuple[int, int, int, int]:
    """cached, stored, extended, known."""
    return request.cached_len, request.stored_len, request.extended_len, request.known_len


def prefix_of(node: Node) -> tuple[str | None, list[int]]:
    """The namespace and the tokens up to the end of a node."""
    key = b""
    while node.parent is not None:
        key = node.key + key
        node = node.parent
    return node.namespace, memoryview(key).cast("q").tolist()  # type: ignore[attr-defined]
