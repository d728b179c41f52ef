"""Detectors of match and insert: where the walk ended, and what was there."""

from __future__ import annotations

from typing import Any

from kvref.operations import Insert, Match
from kvref.oracle import Oracle, Page
from kvref.situations.memory import Memory
from kvref.situations.registry import bit, law_bit

__all__ = ["arguments", "inserted", "matched", "refused_insert"]

_NOTHING = bit("match-of-nothing")
_SHORT = bit("match-of-less-than-a-page")
_MISSES = bit("match-misses")
_ALL = bit("match-finds-all")
_FRONT = bit("match-finds-the-front")
_ENDS_INSIDE = bit("match-ends-inside-a-node")
_LEAVES_INSIDE = bit("match-leaves-inside-a-node")
_LEAVES_BETWEEN = bit("match-leaves-between-nodes")
_BEYOND = bit("match-beyond-a-leaf")
_OF_LOCKED = bit("match-of-a-locked-prefix")
_AGREES = bit("page-agrees-in-part")
_LOW_BITS = bit("tokens-alike-in-low-bits")
_OTHER_FORM = bit("found-in-another-form")
_SPLIT_LEAF = bit("split-of-a-leaf")
_SPLIT_PARENT = bit("split-of-a-parent")
_SPLIT_LOCKED = bit("split-of-a-locked-node")
_SPLIT_TWICE = bit("split-of-a-node-locked-twice")
_SPLIT_ABOVE = bit("split-above-a-lock")
_SPLIT_FIRST = bit("split-after-the-first-page")
_SPLIT_LAST = bit("split-before-the-last-page")
_NO_PAGE = bit("insert-of-no-page")
_PART = bit("insert-with-part-of-a-page")
_NEW = bit("insert-of-the-new")
_EXTENDS = bit("insert-that-extends")
_CACHED = bit("insert-of-the-cached")
_BRANCHES = bit("insert-branches-off-inside")
_INSERT_INSIDE = bit("insert-ends-inside-a-node")
_BELOW_LEAF = bit("insert-below-a-leaf")
_BESIDE = bit("insert-beside-children")
_BELOW_LOCK = bit("insert-below-a-lock")
_OWN = bit("insert-of-own-slots")
_DUPLICATES = bit("insert-of-duplicates")
_SOME = bit("insert-of-some-duplicates")
_FULL = bit("pool-filled-to-the-last-page")
_AGAIN = bit("page-used-again")
_AGAIN_EQUAL = bit("page-used-again-for-equal-tokens")
_AGAIN_MATCHED = bit("page-used-again-is-matched")
_LENGTHS = bit("insert-of-different-lengths")
_HELD = bit("insert-of-a-held-page")
_TWICE = bit("insert-of-a-page-twice")
_OUTSIDE = bit("insert-outside-the-pool")
_BROKEN = bit("insert-of-broken-pages")
_MISPLACED = bit("insert-of-misplaced-slots")
_WOULD_SPLIT = bit("refused-insert-that-would-split")
_AFTER_RESET = bit("use-after-a-reset")
_HIDES = bit("namespace-hides-a-prefix")
_TWINS = bit("namespaces-with-equal-prefixes")
_NONE_OR_EMPTY = bit("empty-namespace-beside-none")

_LAW_LENGTH = law_bit("match-length")
_LAW_SLOTS = law_bit("match-slots")
_LAW_READS = law_bit("match-only-reads")
_LAW_ALREADY = law_bit("already-cached")
_LAW_ADDS = law_bit("insert-adds-the-rest")
_LAW_WHOLE = law_bit("whole-pages")
_LAW_APART = law_bit("namespaces-apart")
_LAW_SPLIT = law_bit("split-keeps-the-count")

_LOW = 0xFFFFFFFF


def arguments(operation: Match | Insert, size: int) -> int:
    """What can be told from the tokens alone."""
    tokens = operation.tokens
    met = _LAW_WHOLE if len(tokens) % size else 0
    if type(operation) is Insert:
        return met | (_PART if met else 0) | (_NO_PAGE if len(tokens) < size else 0)
    return met | ((_SHORT if tokens else _NOTHING) if len(tokens) < size else 0)


