"""Where pages and locks go in the life of a request: the only right order, in small steps.

Whoever calls a method here holds the mutex. Each public step first works out everything that
may fail (walks, arrays, what to evict, the allocator's part), and then acts, which cannot: so a
call that raises has changed nothing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from kvgpu.allocator import PageAllocator
from kvgpu.errors import NoRoom, TooManyRequests
from kvgpu.host_core import HostCore
from kvgpu.page_table import PageTable
from kvgpu.radix_node import NO_PAGES, EvictPlan, InsertPlan, IntArray, MatchPlan, Node
from kvgpu.request import Request, RequestState

__all__ = ["PublishPlan", "RequestSteps"]


@dataclass(slots=True)
class PublishPlan:
    """What the cache will take over of one request, worked out and not yet done.

    Attributes:
        insert: the core's part of it.
        node: what will end the published prefix; None if the cache keeps nothing.
        cached_len: its length in tokens; 0 then.
        already_len: how much of the prefix the cache had before.
        aligned_len: length of what is published: whole pages.
        theirs: `[n]`, int32: the cache's pages from the request's present `cached_len` to
            `already_len`.
    """

    insert: InsertPlan
    node: Node | None
    cached_len: int
    already_len: int
    aligned_len: int
    theirs: IntArray


class RequestSteps:
    """The steps, on the parts that they work with.

    Attributes:
        core, mutex: of the cache manager.
        allocator: of the pages of the pool.
        page_table: the rows of the running requests.
        page_size: in slots.
        max_len: tokens that a request may have slots for.
        running: the running requests by their rows, in the order in which they began.
    """

    def __init__(
        self,
        core: HostCore,
        mutex: AbstractContextManager[bool],
        allocator: PageAllocator,
        page_table: PageTable,
        max_len: int,
    ) -> None:
        self.core = core
        self.mutex = mutex
        self.allocator = allocator
        self.page_table = page_table
        self.page_size = core.page_size
        self.max_len = max_len
        self.running: dict[int, Request] = {}

    def pages_for(self, num_tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-num_tokens // self.page_size)

    # Admission, growth

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        """Match, lock, make room and take pages for a new request.

        Args:
            request: not admitted yet.
            data: the whole pages of all its tokens but the last, of which one must be left to
                compute.
            max_tokens: how many of the tokens left to compute get slots now; None: all.

        Raises:
            TooManyRequests, NoRoom: and nothing has changed.
        """
        self.require_row()
        match = self.core.plan_match(request.namespace, data)
        matched = self.pages_of(match.slots)
        cached_len = len(match.slots)
        end = request.known_len
        if max_tokens is not None:
            end = min(end, cached_len + max_tokens)
        evicted, fresh = self.take_pages(self.pages_for(end) - len(matched), match)
        # From here on nothing can fail.
        #   [0:cached_len)    the cache's, locked
        #   [cached_len:end)  the request's
        request.node = self.lock_match(match)
        self.evict(evicted)
        request.row = self.page_table.take_row()
        self.page_table.write(request.row, 0, matched)
        self.page_table.write(request.row, len(matched), fresh)
        request.cached_len = request.stored_len = cached_len
        request.extended_len = end
        self.running[request.row] = request

    def grow(self, request: Request, needed: int) -> None:
        """Take `needed` more pages for a request, before its `extended_len` moves.

        Raises:
            NoRoom: and nothing has changed.
        """
        evicted, fresh = self.take_pages(needed)
        self.evict(evicted)
        self.page_table.write(request.row, self.pages_for(request.extended_len), fresh)

    def require_row(self) -> None:
        """Refuse where every row is taken."""
        if not self.page_table.num_free_rows:
            raise TooManyRequests(len(self.running))

    def take_pages(
        self, needed: int, keeping: MatchPlan | None = None
    ) -> tuple[EvictPlan | None, IntArray]:
        """Take pages from the allocator; with what is to be evicted for them put into it.

        Returns:
            The evict that remains to be done, after `keeping` was applied and locked; and the
            pages, `[needed]`, int32.

        Raises:
            NoRoom: and nothing has changed.
        """
        self.require_room(needed, keeping)
        plan = self.plan_shortfall(needed, keeping)
        if plan is None:
            return None, self.allocator.allocate(needed)
        return plan, self.allocator.exchange(self.pages_of(plan.slots), needed)

    def require_room(self, needed: int, keeping: MatchPlan | None) -> None:
        """Refuse what is more than free and evictable pages, a prefix to be kept left out."""
        free = self.allocator.num_free_pages
        if needed <= free:
            return
        evictable = self.core.evictable_size
        if keeping is not None:
            evictable -= self.core.unlocked_size(keeping)
        evictable //= self.page_size
        if needed > free + evictable:
            raise NoRoom(needed, free, evictable)

    def plan_shortfall(self, needed: int, keeping: MatchPlan | None) -> EvictPlan | None:
        """Choose what goes for the pages that are not free, and no more; None: they all are."""
        missing = needed - self.allocator.num_free_pages
        if missing <= 0:
            return None
        return self.core.plan_evict(missing * self.page_size, keeping)

    def lock_match(self, match: MatchPlan) -> Node | None:
        """Apply a match and lock what it found. Cannot fail."""
        self.core.apply_match(match)
        node = match.node
        if node is not None:
            self.core.lock_path(node)
        return node

    def evict(self, plan: EvictPlan | None) -> None:
        """Take the victims out of the cache; the allocator has their pages. Cannot fail."""
        if plan is not None:
            self.core.apply_evict(plan)

    # Publishing

    def commit(self, request: Request) -> None:
        """Hand the whole pages of what is stored over to the cache, and go on with its pages."""
        plan = self.plan_publish(request)
        if plan is None:
            return
        # By tokens, before and after, `known` and `stored` being where the lesser of them is:
        #   [0:cached_len)            the cache's, locked, and stays it
        #   [cached_len:already_len)  duplicates: freed, the cache's taken instead
        #   [already_len:aligned_len) handed over: the cache's from now on
        #   [aligned_len:extended)    the part page and what is not stored or known: its own
        self.give_back(self.duplicates(request, plan))
        # From here on nothing can fail.
        self.publish(plan)
        self.take_over(request, plan)
        self.move_lock(request, plan)
        request.cached_len = plan.cached_len

    def finish(self, request: Request) -> None:
        """Hand the whole pages of what is stored over to the cache, and give the rest back."""
        plan = self.plan_publish(request)
        if plan is None:
            self.drop(request, RequestState.FINISHED)
            return
        #   [0:cached_len)            the cache's, unlocked
        #   [cached_len:already_len)  duplicates: freed
        #   [already_len:aligned_len) handed over: the cache's from now on
        #   [aligned_len:extended)    the part page and what is not stored or known: freed
        duplicates = self.own_pages(request, request.cached_len, plan.already_len)
        tail = self.own_pages(request, plan.aligned_len, request.extended_len)
        self.give_back(np.concatenate((duplicates, tail)))
        # From here on nothing can fail.
        self.publish(plan)
        self.leave(request, RequestState.FINISHED)

    def plan_publish(self, request: Request) -> PublishPlan | None:
        """Work out what the cache takes over: whole pages of what is both stored and known.

        None where that is less than a page.
        """
        end = min(request.stored_len, request.known_len) // self.page_size * self.page_size
        if end == 0:
            return None
        data = request.tokens[:end].tobytes()
        slots = self.page_table.slots(request.row, 0, end)
        insert = self.core.plan_insert(request.namespace, data, slots)
        # A match after the insert would end at this very node: it need not be made.
        node = insert.node
        cached_len = node.end if node is not None else 0
        theirs = self.core.pages_from(insert.path, request.cached_len)
        return PublishPlan(insert, node, cached_len, insert.already_len, end, theirs)

    def duplicates(self, request: Request, plan: PublishPlan) -> IntArray:
        """Its own pages for which it gets the cache's."""
        stop = min(plan.already_len, plan.cached_len)
        return self.own_pages(request, request.cached_len, stop)

    def publish(self, plan: PublishPlan) -> None:
        """Put the pages into the cache. Cannot fail."""
        self.core.apply_insert(plan.insert)

    def take_over(self, request: Request, plan: PublishPlan) -> None:
        """Write the cache's pages over the request's duplicates of them. Cannot fail."""
        self.page_table.write(request.row, request.cached_len // self.page_size, plan.theirs)

    def move_lock(self, request: Request, plan: PublishPlan) -> None:
        """Lock the longer prefix, and only then unlock the shorter. Cannot fail."""
        former, request.node = request.node, plan.node
        if plan.node is not None:
            self.core.lock_path(plan.node)
        if former is not None:
            self.core.unlock_path(former)

    # The end

    def drop(self, request: Request, state: RequestState) -> None:
        """End a request without publishing anything."""
        #   [0:cached_len)            the cache's, unlocked
        #   [cached_len:extended_len) its own: freed
        self.give_back(self.own_pages(request, request.cached_len, request.extended_len))
        # From here on nothing can fail.
        self.leave(request, state)

    def leave(self, request: Request, state: RequestState) -> None:
        """Give lock and row back. Cannot fail."""
        self.unlock(request)
        self.page_table.give_back_row(request.row)
        del self.running[request.row]
        request.forget(state)

    def unlock(self, request: Request) -> None:
        """Give the one lock of a request back. Cannot fail."""
        if request.node is not None:
            self.core.unlock_path(request.node)

    def flush(self) -> None:
        """Give all cached pages back.

        Raises:
            CacheInUse: a request has some of it locked; and nothing has changed.
        """
        plan = self.core.plan_reset()
        self.give_back(self.pages_of(plan.slots))
        # From here on nothing can fail.
        self.core.apply_reset(plan)

    # Pages

    def own_pages(self, request: Request, start: int, stop: int) -> IntArray:
        """The pages of a request's tokens from `start` (a whole page) to `stop`, a new array."""
        first, last = start // self.page_size, self.pages_for(stop)
        return self.page_table.host[request.row, first:last].copy() if first < last else NO_PAGES

    def give_back(self, pages: IntArray) -> None:
        """Free pages, all or nothing; to be done last of what can fail."""
        if len(pages):
            self.allocator.free(pages)

    def pages_of(self, slots: IntArray) -> IntArray:
        """The pages of slots that are whole pages."""
        return slots if self.page_size == 1 else slots[:: self.page_size] // self.page_size
