"""The inside of a radix manager of kvgpu, as anybody can compare it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from kvref.oracle import NodeView

__all__ = ["fingerprint", "nodes"]


def nodes(core: Any) -> list[NodeView]:
    """Every node with its slots and its lock count."""
    return [
        NodeView(namespace, prefix, tuple(slots), node.ref_count)
        for namespace, prefix, slots, node in _walk(core)
    ]


def fingerprint(core: Any) -> Hashable:
    """Nodes with their counts and times, the sizes and the eviction order."""
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
