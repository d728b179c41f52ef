"""The oracle: a radix prefix-cache manager so plain that a reader sees that it is right.

There is no radix tree inside. There is a table of cached pages, each under its parent page, and
on each page a mark that says whether a node ends there (a *cut*). A node is nothing but a run
of pages down to a cut:

    match   walks pages, makes a cut where the walk ends, and refreshes each page that it walked
    insert  does the same, and then adds the pages that were missing
    lock    adds one to each page from the root to the end of the prefix
    evict   takes the least recent unlocked page without children, and the pages above it up to
            the next cut, found by looking at all pages without children

Sums and the set of pages without children are kept, because the oracle has to carry production
traces; `recompute` derives all of them from the table alone and compares.
"""

from __future__ import annotations

from collections.abc import KeysView, Sequence, ValuesView
from typing import Literal, NamedTuple

from kvref.configuration import Configuration
from kvref.refusals import RefusalKind, refuse

__all__ = ["EMPTY", "Granularity", "Handle", "NodeView", "Oracle", "Page", "slots_of"]

Granularity = Literal["node", "page", "any"]
"""What an eviction takes at a time. The contract says nodes; other managers differ."""


class Page:
    """`page_size` tokens cached after one particular prefix, in one incarnation."""

    __slots__ = (
        "cached", "children", "created", "depth", "locks", "namespace",
        "node_ends", "own_locks", "parent", "recency", "slots", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        parent: Page | None,
        namespace: str | None,
        tokens: tuple[int, ...],
        slots: tuple[int, ...],
        now: int,
    ) -> None:
        self.parent = parent  # None for the root of a namespace, which holds nothing
        self.namespace = namespace
        self.tokens = tokens
        self.slots = slots
        self.depth: int = 0 if parent is None else parent.depth + 1  # pages from the root
        self.children = 0  # pages right below this one
        self.own_locks = 0  # outstanding locks of the prefix that ends here
        self.locks = 0  # outstanding locks of all prefixes that pass through here
        self.recency = now
        self.created = now
        self.node_ends = False
        self.cached = True


class Handle(NamedTuple):
    """Names a prefix by its last page: two of one incarnation are equal."""

    owner: Oracle | None
    page: Page | None
    cached_len: int


EMPTY = Handle(None, None, 0)
"""The empty prefix, which every manager holds for ever."""


class NodeView(NamedTuple):
    """One node as anybody can compare it."""

    namespace: str | None
    prefix: tuple[int, ...]  # all tokens from the root to the end of the node
    slots: tuple[int, ...]  # the node's own
    lock_count: int

    def words(self) -> str:
        """The node as a report shows it."""
        where = "" if self.namespace is None else f" of namespace {self.namespace!r}"
        return (
            f"a node that ends {list(self.prefix)}{where}, with slots {list(self.slots)} "
            f"and {self.lock_count} locks"
        )


