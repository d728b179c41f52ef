"""What a watcher remembers of the pages of an oracle, so that it need not look at all of them."""

from __future__ import annotations

from collections.abc import Iterable

from kvref.operations import Carried
from kvref.oracle import Handle, Page

__all__ = ["Memory"]

_FORGET_AT = 4096


class Memory:
    """Pages as they came and went in one run.

    Attributes:
        holder: the last page that was cached in a slot (the first one of its page); it may be
            gone by now.
        ends: the pages that end a node, as far as the watcher saw them end one: a walk that
            ends at another page has split a node.
        below: the page that follows inside a node, or once did.
        uppers: the last pages of upper halves of splits.
        split_at: for the end of a node, the operation that last split it.
        split_locked: the ends of nodes that were split while they were locked.
        was_locked: pages whose lock was given back, and covered by no other then.
        form: how the tokens of a leaf travelled when it was inserted.
        reset: the pages that a reset gave up.
        reused: slots whose page was used again under another prefix.
        handles: by the index of the match.
        spaces: the namespaces that something was inserted in.
        firsts: the first page of what was inserted, by namespace and its tokens.
        last_evict: the index of the last evict that took something, or -1.
        fresh_reset: a reset gave something up, and nothing was inserted since.
        evictable, protected: sizes after the last operation, in slots.
    """

    def __init__(self, page_size: int, num_slots: int, policy: str) -> None:
        self.page_size = page_size
        self.num_slots = num_slots
        self.lru = policy == "lru"
        self.holder: dict[int, Page] = {}
        self.ends: set[Page] = set()
        self.below: dict[Page, Page] = {}
        self.uppers: set[Page] = set()
        self.split_at: dict[Page, int] = {}
        self.split_locked: set[Page] = set()
        self.was_locked: set[Page] = set()
        self.form: dict[Page, Carried] = {}
        self.reset: set[Page] = set()
        self.reused: set[int] = set()
        self.handles: dict[int, Handle] = {}
        self.spaces: set[str | None] = set()
        self.firsts: dict[tuple[str | None, tuple[int, ...]], Page] = {}
        self.last_evict = -1
        self.fresh_reset = False
        self.evictable = 0
        self.protected = 0
        self._forget_at = _FORGET_AT

    def forget_the_gone(self) -> None:
        """Of a long run: keep no page that is not cached, once there are many."""
        if len(self.ends) + len(self.below) < self._forget_at:
            return
        for pages in (self.ends, self.uppers, self.split_locked, self.was_locked):
            pages.difference_update([page for page in pages if not page.cached])
        for table in (self.below, self.split_at, self.form):
            for page in [page for page in table if not page.cached]:
                del table[page]
        self.firsts = {key: page for key, page in self.firsts.items() if page.cached}
        self._forget_at = max(_FORGET_AT, 2 * (len(self.ends) + len(self.below)))

    def gone(self, firsts: Iterable[int]) -> list[Page]:
        """The pages that were just given up, by the first slot of each, in their order."""
        found = [self.holder.get(first) for first in firsts]
        return [page for page in found if page is not None and not page.cached]