def matched(memory: Memory, oracle: Oracle, index: int, operation: Match, expected: Any) -> int:
    """What a match met."""
    handle = memory.handles[index] = expected[0]
    tokens, size, length = operation.tokens, memory.page_size, expected[0].cached_len
    whole = len(tokens) // size * size
    something = memory.evictable + memory.protected > 0
    if whole == len(tokens) and whole:
        met = _LAW_READS | _LAW_LENGTH if something else 0
    else:
        met = arguments(operation, size) | (_LAW_READS if something else 0)
        if whole == 0:
            return met
        if something:
            met |= _LAW_LENGTH
    if len(memory.spaces) > 1 or operation.namespace not in memory.spaces:
        met |= _namespaces(memory, operation)
    if length == 0:
        return met | _MISSES if something else met
    page: Page = handle.page
    met |= _LAW_SLOTS | (_ALL if length == whole else _FRONT)
    if page.locks:
        met |= _OF_LOCKED
    if page.slots[0] in memory.reused:
        met |= _AGAIN_MATCHED
    if memory.form.get(page, operation.carried) != operation.carried:
        met |= _OTHER_FORM
    if page not in memory.ends:
        met |= _ENDS_INSIDE if length == whole else _LEAVES_INSIDE
        met |= _split(memory, index, page, tokens[length : length + size])
    elif length < whole:
        met |= _LEAVES_BETWEEN if page.children else _BEYOND
    return met


def inserted(memory: Memory, oracle: Oracle, index: int, operation: Insert, already: int) -> int:
    """What an insert met that was accepted; `already` is what it returned."""
    tokens, slots, size = operation.tokens, operation.slots, memory.page_size
    aligned = len(tokens) // size * size
    met = arguments(operation, size)
    if aligned == 0:
        return met
    if len(memory.spaces) > 1 or (memory.spaces and operation.namespace not in memory.spaces):
        met |= _namespaces(memory, operation)
    memory.spaces.add(operation.namespace)
    if already == aligned:
        end = oracle.page_at(slots[aligned - size])  # its own, or not the cache's at all
        if end is None:
            end = oracle.page_at(oracle.cached_slots(tokens, operation.namespace)[-1])
        met |= _CACHED
    else:
        end, more = _grown(memory, oracle, operation, already, aligned)
        met |= more | _LAW_ADDS
        if already:
            met |= _EXTENDS
        elif memory.evictable + memory.protected:
            met |= _NEW
        if memory.fresh_reset:
            memory.fresh_reset = False
            met |= _AFTER_RESET
        if oracle.evictable_size + oracle.protected_size == memory.num_slots:
            met |= _FULL
    if not already or end is None:
        return met
    met |= _LAW_ALREADY | _whose(slots, end, already, size)
    if end not in memory.ends:
        met |= _INSERT_INSIDE if already == aligned else _BRANCHES
        met |= _split(memory, index, end, tokens[already : already + size])
    elif already < aligned:
        met |= _BELOW_LEAF if end.children == 1 else _BESIDE
    if already < aligned and end.locks:
        met |= _BELOW_LOCK
    return met


def refused_insert(memory: Memory, oracle: Oracle, operation: Insert) -> int:
    """What an insert met that was refused."""
    tokens, slots, size = operation.tokens, operation.slots, memory.page_size
    own = oracle.cached_slots(tokens, operation.namespace)
    end = oracle.page_at(own[-1]) if own else None
    met = _WOULD_SPLIT if end is not None and not end.node_ends else 0
    if len(tokens) != len(slots):
        return met | _LENGTHS
    already, aligned = len(own), len(tokens) // size * size
    seen: set[int] = set()
    for start in range(already, aligned, size):
        first = slots[start]
        if first < 0 or first + size > memory.num_slots:
            met |= _OUTSIDE
        elif first % size or slots[start : start + size] != tuple(range(first, first + size)):
            met |= _BROKEN
        elif first in oracle.held:
            met |= _HELD
        elif first in seen:
            met |= _TWICE
        seen.add(first)
    for slot, mine in zip(slots[:already], own, strict=True):
        if slot != mine and slot // size * size in oracle.held:
            met |= _MISPLACED
    return met


