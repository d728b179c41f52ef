"""Planted faults of whole requests: whose a page or a lock is at a commit, and at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvgpu import PageAllocator
from kvgpu.errors import NoRoom
from kvgpu.radix_node import NO_PAGES
from kvgpu.request import Request, RequestState
from kvgpu.request_steps import PublishPlan, RequestSteps
from tests.faults.fault import request_fault


@request_fault("MSG-142")
class CommitKeepsItsRow(RequestSteps):
    """A commit frees its own copies of what is cached, and the row still points at them."""

    def take_over(self, request: Request, plan: PublishPlan) -> None:
        pass


@request_fault("MSG-142")
class CommitHidesItFromTheDevice(RequestSteps):
    """A commit writes the cache's pages into the row on the host; no upload brings them."""

    def take_over(self, request: Request, plan: PublishPlan) -> None:
        start = request.cached_len // self.page_size
        self.page_table.host[request.row, start : start + len(plan.theirs)] = plan.theirs


@request_fault("KVC-401")
class CommitLeaksDuplicates(RequestSteps):
    """A commit takes the cache's pages, and its own copies stay nobody's."""

    def duplicates(self, request: Request, plan: PublishPlan) -> Any:
        return NO_PAGES


@request_fault("KVC-401")
class FinishLeaksDuplicates(RequestSteps):
    """A finish takes all that it published for the cache's, copies too."""

    def finish(self, request: Request) -> None:
        plan = self.plan_publish(request)
        if plan is not None:
            self.publish(plan)
            request.cached_len = plan.aligned_len
        self.drop(request, RequestState.FINISHED)


@request_fault("KVC-401")
class FinishFreesWhatTheCacheTook(RequestSteps):
    """A finish gives back all of its own pages, those among them that it has just published."""

    def finish(self, request: Request) -> None:
        plan = self.plan_publish(request)
        if plan is not None:
            self.publish(plan)
        self.drop(request, RequestState.FINISHED)


@request_fault("SGL-38319")
class CommitFreesWhatItHandedOver(RequestSteps):
    """A commit frees its own pages up to where the cache now reaches, not to where it reached."""

    def duplicates(self, request: Request, plan: PublishPlan) -> Any:
        return self.own_pages(request, request.cached_len, plan.cached_len)


@request_fault("SGL-38319")
class AbortFreesTheCommitted(RequestSteps):
    """An abort frees all that was not matched at the beginning, also what was committed since."""

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        super().admit(request, data, max_tokens)
        self.matched = {**getattr(self, "matched", {}), request: request.cached_len}

    def drop(self, request: Request, state: RequestState) -> None:
        if state is RequestState.ABORTED:
            request.cached_len = self.matched[request]
        super().drop(request, state)


@request_fault("SGLJAX-984")
class AbortBetweenChunksIsAFlag(RequestSteps):
    """An abort between two chunks of a prompt ends the request, and releases nothing."""

    def drop(self, request: Request, state: RequestState) -> None:
        if state is RequestState.ABORTED and request.extended_len < request.known_len:
            request.state = state
        else:
            super().drop(request, state)


@request_fault("SGLJAX-984")
class PreemptKeepsTheRow(RequestSteps):
    """A preemption gives pages and lock back, and not the row."""

    def leave(self, request: Request, state: RequestState) -> None:
        row = request.row
        super().leave(request, state)
        if state is RequestState.PREEMPTED:
            self.page_table._free_rows.remove(row)


@request_fault("SGL-18694")
class FinishedIsPreempted(Request):
    """A request that has finished is preempted too, and gives its row back a second time."""

    __slots__ = ()

    def forget(self, state: RequestState) -> None:
        row = self.row
        super().forget(state)
        self.row = row

    def preempt(self) -> Any:
        if self.state is not RequestState.FINISHED:
            return super().preempt()
        self._steps.page_table.give_back_row(self.row)
        return self.tokens


@request_fault("SGL-12224")
class TailIsFreedTwice(RequestSteps):
    """The pages behind what was published are freed by the finish, and by the last step again."""

    def finish(self, request: Request) -> None:
        stored = min(request.stored_len, request.known_len)
        start = stored // self.page_size * self.page_size
        tail = self.own_pages(request, start, request.extended_len)
        super().finish(request)
        self.give_back(tail)


@request_fault("SGL-12224")
class PartPageIsLeaked(RequestSteps):
    """A finish rounds up what was published, so that the part page stays nobody's."""

    def finish(self, request: Request) -> None:
        published = self.pages_for(min(request.stored_len, request.known_len)) * self.page_size
        request.extended_len = max(request.extended_len, published)
        super().finish(request)

    def plan_publish(self, request: Request) -> PublishPlan | None:
        plan = super().plan_publish(request)
        if plan is not None:
            plan.aligned_len = self.pages_for(min(request.stored_len, request.known_len))
            plan.aligned_len *= self.page_size
        return plan


@request_fault("LMC-5005")
class FreedPageIsListedTwice(PageAllocator):
    """A page that comes back is listed twice, in place of another free one."""

    def free(self, pages: Any) -> None:
        super().free(pages)
        if self._num_free > 1:
            self._stack[self._num_free - 2] = self._stack[self._num_free - 1]


@request_fault("OMLX-1450")
class PreemptKeepsTheLock(RequestSteps):
    """A preempted request gives its pages back, and not its lock."""

    def leave(self, request: Request, state: RequestState) -> None:
        if state is RequestState.PREEMPTED:
            request.node = None
        super().leave(request, state)


@request_fault("OMLX-1450")
class RejectedLaterKeepsTheLock(RequestSteps):
    """A request that once found no room for a later chunk keeps its lock for ever."""

    rejected: frozenset[Request] = frozenset()

    def grow(self, request: Request, needed: int) -> None:
        try:
            super().grow(request, needed)
        except NoRoom:
            self.rejected |= {request}
            raise

    def unlock(self, request: Request) -> None:
        if request not in self.rejected:
            super().unlock(request)


@request_fault("OMLX-1450")
class CommitKeepsTheShorterLock(RequestSteps):
    """A commit locks the longer prefix, and never unlocks the shorter."""

    def move_lock(self, request: Request, plan: PublishPlan) -> None:
        request.node = None
        super().move_lock(request, plan)


@request_fault("ATLAS-373")
class CommitTakesNoLock(RequestSteps):
    """What a commit handed over is not locked, though the request goes on using it."""

    def move_lock(self, request: Request, plan: PublishPlan) -> None:
        pass


@request_fault("OMNI-1724")
class FinishOfTheCachedDoesNotRefresh(RequestSteps):
    """A finish that has nothing new to publish leaves the recency of the prefix as it was."""

    def finish(self, request: Request) -> None:
        plan = self.plan_publish(request)
        if plan is not None and plan.already_len == plan.aligned_len:
            self.drop(request, RequestState.FINISHED)
        else:
            super().finish(request)


@request_fault("OMNI-1724")
class CommitOfTheCachedDoesNotRefresh(RequestSteps):
    """A commit that has nothing new to publish leaves the recency of the prefix as it was."""

    def commit(self, request: Request) -> None:
        plan = self.plan_publish(request)
        if plan is None or plan.aligned_len > request.cached_len:
            super().commit(request)


@request_fault("any preemption")
class PreemptForgetsTheUnstored(Request):
    """A preempted request comes back with the tokens that are stored, not those that it knows."""

    __slots__ = ()

    def preempt(self) -> Any:
        stored = self.stored_len
        return np.array(super().preempt()[:stored])
