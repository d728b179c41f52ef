"""Detectors of evict and reset: who went, who stayed, and in which order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kvref.operations import Evict
from kvref.oracle import Oracle, Page
from kvref.refusals import Refusal, RefusalKind
from kvref.situations.memory import Memory
from kvref.situations.registry import bit, law_bit

__all__ = ["evicted", "refused_evict", "reset"]

_NOTHING = bit("evict-of-nothing")
_EXACTLY = bit("evict-exactly")
_MORE = bit("evict-more-than-asked")
_SEVERAL = bit("evict-of-several-nodes")
_CASCADES = bit("evict-cascades")
_EXPOSES = bit("evict-exposes-a-parent")
_LAST = bit("evict-down-to-the-last-page")
_ALL_BUT = bit("evict-all-but-the-locked")
_PAST_LOCKED = bit("evict-past-a-locked-leaf")
_SPARES_USED = bit("evict-spares-what-was-used")
_SPARES_NEW = bit("evict-spares-what-is-new")
_UNUSED_END = bit("evict-of-an-unused-end")
_UPPER = bit("evict-of-an-upper-half")
_UNLOCKED = bit("evict-after-an-unlock")
_NAMESPACE = bit("evict-that-empties-a-namespace")
_TOO_MUCH = bit("evict-of-too-much")
_OF_LOCKED = bit("evict-of-what-is-locked")
_NO_NUMBER = bit("evict-of-no-number")
_NEGATIVE = bit("evict-of-less-than-nothing")
_RESET = bit("reset-of-something")
_RESET_EMPTY = bit("reset-of-nothing")

_LAW_LOCKED = law_bit("locked-stay")
_LAW_LEAVES = law_bit("leaves-first")
_LAW_ENOUGH = law_bit("enough-and-no-more")
_LAW_ALL = law_bit("all-can-be-evicted")
_LAW_USE = law_bit("use-is-exact")
_LAW_LOCKS = law_bit("locks-are-no-use")
_LAW_RESET = law_bit("reset")
_LAW_CHOICE = law_bit("victims") | law_bit("legal-victims")


def evicted(
    memory: Memory,
    oracle: Oracle,
    index: int,
    operation: Evict,
    firsts: Collection[int],
    freed: int,
) -> int:
    """What an evict met that was accepted: the first slots of the pages, and how many slots."""
    wanted = operation.size
    assert isinstance(wanted, int)
    if wanted == 0:
        return _NOTHING if memory.evictable + memory.protected else 0
    pages = memory.gone(firsts)
    if not pages:
        return 0  # a target's own choice that was not a legal one
    met = _LAW_ENOUGH | (_EXACTLY if freed == wanted else _MORE)
    if memory.protected:
        met |= _LAW_LOCKED
    if wanted == memory.evictable:
        met |= _LAW_ALL
    if oracle.evictable_size == 0:
        met |= _ALL_BUT if memory.protected else _LAST
    if len(pages) > 1 and sum(page in memory.ends for page in pages) > 1:
        met |= _SEVERAL | _LAW_CHOICE
    met |= _what_went(memory, oracle, pages) | _who_stayed(memory, oracle, pages)
    memory.last_evict = index
    return met


def refused_evict(memory: Memory, operation: Evict, refusal: Refusal) -> int:
    """What an evict met that was refused."""
    if refusal.kind is RefusalKind.TYPE:
        return _NO_NUMBER
    if refusal.kind is RefusalKind.VALUE:
        return _NEGATIVE
    wanted = operation.size
    assert isinstance(wanted, int)
    return _OF_LOCKED if wanted <= memory.evictable + memory.protected else _TOO_MUCH


def reset(memory: Memory, slots: Sequence[int]) -> int:
    """What a reset met that was accepted."""
    if not slots:
        return _RESET_EMPTY
    memory.reset.update(memory.gone(slots[:: memory.page_size]))
    memory.fresh_reset = True
    return _RESET | _LAW_RESET


def _what_went(memory: Memory, oracle: Oracle, pages: Sequence[Page]) -> int:
    # Where nodes ended, `ends` knows: the pages themselves do not once they are gone.
    met, ends = 0, memory.ends
    gone = set(pages)
    for page in pages:
        if page in memory.uppers:
            met |= _UPPER
        if page in memory.was_locked:
            met |= _UNLOCKED | _LAW_LOCKS
        above = page.parent
        assert above is not None
        if above.parent is None:
            if above.children == 0 and oracle.evictable_size + oracle.protected_size:
                met |= _NAMESPACE
        elif above in gone:
            if above in ends:
                met |= _CASCADES | _LAW_LEAVES
        else:
            met |= _LAW_LEAVES
            ends.add(above)  # it is one already, unless a part of a node was evicted
            if above.children == 0:
                met |= _EXPOSES
            if above.recency > page.recency:
                met |= _UNUSED_END | _LAW_USE
    return met


def _who_stayed(memory: Memory, oracle: Oracle, pages: Sequence[Page]) -> int:
    """Looks at the leaves that stay, as the oracle itself did for each victim."""
    first = pages[0]  # all pages of a node were used, and created, at one time
    bare = {page.parent for page in pages}  # leaves since, and no choice then
    met = 0
    for leaf in oracle.leaves:
        if leaf in bare:
            continue
        met |= _LAW_CHOICE
        if leaf.locks:
            older = leaf.recency < first.recency if memory.lru else leaf.created < first.created
            if older:
                met |= _PAST_LOCKED
        elif memory.lru:
            if leaf.created < first.created:
                met |= _SPARES_USED
        elif leaf.recency < first.recency:
            met |= _SPARES_NEW
    return met
