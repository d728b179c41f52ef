"""What the radix core is made of: nodes, and the plans that an operation makes before it acts.

Tokens are kept as the bytes of int64 values, so that comparing a run of them is one memcmp;
slots as page numbers, so that nothing about them can be misaligned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "FEW",
    "NO_PAGES",
    "TOKEN_BYTES",
    "Cut",
    "EvictPlan",
    "InsertPlan",
    "IntArray",
    "MatchPlan",
    "Node",
    "Root",
    "Walk",
]

IntArray = npt.NDArray[np.int32]

FEW = 32
"""Up to so many numbers a list and a set are faster than any call into numpy."""

TOKEN_BYTES = 8
"""Of one token in a key: an int64 in the machine's byte order."""

NO_PAGES: IntArray = np.empty(0, dtype=np.int32)
NO_PAGES.setflags(write=False)


class Node:
    """A run of pages below one parent. A node without a parent is a root, or was given up.

    Attributes:
        parent: the node above, a root at last; None for a root and for what was given up.
        children: by the bytes of the child's first page.
        key: the tokens of this run, `TOKEN_BYTES` each.
        pages: `[len(key) / TOKEN_BYTES / page_size]`, int32: the page numbers of the run.
        end: length of the whole prefix in tokens, from the root to the end of this run. It
            never changes: a split leaves the object to the lower half, so a handle can name
            a prefix by naming the node that ends it.
        ref_count: outstanding locks that cover the node; always 0 for a root.
        own_locks: those of them that were taken at exactly this node's end.
        recency, created: logical times of the last match or insert, and of the insert.
    """

    __slots__ = (
        "children",
        "created",
        "end",
        "key",
        "own_locks",
        "pages",
        "parent",
        "recency",
        "ref_count",
    )

    def __init__(self, parent: Node | None, key: bytes, pages: IntArray, end: int) -> None:
        self.parent = parent
        self.children: dict[bytes, Node] = {}
        self.key = key
        self.pages = pages
        self.end = end
        self.ref_count = 0
        self.own_locks = 0
        self.recency = 0
        self.created = 0

    def is_evictable_leaf(self) -> bool:
        """Whether an evict may take this node now."""
        return not self.children and self.ref_count == 0 and self.parent is not None

    def retire(self) -> None:
        """Mark as given up, and hold no memory: a stale handle may keep the object for long."""
        self.parent = None
        self.children.clear()
        self.key = b""
        self.pages = NO_PAGES


class Root(Node):
    """The empty prefix of one namespace. It is there while something is cached below it."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: str | None) -> None:
        super().__init__(None, b"", NO_PAGES, 0)
        self.namespace = namespace


@dataclass(slots=True)
class Walk:
    """How far an input follows the tree.

    Attributes:
        path: the nodes matched as a whole, root side first, the root itself left out.
        partial: the node below them in which the input ends or branches off, if any.
        shared: how many pages of `partial` match: at least one, and not all of them.
    """

    path: list[Node]
    partial: Node | None
    shared: int


@dataclass(slots=True)
class Cut:
    """A split that was prepared: all that it allocates is there, the tree is as it was.

    Attributes:
        node: what is cut. It becomes the lower half.
        upper: the new node above it, not yet in the tree.
        lower_key, lower_pages: what is left to `node`; copies, as are those of `upper`.
    """

    node: Node
    upper: Node
    lower_key: bytes
    lower_pages: IntArray


@dataclass(slots=True)
class MatchPlan:
    """A match that was worked out and not yet done.

    Attributes:
        path: what the match will touch, root side first; empty where nothing is cached.
        cut: the split at the end of the match, if it ends inside a node.
        slots: `[cached_len]`, int32, a new array: the slots of the prefix.
    """

    path: list[Node]
    cut: Cut | None
    slots: IntArray

    @property
    def node(self) -> Node | None:
        """The node that will end the prefix: what a handle names. None: nothing is cached."""
        return self.path[-1] if self.path else None


@dataclass(slots=True)
class InsertPlan:
    """An insert that was worked out and not yet done.

    Attributes:
        path, cut: as for a match.
        parent: below which `leaf` goes: the end of the path, or a root, which may be new.
        leaf: the new node; None where everything is cached already.
        already_len: tokens of the prefix that are cached already.
    """

    path: list[Node]
    cut: Cut | None
    parent: Node | None
    leaf: Node | None
    already_len: int

    @property
    def node(self) -> Node | None:
        """The node that will end the prefix, as a match of it would. None: the prefix is empty."""
        return self.leaf or (self.path[-1] if self.path else None)


@dataclass(slots=True)
class EvictPlan:
    """An evict or a reset that was worked out and not yet done.

    Attributes:
        victims: in the order in which they go: a child always before its parent.
        slots: `[n]`, int32, a new array: their slots in that order.
    """

    victims: list[Node]
    slots: IntArray