class Oracle:
    """The contract's manager on plain ints and sequences."""

    def __init__(self, configuration: Configuration, *, granularity: Granularity = "node") -> None:
        self.page_size = configuration.page_size
        self.num_slots = configuration.num_slots
        self.policy = configuration.policy
        self.checked = configuration.checked
        self.granularity = granularity
        self._now = 0
        self._roots: dict[str | None, Page] = {}
        self._table: dict[tuple[Page, tuple[int, ...]], Page] = {}
        # Kept for speed, and recomputed by `recompute`.
        self._leaves: dict[Page, None] = {}
        self._holder: dict[int, Page] = {}  # first slot of a page -> the page
        self.evictable_size = 0
        self.protected_size = 0

    # ------------------------------------------------------------------ the operations

    def match_prefix(
        self, tokens: Sequence[int], namespace: str | None = None
    ) -> tuple[Handle, list[int]]:
        """The longest cached prefix of whole pages, and its slots."""
        return self.match(self.walk(tokens, namespace))

    def match(self, path: Sequence[Page]) -> tuple[Handle, list[int]]:
        """Match the pages that `walk` found just now."""
        self._refresh(path)
        if not path:
            return EMPTY, []
        return Handle(self, path[-1], len(path) * self.page_size), slots_of(path)

    def insert_prefix(
        self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None = None
    ) -> int:
        """Cache the whole pages of the prefix; returns how many tokens were cached before."""
        return self.insert(tokens, slots, namespace)[0]

    def insert(
        self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None = None
    ) -> tuple[int, list[Page]]:
        """As `insert_prefix`; returns with it the pages of the prefix, all cached by now."""
        if len(tokens) != len(slots):
            refuse(RefusalKind.VALUE)
        tokens = tuple(tokens)
        path = self.walk(tokens, namespace)
        already = len(path) * self.page_size
        aligned = len(tokens) // self.page_size * self.page_size
        if self.checked:
            self._check_slots(path, slots, already, aligned)
        self._refresh(path)
        if already < aligned:
            page = path[-1] if path else self._root(namespace)
            slots = tuple(slots)
            for start in range(already, aligned, self.page_size):
                end = start + self.page_size
                page = self._add(page, tokens[start:end], slots[start:end])
                path.append(page)
            page.node_ends = True
        return already, path

    def lock_handle(self, handle: object, unlock: bool = False) -> None:
        """Lock the whole path of the handle, or give one lock back."""
        if not isinstance(handle, Handle):
            refuse(RefusalKind.TYPE)
        page = handle.page
        if page is None:
            return
        if handle.owner is not self:
            refuse(RefusalKind.FOREIGN, cached_len=handle.cached_len)
        if not page.cached:
            refuse(RefusalKind.STALE, cached_len=handle.cached_len)
        if unlock and page.own_locks == 0:
            refuse(RefusalKind.UNBALANCED, cached_len=handle.cached_len)
        step = -1 if unlock else 1
        page.own_locks += step
        while page.parent is not None:
            was = page.locks
            page.locks += step
            if was == 0 or page.locks == 0:  # protected from now on, or no longer
                self.protected_size += step * self.page_size
                self.evictable_size -= step * self.page_size
            page = page.parent

    def evict(self, size: object) -> list[int]:
        """Give up least-wanted unlocked leaf nodes until at least `size` slots are free."""
        wanted = self.check_evict(size)
        freed: list[int] = []
        while len(freed) < wanted:
            unlocked = (page for page in self._leaves if page.locks == 0)
            least = min(unlocked, key=self._time)
            freed += self._remove_node(least)
        return freed

    def reset(self) -> list[int]:
        """Give up everything, as an evict of all would."""
        if self.protected_size:
            refuse(RefusalKind.IN_USE, protected_size=self.protected_size)
        return self.evict(self.evictable_size)

    # ------------------------------------------- for a target whose eviction is its own

    def check_evict(self, size: object) -> int:
        """Refuse what `evict` refuses; returns the size."""
        if isinstance(size, bool) or not isinstance(size, int):
            refuse(RefusalKind.TYPE)
        if size < 0:
            refuse(RefusalKind.VALUE)
        if size > self.evictable_size:
            refuse(RefusalKind.NOT_EVICTABLE, needed=size, evictable=self.evictable_size)
        return size

    def page_at(self, slot: int) -> Page | None:
        """The cached page that this slot belongs to."""
        return self._holder.get(slot // self.page_size * self.page_size)

    def next_page(self, page: Page) -> Page:
        """The page below `page` in the same node."""
        assert not page.node_ends
        return next(child for child in self._holder.values() if child.parent is page)

    def remove(self, page: Page) -> None:
        """Take one unlocked page without children out of the table."""
        parent = page.parent
        assert parent is not None
        assert page.locks == 0
        assert page.children == 0
        page.cached = False
        del self._table[parent, page.tokens]
        del self._holder[page.slots[0]]
        del self._leaves[page]
        parent.children -= 1
        self.evictable_size -= self.page_size
        if parent.parent is None:
            if parent.children == 0:
                del self._roots[parent.namespace]
        elif parent.children == 0:
            self._leaves[parent] = None
            parent.node_ends = True  # it does already, unless single pages are evicted

    # ---------------------------------------------------------------- looking, not touching

    def cached_slots(self, tokens: Sequence[int], namespace: str | None = None) -> list[int]:
        """The slots that a match would return; changes nothing."""
        return slots_of(self.walk(tokens, namespace))

    def walk(self, tokens: Sequence[int], namespace: str | None = None) -> list[Page]:
        """The pages that a match would find, from the root on; changes nothing."""
        path: list[Page] = []
        page = self._roots.get(namespace)
        size, tokens = self.page_size, tuple(tokens)
        for start in range(0, len(tokens) - size + 1, size):
            if page is None:
                break
            page = self._table.get((page, tokens[start : start + size]))
            if page is not None:
                path.append(page)
        return path

    @property
    def held(self) -> KeysView[int]:
        """The first slot of each page that the cache owns."""
        return self._holder.keys()

    @property
    def leaves(self) -> KeysView[Page]:
        """The last page of each node without children."""
        return self._leaves.keys()

    @property
    def roots(self) -> ValuesView[Page]:
        """The root of each namespace that holds something."""
        return self._roots.values()

    def pages(self) -> ValuesView[Page]:
        """Every cached page, a parent before its children: to look at, and not to change."""
        return self._table.values()

    def nodes(self) -> list[NodeView]:
        """Every node, in any order; changes nothing."""
        views = []
        prefixes: dict[Page, tuple[int, ...]] = {}
        slots: dict[Page, tuple[int, ...]] = {}  # of the node, down to the page
        for page in self._table.values():  # a parent stands before its children
            above = page.parent
            assert above is not None
            prefixes[page] = prefixes.get(above, ()) + page.tokens
            same_node = above in slots and not above.node_ends
            slots[page] = (slots[above] if same_node else ()) + page.slots
            if page.node_ends:
                views.append(NodeView(page.namespace, prefixes[page], slots[page], page.locks))
        return views

    def recompute(self) -> None:
        """Derive all that is kept from the table alone; AssertionError if it differs."""
        pages = list(self._table.values())
        children = dict.fromkeys([*pages, *self._roots.values()], 0)
        locks = {page: page.own_locks for page in pages}
        for page in sorted(pages, key=lambda page: -page.depth):
            assert page.parent is not None, "a page without a parent"
            children[page.parent] += 1
            if page.parent in locks:
                locks[page.parent] += locks[page]
        for page in pages:
            assert page.cached, "an evicted page in the table"
            assert page.children == children[page], "children"
            assert page.locks == locks[page], "locks"
            assert page.node_ends or page.children == 1, "a run that ends without a cut"
        assert set(self._leaves) == {page for page in pages if not children[page]}, "leaves"
        assert self._holder == {page.slots[0]: page for page in pages}, "slots"
        protected = self.page_size * sum(1 for page in pages if locks[page])
        assert self.protected_size == protected, "protected size"
        assert self.evictable_size == self.page_size * len(pages) - protected, "evictable size"
        assert all(children[root] for root in self._roots.values()), "an empty namespace"

    # --------------------------------------------------------------------------- the table

    def _refresh(self, path: Sequence[Page]) -> None:
        self._now += 1
        for page in path:
            page.recency = self._now
        if path:
            path[-1].node_ends = True

    def _root(self, namespace: str | None) -> Page:
        if namespace not in self._roots:
            self._roots[namespace] = Page(None, namespace, (), (), self._now)
        return self._roots[namespace]

    def _add(self, parent: Page, tokens: tuple[int, ...], slots: tuple[int, ...]) -> Page:
        page = Page(parent, parent.namespace, tokens, slots, self._now)
        self._table[parent, tokens] = page
        self._holder[slots[0]] = page
        self._leaves[page] = None
        self._leaves.pop(parent, None)
        parent.children += 1
        self.evictable_size += self.page_size
        return page

    def _remove_node(self, last: Page) -> list[int]:
        run = [last] if self.granularity == "page" else self._node_of(last)
        for page in reversed(run):
            self.remove(page)
        return slots_of(run)

    def _node_of(self, last: Page) -> list[Page]:
        """The pages of the node that ends at `last`, in token order."""
        run = [last]
        above = last.parent
        while above is not None and above.parent is not None and not above.node_ends:
            run.append(above)
            above = above.parent
        return run[::-1]

    def _time(self, page: Page) -> int:
        # No two leaves tie: all pages of one time lie on one path from the root.
        return page.recency if self.policy == "lru" else page.created

    def _check_slots(
        self, path: Sequence[Page], slots: Sequence[int], already: int, aligned: int
    ) -> None:
        """Refuse slots that the cache cannot take over, or could not tell from its own."""
        size = self.page_size
        taken: set[int] = set()
        for start in range(already, aligned, size):
            first = slots[start]
            whole = list(slots[start : start + size]) == list(range(first, first + size))
            inside = first >= 0 and first + size <= self.num_slots
            if not whole or first % size or not inside or first in self._holder or first in taken:
                refuse(RefusalKind.VALUE)
            taken.add(first)
        own = slots_of(path)
        for slot, own_slot in zip(slots[:already], own, strict=True):
            if slot != own_slot:
                first = slot // size * size
                if first in self._holder or first in taken:
                    refuse(RefusalKind.VALUE)


def slots_of(pages: Sequence[Page]) -> list[int]:
    """The slots of some pages, in order."""
    slots: list[int] = []
    for page in pages:
        slots += page.slots
    return slots
