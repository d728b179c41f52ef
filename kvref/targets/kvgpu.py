"""The managers of kvgpu as targets."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from kvgpu import NaiveCacheManager, RadixCacheManager
from kvref.configuration import Configuration
from kvref.oracle import NodeView
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.requests.target import RequestTargetFactory
from kvref.target import TargetFactory
from kvref.targets.kvgpu_requests import naive_requests, radix_requests
from kvref.targets.kvgpu_structure import fingerprint, nodes
from kvref.targets.torch_manager import TorchTarget

__all__ = ["RadixTarget", "naive", "radix", "radix_factory"]


class RadixTarget(TorchTarget):
    """A `RadixCacheManager`, which can be looked into."""

    def nodes(self) -> list[NodeView]:
        """Every node with its slots and its lock count."""
        return nodes(self.manager.core)

    def fingerprint(self) -> Hashable:
        """Nodes with their counts and times, the sizes and the eviction order."""
        return fingerprint(self.manager.core)


def radix_factory(
    manager: Callable[..., Any],
    description: str = "",
    requests: RequestTargetFactory | None = None,
) -> TargetFactory:
    """A target of `manager`, a class with the constructor of `RadixCacheManager`."""

    def build(configuration: Configuration) -> RadixTarget:
        make = partial(
            manager,
            "cpu",
            page_size=configuration.page_size,
            num_slots=configuration.num_slots,
            policy=configuration.policy,
            checked=configuration.checked,
        )
        return RadixTarget(make, page_size=configuration.page_size)

    return TargetFactory(build, Promises(), description, requests)


radix = radix_factory(
    RadixCacheManager, "prefix sharing, locks, LRU or FIFO eviction", radix_requests()
)


def _build_naive(configuration: Configuration) -> TorchTarget:
    make = partial(NaiveCacheManager, "cpu", page_size=configuration.page_size)
    return TorchTarget(make, page_size=configuration.page_size)


naive = TargetFactory(
    _build_naive,
    Promises(
        keeps_prefixes=False,
        checked_inserts=False,
        refuses=frozenset({RefusalKind.TYPE, RefusalKind.VALUE, RefusalKind.UNSUPPORTED}),
    ),
    "the baseline that remembers nothing",
    naive_requests,
)
