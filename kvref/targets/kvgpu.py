"""The managers of kvgpu as targets."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from kvgpu import NaiveCacheManager, RadixCacheManager
from kvref.configuration import Configuration
from kvref.oracle import NodeView
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.target import TargetFactory
from kvref.targets.torch_manager import TorchTarget

__all__ = ["RadixTarget", "naive", "radix", "radix_factory"]


class RadixTarget(TorchTarget):
    """A `RadixCacheManager`, which can be looked into."""

    def nodes(self) -> list[NodeView]:
        """Every node with its slots and its lock count."""
        return [
            NodeView(namespace, prefix, tuple(slots), node.ref_count)
            for namespace, prefix, slots, node in _walk(self.manager.core)
        ]

    def fingerprint(self) -> Hashable:
        """Nodes with their counts and times, the sizes and the eviction order."""
        core = self.manager.core
        found: list[Hashable] = []
        for namespace, root in core.roots.items():
            found.append(namespace)
            waiting = [*root.children.values()]
            while waiting:
                node = waiting.pop()
                children = node.children.values()
                # How many children there are says, in this order, which node is below which.
                found.append(
                    (
                        len(children), node.key, node.pages.tobytes(),
                        node.ref_count, node.own_locks, node.recency, node.created,
                    )
                )  # fmt: skip
                waiting += children
        return tuple(found), core.evictable_size, core.protected_size, tuple(core.leaves)


def radix_factory(manager: Callable[..., Any], description: str = "") -> TargetFactory:
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

    return TargetFactory(build, Promises(), description)


radix = radix_factory(RadixCacheManager, "prefix sharing, locks, LRU or FIFO eviction")


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
)


def _walk(core: Any) -> list[tuple[str | None, tuple[int, ...], list[int], Any]]:
    """Each node with its namespace, the tokens that it ends and its slots."""
    found = []
    size = core.page_size
    for namespace, root in core.roots.items():
        nothing: tuple[int, ...] = ()
        waiting = [(child, nothing) for child in root.children.values()]
        while waiting:
            node, above = waiting.pop()
            prefix = above + tuple(np.frombuffer(node.key, dtype=np.int64).tolist())
            slots = [page * size + i for page in node.pages.tolist() for i in range(size)]
            found.append((namespace, prefix, slots, node))
            waiting += [(child, prefix) for child in node.children.values()]
    return found
