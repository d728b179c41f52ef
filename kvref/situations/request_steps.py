"""Detectors of begin, extend, append and store: what a request takes, and when."""

from __future__ import annotations

from kvref.refusals import RefusalKind
from kvref.requests.operations import Append, Begin, Extend
from kvref.requests.oracle import Request
from kvref.requests.run import Outcome
from kvref.situations.registry import bit, law_bit
from kvref.situations.request_memory import Before, RequestMemory

__all__ = ["appended", "begun", "extended", "refused_begin", "refused_extend", "stored"]

_COLD = bit("begin-without-a-hit")
_HIT = bit("begin-with-a-hit")
_ALL = bit("begin-with-all-cached")
_SHARED = bit("begin-on-a-shared-prefix")
_EQUAL = bit("begin-with-an-equal-prompt")
_CHUNKS = bit("begin-in-chunks")
_ONE = bit("begin-of-one-token")
_AGAIN = bit("begin-again-after-preempt")
_EVICTS = bit("begin-evicts")
_SPARES = bit("begin-spares-the-cache")
_FILLS = bit("begin-fills-the-room")
_NO_ROOM = bit("begin-without-room")
_BUT_FOR = bit("begin-but-for-its-own-prefix")
_WOULD_SPLIT = bit("refused-begin-that-would-split")
_TOO_MANY = bit("begin-of-too-many")
_NO_PROMPT = bit("begin-of-no-prompt")
_HIDDEN = bit("begin-hidden-by-a-namespace")
_WITHIN = bit("extend-within-a-page")
_BY_PAGES = bit("extend-by-pages")
_EXTEND_EVICTS = bit("extend-evicts")
_EXTEND_FILLS = bit("extend-fills-the-room")
_EXTEND_NO_ROOM = bit("extend-without-room")
_CHUNK = bit("extend-the-next-chunk")
_AHEAD = bit("extend-ahead")
_TOO_FAR = bit("extend-too-far")
_LATE = bit("values-come-late")
_EARLY = bit("values-come-early")
_USED = bit("store-on-a-used-page")
_STORES_LATE = bit("store-of-what-comes-late")
_STORES_NOTHING = bit("store-of-nothing")

_LAW_LEFT = law_bit("token-left")
_LAW_MATCH = law_bit("admission-match")
_LAW_PAGES = law_bit("pages-owned")
_LAW_SHORTFALL = law_bit("shortfall")
_LAW_FREE_FIRST = law_bit("free-pages-first")
_LAW_STAY = law_bit("used-pages-stay")


def begun(
    memory: RequestMemory, before: Before, begin: Begin, outcome: Outcome, request: Request
) -> int:
    """What the beginning of a request met."""
    tokens, size = begin.tokens, memory.page_size
    memory.prompts[request.number] = len(tokens)
    met = _takes(memory, before, outcome)
    if before.matched:
        met |= _HIT | _LAW_MATCH
        if before.shared:
            met |= _SHARED
    elif before.evictable or before.protected:
        met |= _COLD
    if before.all_cached:
        met |= _ALL | _LAW_LEFT
    if before.equal and len(tokens) - before.matched > size:
        met |= _EQUAL
    if len(request.row) < len(tokens):
        met |= _CHUNKS
    if len(tokens) == 1:
        met |= _ONE
    if tokens in memory.preempted:
        memory.preempted.discard(tokens)
        met |= _AGAIN
    if outcome.evicted:
        met |= _EVICTS
    elif outcome.needed and before.evictable > before.own_evictable * size:
        met |= _SPARES
    room = before.free + before.evictable // size - before.own_evictable
    if outcome.needed == room:
        met |= _FILLS
    if before.hidden:
        met |= _HIDDEN
    memory.spaces.add(begin.namespace)
    return met


def refused_begin(memory: RequestMemory, before: Before, outcome: Outcome) -> int:
    """What a request met that was not admitted."""
    refusal = outcome.refused
    assert refusal is not None
    if refusal.kind is RefusalKind.VALUE:
        return _NO_PROMPT
    if refusal.kind is RefusalKind.TOO_MANY:
        return _TOO_MANY
    met = _NO_ROOM
    if before.splits:
        met |= _WOULD_SPLIT
    fields = refusal.fields
    if fields["needed"] <= fields["free"] + fields["evictable"] + before.own_evictable:
        met |= _BUT_FOR
    return met


def extended(
    memory: RequestMemory, before: Before, extend: Extend, outcome: Outcome, request: Request
) -> int:
    """What a step met that got its slots."""
    met = _takes(memory, before, outcome)
    met |= _BY_PAGES if outcome.needed else _WITHIN
    if outcome.evicted:
        met |= _EXTEND_EVICTS
    if outcome.needed and outcome.needed == before.free + before.evictable // memory.page_size:
        met |= _EXTEND_FILLS
    if before.extended < memory.prompts.get(request.number, 0):
        met |= _CHUNK
    if len(request.row) > before.known:
        met |= _AHEAD
    return met


def refused_extend(outcome: Outcome) -> int:
    """What a step met that did not get them."""
    assert outcome.refused is not None
    return _TOO_FAR if outcome.refused.kind is RefusalKind.VALUE else _EXTEND_NO_ROOM


def appended(before: Before, append: Append) -> int:
    """What values met that were told."""
    met = 0
    if before.known < before.extended and append.tokens:
        met |= _LATE
    if before.known + len(append.tokens) > before.extended and append.tokens:
        met |= _EARLY
    return met


def stored(memory: RequestMemory, before: Before, request: Request) -> int:
    """What a store met."""
    if before.stored == before.extended:
        return _STORES_NOTHING
    met, size, number = 0, memory.page_size, request.number
    for slot in before.row[before.stored :]:
        page = slot // size
        owner = memory.stored_by.get(page)
        if owner != number:
            memory.stored_by[page] = number
            if owner is not None:
                met |= _USED
    if before.known < before.extended:
        met |= _STORES_LATE
    return met


def _takes(memory: RequestMemory, before: Before, outcome: Outcome) -> int:
    met = 0
    if outcome.needed:
        met |= _LAW_PAGES
        if before.free and before.evictable:
            met |= _LAW_FREE_FIRST
    if outcome.evicted:
        met |= _LAW_SHORTFALL
        if before.protected:
            met |= _LAW_STAY
    return met
