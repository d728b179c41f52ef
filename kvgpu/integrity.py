"""Recounts a radix core, and names what is broken and where.

It trusts nothing: the structure may be damaged in any way, so each thing is looked at before
it is used, cycles first, and nothing recurses. Nothing is changed.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from kvgpu.errors import IntegrityError
from kvgpu.radix_node import NO_PAGES, TOKEN_BYTES, Node, Root
from kvgpu.radix_tree import RadixTree

__all__ = ["check"]

NODE_REACHED_TWICE = "node-reached-twice"
MALFORMED_NODE = "malformed-node"
ROOT_DAMAGED = "root-damaged"
PARENT_LINK = "parent-link"
CHILD_MISFILED = "child-misfiled"
SIBLINGS_ALIKE = "siblings-alike"
EMPTY_NODE = "empty-node"
PART_PAGE = "part-page"
LENGTHS_DIFFER = "lengths-differ"
END_WRONG = "end-wrong"
LOCK_COUNT = "lock-count"
RECENCY_ORDER = "recency-order"
CREATION_ORDER = "creation-order"
CLOCK_BEHIND = "clock-behind"
SLOT_MISALIGNED = "slot-misaligned"
SLOT_OUT_OF_RANGE = "slot-out-of-range"
SLOT_HELD_TWICE = "slot-held-twice"
SIZES_WRONG = "sizes-wrong"
LEAF_NOT_OFFERED = "leaf-not-offered"
OFFERED_WRONGLY = "offered-wrongly"
EVICTION_ORDER = "eviction-order"
HELD_PAGES_WRONG = "held-pages-wrong"

_NUMBERS = ("end", "ref_count", "own_locks", "recency", "created")
_INTS = frozenset({int})
_SHOWN_TOKENS = 8
_SHOWN_NODES = 12


def check(core: RadixTree) -> None:
    """Raise an IntegrityError for the first damage found; never on a healthy core."""
    _Inspection(core).run()


class _Inspection:
    """One pass over a core.

    Attributes:
        nodes: every node reached, roots left out, in the order in which they were reached.
        above: by `id` of a node or root, from where it was reached; None for a root.
    """

    def __init__(self, core: RadixTree) -> None:
        self.core = core
        self.nodes: list[Node] = []
        self.above: dict[int, Node | None] = {}

    def run(self) -> None:
        """All checks, each of which may rely on those before it."""
        for namespace, root in self.core.roots.items():
            self.check_root(namespace, root)
            self.reach_all(root)
        self.check_slots()
        self.check_sizes()
        self.check_leaves()

    # The structure

    def reach_all(self, root: Node) -> None:
        """Visit what is below one root, parents first."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            for child in node.children.values():
                if not isinstance(child, Node):
                    self.fail(MALFORMED_NODE, node, f"a child is a {type(child).__name__}")
                if id(child) in self.above:
                    self.fail(NODE_REACHED_TWICE, child, "reached a second time", above=node)
                self.above[id(child)] = node
                self.nodes.append(child)
                self.check_form(child)
                self.check_node(child)
                waiting.append(child)
            self.check_children(node)

    def check_root(self, namespace: object, root: object) -> None:
        """A root holds nothing itself, and is there for its children."""
        if not isinstance(root, Root):
            raise IntegrityError(ROOT_DAMAGED, "root", f"namespace {namespace!r} has none")
        if id(root) in self.above:
            self.fail(NODE_REACHED_TWICE, root, "the root of two namespaces")
        self.above[id(root)] = None
        self.check_form(root)
        if root.namespace != namespace:
            self.fail(ROOT_DAMAGED, root, f"filed under namespace {namespace!r}")
        if root.parent is not None or root.key or len(root.pages) or root.end:
            self.fail(ROOT_DAMAGED, root, "has a parent, tokens, pages or a length")
        if root.ref_count or root.own_locks:
            self.fail(ROOT_DAMAGED, root, "is locked")
        if not root.children:
            self.fail(ROOT_DAMAGED, root, "nothing below it")

    def check_form(self, node: Node) -> None:
        """The types of a node's parts, on which all else relies."""
        key: Any = node.key
        pages: Any = node.pages
        if not isinstance(key, bytes):
            self.fail(MALFORMED_NODE, node, f"key is a {type(key).__name__}")
        if not isinstance(pages, np.ndarray) or pages.ndim != 1:
            self.fail(MALFORMED_NODE, node, "pages are not a 1-D array")
        if not isinstance(node.children, dict):
            self.fail(MALFORMED_NODE, node, f"children are a {type(node.children).__name__}")
        numbers = (node.end, node.ref_count, node.own_locks, node.recency, node.created)
        if not set(map(type, numbers)) <= _INTS:
            for name, number in zip(_NUMBERS, numbers, strict=True):
                if not isinstance(number, int):
                    self.fail(MALFORMED_NODE, node, f"{name} is no int")

    def check_node(self, node: Node) -> None:
        """What a node says of itself, and how it fits the one above."""
        above = self.above[id(node)]
        assert above is not None
        if node.parent is not above:
            self.fail(PARENT_LINK, node, "names another parent than the node that holds it")
        if not node.key:
            self.fail(EMPTY_NODE, node, "no tokens")
        if len(node.key) % self.core.page_bytes:
            self.fail(PART_PAGE, node, f"{len(node.key)} bytes are no whole pages of tokens")
        num_tokens = len(node.key) // TOKEN_BYTES
        if len(node.pages) * self.core.page_size != num_tokens:
            self.fail(LENGTHS_DIFFER, node, f"{num_tokens} tokens, {len(node.pages)} pages")
        if node.pages.dtype.kind not in "iu":
            self.fail(SLOT_MISALIGNED, node, f"{node.pages.dtype} pages: no whole numbers")
        if node.end != above.end + num_tokens:
            self.fail(END_WRONG, node, f"{node.end}, not {above.end} + {num_tokens}")
        if above.parent is not None:
            if node.recency > above.recency:
                self.fail(RECENCY_ORDER, node, f"{node.recency}, after {above.recency} above it")
            if node.created < above.created:
                self.fail(CREATION_ORDER, node, f"{node.created}, before {above.created} above it")
        if max(node.recency, node.created) > self.core.clock:
            self.fail(CLOCK_BEHIND, node, f"later than the clock, {self.core.clock}")

    def check_children(self, node: Node) -> None:
        """How the children are filed, and the lock count that they add up to."""
        page_bytes = self.core.page_bytes
        first_pages: set[bytes] = set()
        for child in node.children.values():
            first_page = child.key[:page_bytes]
            if child.key and first_page in first_pages:
                self.fail(SIBLINGS_ALIKE, child, "begins with the same page as a sibling")
            first_pages.add(first_page)
        for filed, child in node.children.items():
            if child.key and filed != child.key[:page_bytes]:
                self.fail(CHILD_MISFILED, child, "filed under what is not its first page")
        if node.parent is None:
            return
        locks = node.own_locks + sum(child.ref_count for child in node.children.values())
        if node.own_locks < 0 or node.ref_count != locks:
            counts = f"{node.ref_count}, not {locks}, of which {node.own_locks} its own"
            self.fail(LOCK_COUNT, node, counts)

    # Pages and sizes

    def check_slots(self) -> None:
        """Each page is a page of the pool, and lies in one node."""
        pages = np.concatenate([NO_PAGES, *(node.pages for node in self.nodes)])
        outside = pages < 0
        if self.core.num_slots is not None:
            outside |= pages >= self.core.num_slots // self.core.page_size
        self.fail_of_page(SLOT_OUT_OF_RANGE, pages, outside)
        distinct = set(pages.tolist())
        if len(distinct) < len(pages):
            again = np.ones(len(pages), dtype=np.bool_)
            again[np.unique(pages, return_index=True)[1]] = False
            self.fail_of_page(SLOT_HELD_TWICE, pages, again)
        if self.core.held is not None and self.core.held != distinct:
            raise IntegrityError(HELD_PAGES_WRONG, "root", "not the pages of the nodes")

    def fail_of_page(
        self, damage: str, pages: npt.NDArray[Any], bad: npt.NDArray[np.bool_]
    ) -> None:
        """Fail at the node that holds the first bad page, if there is one."""
        if not bad.any():
            return
        first = int(bad.argmax())
        ends = np.cumsum([len(node.pages) for node in self.nodes])
        node = self.nodes[int(np.searchsorted(ends, first, side="right"))]
        size = self.core.page_size
        self.fail(damage, node, f"page {pages[first]}, slots from {int(pages[first]) * size} on")

    def check_sizes(self) -> None:
        """The two sizes are sums over the nodes."""
        sizes = [0, 0]
        for node in self.nodes:
            sizes[node.ref_count > 0] += len(node.pages) * self.core.page_size
        have = [self.core.evictable_size, self.core.protected_size]
        if have != sizes:
            details = f"evictable and protected are {have}, the nodes add up to {sizes}"
            raise IntegrityError(SIZES_WRONG, "root", details)

    # The order of eviction

    def check_leaves(self) -> None:
        """Offered to an evict is each evictable leaf, nothing else, in order of time."""
        leaves: Any = self.core.leaves
        times = list(leaves)
        offered: set[int] = set()
        for time in times:
            # Not through the mapping's own lookup, which relies on its two halves agreeing.
            leaf = dict.get(leaves, time)
            if not isinstance(leaf, Node):
                raise IntegrityError(OFFERED_WRONGLY, "root", f"no node at time {time}")
            if id(leaf) not in self.above:
                raise IntegrityError(OFFERED_WRONGLY, "root", f"time {time}: not in the tree")
            if not leaf.is_evictable_leaf():
                self.fail(OFFERED_WRONGLY, leaf, "offered, and no evictable leaf")
            if self.core.order_time(leaf) != time:
                self.fail(EVICTION_ORDER, leaf, f"filed under time {time}")
            offered.add(id(leaf))
        for node in self.nodes:
            if node.is_evictable_leaf() and id(node) not in offered:
                self.fail(LEAF_NOT_OFFERED, node, "an evictable leaf that no evict would find")
        if times != sorted(times):
            raise IntegrityError(EVICTION_ORDER, "root", "the times are not in order")

    # Where

    def fail(self, damage: str, node: Node, details: str, *, above: Node | None = None) -> NoReturn:
        """Raise, naming the path to `node` as it was reached, or as it was from `above`."""
        labels: list[str] = []
        step = node
        if above is not None:
            labels.append(_label(node))
            step = above
        while (following := self.above.get(id(step))) is not None:
            labels.append(_label(step))
            step = following
        name = "root"
        if isinstance(step, Root) and step.namespace is not None:
            name = f"root {step.namespace!r}"
        labels.append(name)
        labels.reverse()
        if len(labels) > _SHOWN_NODES + 1:
            half = _SHOWN_NODES // 2
            hidden = f"({len(labels) - 1 - 2 * half} nodes)"
            labels = [*labels[: half + 1], hidden, *labels[-half:]]
        raise IntegrityError(damage, "/".join(labels), details)


def _label(node: Node) -> str:
    """The token ids of one node, in brackets; long runs abbreviated."""
    key: Any = node.key
    if not isinstance(key, bytes):
        return "[?]"
    count = len(key) // TOKEN_BYTES
    shown = np.frombuffer(key, np.int64, min(count, _SHOWN_TOKENS)).tolist()
    words = [str(token) for token in shown]
    if count > _SHOWN_TOKENS:
        words.append(f"... {count} tokens")
    return f"[{' '.join(words)}]"
