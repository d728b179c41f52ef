"""What the page reads: one JSON value, in which each step says only what it changes.

The scripts of the page (`page.js`, `draw.js`) know these names. Tokens are strings, for numbers of
64 bits do not survive JavaScript.
"""

from __future__ import annotations

import msgspec

__all__ = ["Content", "Mark", "Node", "OnePage", "PoolCell", "ShownStep"]


class Content(msgspec.Struct, frozen=True, omit_defaults=True):
    """What nodes hold, once for all nodes that hold the same.

    Fields:
        count: tokens in the node.
        tokens: all of them, or the first of many; `tail` then the last.
        slots: runs of slots, first and last, in token order; of very many the first.
    """

    namespace: str | None
    count: int
    tokens: tuple[str, ...]
    tail: tuple[str, ...] = ()
    slots: tuple[tuple[int, int], ...] = ()


class Node(msgspec.Struct, array_like=True):
    """A node after a step. `parent` is -1 below the root; `content` counts in the page's list."""

    id: int
    parent: int
    content: int
    locks: int
    own_locks: int
    recency: int
    created: int
    evictable: bool


class PoolCell(msgspec.Struct, frozen=True, array_like=True):
    """A page of the pool that changed hands. `owner` counts in the page's list of owners."""

    number: int
    owner: int
    locks: int


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """One change: which node, and how `where` names it; `before` and `after` as in a `Change`."""

    what: str
    node: int
    where: str
    before: int | None
    after: int | None


class ShownStep(msgspec.Struct, omit_defaults=True):
    """One operation.

    Fields:
        put: nodes that are new or not as before; `gone` the ids of those that are no more.
        ghosts: the nodes that were evicted, where they stood.
        pages: the pages of the pool that changed hands.
        otherwise: how it went otherwise than the trace recorded; the first such step alone.
    """

    index: int
    call: str
    status: str
    expected: str | None
    got: str | None
    evictable: int
    protected: int
    put: list[Node] = []
    gone: list[int] = []
    ghosts: list[Node] = []
    pages: list[PoolCell] = []
    changed: list[Mark] = []
    differs: bool = False
    otherwise: str | None = None


class OnePage(msgspec.Struct, kw_only=True):
    """The whole page, the header and the verdict apart, which are in its HTML.

    Fields:
        order: "lru" or "fifo"; "own" where what is evicted is the target's choice.
        listed: whether the free pages of the pool are listed too.
        operations: how many the trace has; `dropped` how many of those that ran are before the
            first step on the page.
        depth: tokens of the longest prefix.
        start, start_pages: the cache before the first step on the page.
        expected_slots, got_slots: of the difference, where it is one of slots; `moved` are those
            that are in both and not in the same order.
    """

    page_size: int
    num_pages: int
    order: str
    listed: bool
    operations: int
    dropped: int
    depth: int
    contents: list[Content]
    owners: list[str]
    start: list[Node]
    start_pages: list[PoolCell]
    steps: list[ShownStep]
    expected_slots: tuple[int, ...] | None = None
    got_slots: tuple[int, ...] | None = None
    moved: tuple[int, ...] = ()
