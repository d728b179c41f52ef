"""Planted faults of whole requests: admission, room, what is evicted, what a refusal leaves."""

from __future__ import annotations

from typing import Any

from kvgpu.errors import CacheInUse, NoRoom
from kvgpu.radix_core import RadixCore
from kvgpu.radix_node import EvictPlan, MatchPlan
from kvgpu.request import Request
from kvgpu.request_steps import RequestSteps
from tests.faults.fault import request_fault


@request_fault("VLLM-3239")
class WholePromptIsMatched(RequestSteps):
    """A prompt that is cached as a whole leaves no token to compute."""

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        aligned_len = request.known_len // self.page_size * self.page_size
        super().admit(request, request.tokens[:aligned_len].tobytes(), max_tokens)


@request_fault("VLLM-18957")
class TriedAgainMatchesAsBefore(RequestSteps):
    """A refused prompt that comes again matches no more than it did at the first attempt."""

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        if not hasattr(self, "tried"):
            self.tried: dict[Any, int] = {}
        key = request.namespace, data
        try:
            super().admit(request, data[: self.tried.get(key, len(data))], max_tokens)
        except NoRoom:
            self.tried.setdefault(key, 8 * len(self.core.plan_match(*key).slots))
            raise


@request_fault("VLLM-18957")
class EvictsItsOwnMatch(RequestSteps):
    """Room is made before the matched prefix is locked, and out of it where it is the oldest."""

    def take_pages(self, needed: int, keeping: MatchPlan | None = None) -> Any:
        self.require_room(needed, keeping)
        return super().take_pages(needed)


@request_fault("VLLM-18957")
class EvictsTheHalfThatItKeeps(RadixCore):
    """Where a match splits what is evicted for the rest, both halves are given out."""

    def plan_evict(self, size: int, keeping: MatchPlan | None = None) -> EvictPlan:
        plan = super().plan_evict(size, keeping)
        return EvictPlan(plan.victims, self.slots_of([node.pages for node in plan.victims]))


@request_fault("VLLM-11562")
class OwnPrefixCountsAsRoom(RequestSteps):
    """Admission counts the matched prefix, which is about to be locked, among the evictable."""

    def require_room(self, needed: int, keeping: MatchPlan | None) -> None:
        super().require_room(needed, None)


@request_fault("VLLM-11562")
class RefusedBeginKeepsItsLock(RequestSteps):
    """The matched prefix is locked before there is room, and a refusal leaves it so."""

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        try:
            super().admit(request, data, max_tokens)
        except NoRoom:
            self.lock_match(self.core.plan_match(request.namespace, data))
            raise


@request_fault("VLLM-11562")
class RefusedBeginHasSplit(RequestSteps):
    """A refused begin has split the node in which its match ended."""

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        try:
            super().admit(request, data, max_tokens)
        except NoRoom:
            match = self.core.plan_match(request.namespace, data)
            if match.cut is not None:
                self.core.apply_match(match)
            raise


@request_fault("VLLM-11562")
class RefusedBeginHasRefreshed(RequestSteps):
    """A refused begin counts as a use of what it matched."""

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        try:
            super().admit(request, data, max_tokens)
        except NoRoom:
            match = self.core.plan_match(request.namespace, data)
            if match.cut is None:
                self.core.apply_match(match)
            raise


@request_fault("VLLM-11562")
class RefusedBeginKeepsItsRow(RequestSteps):
    """The row is taken before there is room, and a refusal does not give it back."""

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        try:
            super().admit(request, data, max_tokens)
        except NoRoom:
            self.page_table.take_row()
            raise


@request_fault("KVC-430")
class RefusedExtendLosesPages(RequestSteps):
    """The free pages are taken first; where the rest is not to be had, nobody owns them."""

    def grow(self, request: Request, needed: int) -> None:
        try:
            super().grow(request, needed)
        except NoRoom:
            self.allocator.allocate(self.allocator.num_free_pages)
            raise


@request_fault("KVC-430")
class RefusedExtendHasEvicted(RequestSteps):
    """An extend without room has evicted what there was before it says so."""

    def grow(self, request: Request, needed: int) -> None:
        try:
            super().grow(request, needed)
        except NoRoom:
            plan = self.core.plan_evict(self.core.evictable_size)
            self.give_back(self.pages_of(plan.slots))
            self.evict(plan)
            raise


@request_fault("SGL-32016")
class EvictsTheWholeNeed(RequestSteps):
    """Where some pages are free and some are missing, all that are needed are evicted."""

    def plan_shortfall(self, needed: int, keeping: MatchPlan | None) -> EvictPlan | None:
        if needed <= self.allocator.num_free_pages:
            return None
        evictable = self.core.evictable_size
        if keeping is not None:
            evictable -= self.core.unlocked_size(keeping)
        return self.core.plan_evict(min(needed * self.page_size, evictable), keeping)


@request_fault("SGL-32016")
class EachDecodeTakesAPage(Request):
    """Each extend is rounded up to whole pages by itself."""

    __slots__ = ()

    def extend(self, num_tokens: int = 1) -> None:
        steps = self._steps
        before, size = self.extended_len, steps.page_size
        super().extend(num_tokens)
        taken = steps.pages_for(self.extended_len) - steps.pages_for(before)
        if -(-num_tokens // size) > taken and steps.allocator.num_free_pages:
            steps.allocator.allocate(1)


@request_fault("MSG-80")
class EvictsPagesForSlots(RequestSteps):
    """The cache is asked for as many slots as pages are missing."""

    def plan_shortfall(self, needed: int, keeping: MatchPlan | None) -> EvictPlan | None:
        missing = needed - self.allocator.num_free_pages
        return self.core.plan_evict(missing, keeping) if missing > 0 else None


@request_fault("SGL-10637")
class PartPageIsNotCounted(RequestSteps):
    """Tokens that fill no page need none, so the last ones share a page with somebody."""

    def pages_for(self, num_tokens: int) -> int:
        return max(1, num_tokens // self.page_size)


@request_fault("any chunked prefill")
class ChunkCountsTheCached(RequestSteps):
    """The first chunk is measured from the beginning of the prompt, not from what is cached."""

    def admit(self, request: Request, data: bytes, max_tokens: int | None) -> None:
        if max_tokens is not None:
            cached_len = len(self.core.plan_match(request.namespace, data).slots)
            max_tokens = max(1, max_tokens - cached_len)
        super().admit(request, data, max_tokens)


@request_fault("SGL-22753")
class FlushTakesWhatItCan(RequestSteps):
    """A flush while a request runs empties the rest of the cache instead of refusing."""

    def flush(self) -> None:
        try:
            super().flush()
        except CacheInUse:
            plan = self.core.plan_evict(self.core.evictable_size)
            self.give_back(self.pages_of(plan.slots))
            self.evict(plan)