def _split(memory: Memory, index: int, end: Page, rest: tuple[int, ...]) -> int:
    """A node was split after `end`; `rest` is what the input had in place of the next page."""
    memory.ends.add(end)
    memory.uppers.add(end)
    low = memory.below.get(end)
    if low is None:
        return 0  # it was inserted in a way that could not be followed
    last = low
    while not last.node_ends:
        last = memory.below[last]
    memory.split_at[last] = index
    met = _SPLIT_PARENT if last.children else _SPLIT_LEAF
    if low.node_ends:
        met |= _SPLIT_LAST
    above = end.parent
    if above is None or above.parent is None or above.node_ends:
        met |= _SPLIT_FIRST
    if end.locks:
        met |= _SPLIT_LOCKED | _LAW_SPLIT
        memory.split_locked.add(last)
        if end.locks > 1:
            met |= _SPLIT_TWICE
        if last.own_locks == 0:
            met |= _SPLIT_ABOVE
    if rest:
        there = low.tokens
        if rest[0] == there[0]:
            met |= _AGREES  # not all of it, or the walk had gone on
        if len(rest) == len(there) and all(
            (one ^ other) & _LOW == 0 for one, other in zip(rest, there, strict=True)
        ):
            met |= _LOW_BITS
    return met


def _grown(
    memory: Memory, oracle: Oracle, operation: Insert, already: int, aligned: int
) -> tuple[Page | None, int]:
    """The page that the new ones hang below, and what their slots were before."""
    size, slots, holder = memory.page_size, operation.slots, memory.holder
    page = oracle.page_at(slots[aligned - size])
    if page is None or page.depth * size != aligned:
        return None, 0  # slots that were not the caller's to give, and nobody verified them
    memory.ends.add(page)
    memory.form[page] = operation.carried
    met, first = 0, slots[aligned - size]
    # Of the last page alone: it is the one that a match ends at, and each would cost the same.
    before = holder.get(first)
    if before is not None and _differ(before, page):
        memory.reused.add(first)
        met = _AGAIN | _AGAIN_EQUAL if before.tokens == page.tokens else _AGAIN
    below = memory.below
    holder[first] = page
    above = page.parent
    for start in range(aligned - 2 * size, already - 1, -size):
        assert above is not None
        below[above] = page
        page = above
        holder[slots[start]] = page
        above = page.parent
    if already == 0:
        memory.firsts[operation.namespace, page.tokens] = page
    memory.forget_the_gone()
    return above, met


def _differ(one: Page, other: Page) -> bool:
    """Whether the prefixes that end at two pages differ."""
    if one.depth != other.depth or one.namespace != other.namespace:
        return True
    above: tuple[Page | None, Page | None] = (one, other)
    while above[0] is not above[1] and above[0] is not None and above[1] is not None:
        if above[0].tokens != above[1].tokens:
            return True
        above = above[0].parent, above[1].parent
    return False


def _whose(slots: tuple[int, ...], end: Page, already: int, size: int) -> int:
    """Whether the slots of what was there are the cache's own, page by page."""
    own = others = False
    page: Page | None = end
    for start in range(already - size, -1, -size):
        assert page is not None
        if slots[start] == page.slots[0]:
            own = True
        else:
            others = True
        page = page.parent
    return _SOME if own and others else _OWN if own else _DUPLICATES


def _namespaces(memory: Memory, operation: Match | Insert) -> int:
    """Whether another namespace holds the first page of the input too."""
    mine, met, firsts = operation.namespace, 0, memory.firsts
    tokens = operation.tokens[: memory.page_size]
    for space in memory.spaces:
        page = firsts.get((space, tokens)) if space != mine else None
        if page is None or not page.cached:
            continue
        met |= _LAW_APART
        if mine in (None, "") and space in (None, ""):
            met |= _NONE_OR_EMPTY
    if met and type(operation) is Match:
        own = firsts.get((mine, tokens))
        met |= _TWINS if own is not None and own.cached else _HIDES
    return met
