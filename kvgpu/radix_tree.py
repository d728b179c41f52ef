"""The radix tree on the host: tokens as bytes, page numbers, plain ints, no torch.

Each method is one small step that leaves the tree whole. `RadixCore` puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sortedcontainers import SortedDict

from kvgpu.radix_node import (
    NO_PAGES,
    TOKEN_BYTES,
    Cut,
    IntArray,
    Node,
    Root,
    Walk,
)

__all__ = ["RadixTree"]


class RadixTree:
    """The tree, its sizes, and the leaves in the order in which they would be evicted.

    Attributes:
        identity: tells handles of this core from those of others, and keeps nothing alive.
        roots: by namespace. A root is there only while it has a child: tenants that went
            leave nothing behind.
        leaves: exactly the evictable leaves, by `order_time`. No two of them ever share a
            time: all nodes touched at one time lie on one path from the root, as do all
            halves of what one insert created, and of a path only the last can be a leaf.
            Locked leaves are not in it, so none is skipped and each step is O(log n).
        evictable_size, protected_size: in slots.
        clock: the time of the last operation that acted.
        held: the numbers of all pages in the tree in checked mode, else None.
    """

    def __init__(
        self, *, page_size: int, num_slots: int | None, policy: str, checked: bool
    ) -> None:
        """Make an empty cache; the arguments were checked by the caller.

        Args:
            page_size: in slots.
            num_slots: of the pool; None: not known.
            policy: "lru" or "fifo".
            checked: validate the slots of every insert.
        """
        self.page_size = page_size
        self.num_slots = num_slots
        self.by_recency = policy == "lru"
        self.identity = object()
        self.roots: dict[str | None, Root] = {}
        self.leaves: SortedDict[int, Node] = SortedDict()
        self.evictable_size = 0
        self.protected_size = 0
        self.clock = 0
        self.held: set[int] | None = set() if checked else None
        self.page_bytes = page_size * TOKEN_BYTES
        self._offsets = np.arange(page_size, dtype=np.int32)

    # Reading

    def walk(self, namespace: str | None, data: bytes) -> Walk:
        """Follow `data`, whole pages of tokens, as far as it is cached."""
        path: list[Node] = []
        node: Node | None = self.roots.get(namespace)
        if node is None:
            return Walk(path, None, 0)
        position, end, page_bytes = 0, len(data), self.page_bytes
        while position < end:
            node = node.children.get(data[position : position + page_bytes])
            if node is None:
                break
            if not data.startswith(node.key, position):
                return Walk(path, node, self.common_pages(node.key, data, position))
            path.append(node)
            position += len(node.key)
        return Walk(path, None, 0)

    def common_pages(self, key: bytes, data: bytes, start: int) -> int:
        """How many whole pages of `key` and of `data` from byte `start` on are the same."""
        num_tokens = min(len(key), len(data) - start) // TOKEN_BYTES
        differ = np.frombuffer(key, np.int64, num_tokens) != np.frombuffer(
            data, np.int64, num_tokens, start
        )
        first = int(differ.argmax())
        # Rounded down: with a page of three tokens the first difference is rarely at its start.
        return (first if differ[first] else num_tokens) // self.page_size

    def runs_of(self, walk: Walk) -> list[IntArray]:
        """The pages that a walk matched: views, to be copied by whoever keeps them."""
        runs = [node.pages for node in walk.path]
        if walk.partial is not None:
            runs.append(walk.partial.pages[: walk.shared])
        return runs

    def nodes(self) -> Iterator[Node]:
        """Every node, roots left out, parents first; the tree must not change meanwhile."""
        waiting: list[Node] = list(self.roots.values())
        while waiting:
            children = waiting.pop().children.values()
            yield from children
            waiting.extend(children)

    def pages_from(self, path: Sequence[Node], start: int) -> IntArray:
        """The pages of a prefix from token `start` on.

        Args:
            path: the nodes from the root to the end of the prefix; also with an upper half that
                is not in the tree yet.
            start: in tokens, whole pages.

        Returns:
            `[(end - start) / page_size]`, int32, a new array, or a shared empty one.
        """
        runs: list[IntArray] = []
        # From the end: a long path whose last node alone is asked for costs no more than that.
        for node in reversed(path):
            if node.end <= start:
                break
            runs.append(node.pages)
        if not runs:
            return NO_PAGES
        pages = np.concatenate(runs[::-1])
        return pages[len(pages) - (path[-1].end - start) // self.page_size :]

    def slots_of(self, runs: Sequence[IntArray]) -> IntArray:
        """The slots of some runs of pages, in order: a new array that is the caller's."""
        if not runs:
            return NO_PAGES
        pages = np.concatenate(runs) if len(runs) > 1 else runs[0].copy()
        if self.page_size == 1:
            return pages
        return (pages[:, None] * self.page_size + self._offsets).reshape(-1)

    # Structure and recency

    def split(self, cut: Cut) -> None:
        """Put the prepared upper half above the cut node, which becomes the lower half.

        Both have the lock count and the times; locks of the prefix that ends at the node stay
        with it. Neither the sizes nor `leaves` change: what was a leaf still is the same one.
        """
        node, upper = cut.node, cut.upper
        parent = node.parent
        assert parent is not None
        upper.parent = parent
        upper.ref_count = node.ref_count
        upper.recency = node.recency
        upper.created = node.created
        parent.children[upper.key[: self.page_bytes]] = upper
        upper.children[cut.lower_key[: self.page_bytes]] = node
        node.parent = upper
        node.key = cut.lower_key
        node.pages = cut.lower_pages

    def attach(self, parent: Node, leaf: Node) -> None:
        """Add a new leaf below a node or a root that may be new: evictable at once."""
        leaf.recency = leaf.created = self.clock
        if parent.is_evictable_leaf():
            self.delist(parent)
        if isinstance(parent, Root):
            self.roots[parent.namespace] = parent
        parent.children[leaf.key[: self.page_bytes]] = leaf
        self.evictable_size += len(leaf.pages) * self.page_size
        if self.held is not None:
            self.held.update(leaf.pages.tolist())
        self.enlist(leaf)

    def touch(self, path: list[Node]) -> None:
        """Make the nodes of one path from the root the most recent of all."""
        relisted = path[-1] if path and self.by_recency and path[-1].is_evictable_leaf() else None
        if relisted is not None:
            self.delist(relisted)
        now = self.clock
        for node in path:
            node.recency = now
        if relisted is not None:
            self.enlist(relisted)

    def remove_leaf(self, node: Node) -> None:
        """Take an evictable leaf out; a parent whose last child it was becomes a leaf."""
        parent = node.parent
        assert parent is not None
        self.delist(node)
        del parent.children[node.key[: self.page_bytes]]
        self.evictable_size -= len(node.pages) * self.page_size
        if self.held is not None:
            self.held.difference_update(node.pages.tolist())
        node.retire()
        if parent.is_evictable_leaf():
            self.enlist(parent)
        elif isinstance(parent, Root) and not parent.children:
            del self.roots[parent.namespace]

    # The order of eviction

    def order_time(self, node: Node) -> int:
        """What the policy compares: the least goes first."""
        return node.recency if self.by_recency else node.created

    def enlist(self, leaf: Node) -> None:
        """From now on an evict may take it."""
        self.leaves[self.order_time(leaf)] = leaf

    def delist(self, leaf: Node) -> None:
        """From now on no evict may take it."""
        del self.leaves[self.order_time(leaf)]

    # Locks

    def lock_path(self, node: Node) -> None:
        """Count one more lock on the prefix that ends at `node`, which is in the tree."""
        node.own_locks += 1
        step = node
        while (parent := step.parent) is not None:
            if step.ref_count == 0:
                self.protect(step)
            step.ref_count += 1
            step = parent

    def unlock_path(self, node: Node) -> None:
        """Count one lock less; `node` is in the tree and has one of its own."""
        node.own_locks -= 1
        step = node
        while (parent := step.parent) is not None:
            step.ref_count -= 1
            if step.ref_count == 0:
                self.unprotect(step)
            step = parent

    def protect(self, node: Node) -> None:
        """Its count is about to leave 0."""
        size = len(node.pages) * self.page_size
        self.evictable_size -= size
        self.protected_size += size
        if not node.children:
            self.delist(node)

    def unprotect(self, node: Node) -> None:
        """Its count has reached 0."""
        size = len(node.pages) * self.page_size
        self.protected_size -= size
        self.evictable_size += size
        if not node.children:
            self.enlist(node)
