"""Detectors of lock and unlock."""

from __future__ import annotations

from kvref.operations import Lock, Unlock
from kvref.oracle import Handle, Oracle, Page
from kvref.refusals import Refusal, RefusalKind
from kvref.situations.memory import Memory
from kvref.situations.registry import bit, law_bit

__all__ = ["locked", "refused_handle", "unlocked"]

_FREE = bit("lock-of-the-free")
_AGAIN = bit("lock-again")
_SHARED = bit("lock-on-shared-ancestors")
_ABOVE = bit("lock-above-a-lock")
_AFTER_EVICT = bit("lock-after-an-evict")
_AFTER_SPLIT = bit("lock-after-a-split")
_EMPTY = bit("empty-handle")
_FREES_PATH = bit("unlock-frees-the-path")
_FREES_PART = bit("unlock-frees-a-part")
_FREES_NOTHING = bit("unlock-frees-nothing")
_ONE_OF = bit("unlock-of-one-of-several")
_UNLOCK_SPLIT = bit("unlock-after-a-split")
_STALE_EVICT = bit("stale-after-evict")
_STALE_RESET = bit("stale-after-reset")
_STALE_AGAIN = bit("stale-though-cached-again")
_STALE_REUSED = bit("stale-with-its-pages-used-again")
_FOREIGN = bit("foreign-handle")
_NO_HANDLE = bit("not-a-handle")
_UNLOCKED = bit("unlock-of-the-unlocked")
_OTHERS = bit("unlock-below-which-others-lock")

_LAW_COVERS = law_bit("lock-covers-the-path")
_LAW_NEST = law_bit("locks-nest")
_LAW_EMPTY = law_bit("the-empty-handle")


def _handle(memory: Memory, operation: Lock | Unlock) -> Handle | None:
    reference = operation.handle
    return memory.handles.get(reference) if isinstance(reference, int) else None


def locked(memory: Memory, oracle: Oracle, operation: Lock) -> int:
    """What a lock met that was accepted."""
    handle = _handle(memory, operation)
    if handle is None or handle.page is None:
        return _EMPTY | _LAW_EMPTY
    page, number = handle.page, operation.handle
    moved = oracle.protected_size - memory.protected
    met = _LAW_COVERS if moved else _LAW_NEST
    if moved == handle.cached_len:
        met |= _FREE
    elif moved:
        met |= _SHARED | _LAW_NEST
    elif page.own_locks > 1:
        met |= _AGAIN
    else:
        met |= _ABOVE
    assert isinstance(number, int)
    if memory.last_evict > number:
        met |= _AFTER_EVICT
    if memory.split_at.get(page, -1) > number:
        met |= _AFTER_SPLIT
    return met


def unlocked(memory: Memory, oracle: Oracle, operation: Unlock) -> int:
    """What an unlock met that was accepted."""
    handle = _handle(memory, operation)
    if handle is None or handle.page is None:
        return _EMPTY | _LAW_EMPTY
    page = handle.page
    moved = memory.protected - oracle.protected_size
    if moved:
        memory.was_locked.add(page)
    met = 0
    if moved == handle.cached_len:
        met |= _FREES_PATH
    else:
        met |= (_FREES_PART if moved else _FREES_NOTHING) | _LAW_NEST
    if page.own_locks:
        met |= _ONE_OF
    if page in memory.split_locked:
        met |= _UNLOCK_SPLIT
        if not page.locks:
            memory.split_locked.discard(page)
    return met


def refused_handle(
    memory: Memory, oracle: Oracle, operation: Lock | Unlock, refusal: Refusal
) -> int:
    """What a lock or unlock met that was refused."""
    kind = refusal.kind
    if kind is RefusalKind.FOREIGN:
        return _FOREIGN
    handle = _handle(memory, operation)
    if kind is RefusalKind.TYPE or handle is None or handle.page is None:
        return _NO_HANDLE
    page = handle.page
    if kind is RefusalKind.UNBALANCED:
        return _OTHERS if page.locks else _UNLOCKED
    met = _STALE_RESET if page in memory.reset else _STALE_EVICT
    if len(oracle.cached_slots(_tokens(page), page.namespace)) == handle.cached_len:
        met |= _STALE_AGAIN
    holder = memory.holder.get(page.slots[0])
    if holder is not None and holder is not page and holder.cached:
        met |= _STALE_REUSED
    return met


def _tokens(page: Page) -> list[int]:
    """All tokens of the prefix that ends at the page."""
    parts: list[tuple[int, ...]] = []
    above: Page | None = page
    while above is not None:
        parts.append(above.tokens)
        above = above.parent
    return [token for part in reversed(parts) for token in part]
