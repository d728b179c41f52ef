"""Checked mode: may the cache take over these slots? Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from kvgpu.errors import InvalidValue
from kvgpu.radix_node import FEW, IntArray

__all__ = ["ALL_SLOTS", "require_slots"]

_Complaint = tuple[int, str]

ALL_SLOTS = 2**31
"""Slots are int32."""


def require_slots(
    slots: IntArray,
    own: IntArray,
    *,
    page_size: int,
    num_slots: int | None,
    held: AbstractSet[int],
) -> None:
    """Refuse slots that an insert cannot hand over.

    Args:
        slots: `[a]`, int32: what the caller passed, without the part page. Read only.
        own: `[c]`, int32, `c <= a`: the cache's slots of the prefix that is there already.
        page_size: in slots; `a` and `c` are multiples of it.
        num_slots: of the pool; None: any slot from 0 on is in range.
        held: the numbers of all pages that the cache holds.

    Raises:
        InvalidValue: naming the first bad position and the slot there.
    """
    if _all_well(slots, own, page_size, num_slots, held):
        return
    already_len = len(own)
    complaints = _of_fresh(slots[already_len:], already_len, page_size, num_slots, held)
    complaints += _of_prefix(slots, own, page_size, held)
    if complaints:
        position, expected = min(complaints, key=itemgetter(0))
        raise InvalidValue("indices", f"slot {slots[position]} at position {position}", expected)


def _all_well(
    slots: IntArray, own: IntArray, page_size: int, num_slots: int | None, held: AbstractSet[int]
) -> bool:
    """Whether there is surely nothing to complain of, in as few steps as that takes.

    That is the rule, and most inserts are short: what costs is the number of calls into numpy.
    False says nothing: it may be a duplicate, which is allowed.
    """
    already_len = len(own)
    if slots[:already_len].tobytes() != own.tobytes():
        return False
    fresh = slots[already_len:]
    if len(fresh) == 0:
        return True
    pages = fresh[::page_size] // page_size
    if page_size > 1:
        whole = pages[:, None] * page_size + np.arange(page_size, dtype=np.int32)
        if whole.tobytes() != fresh.tobytes():
            return False
    # Of whole pages, all slots are within if the ends are. Above, the last page may have overflown
    # an int32; here nothing can.
    distinct = set(pages.tolist())
    if len(pages) <= FEW:
        lowest, highest = min(distinct), max(distinct)
    else:
        lowest, highest = int(np.minimum.reduce(pages)), int(np.maximum.reduce(pages))
    limit = ALL_SLOTS if num_slots is None else min(num_slots, ALL_SLOTS)
    if lowest < 0 or (highest + 1) * page_size > limit:
        return False
    return len(distinct) == len(pages) and held.isdisjoint(distinct)


def _first(mask: npt.NDArray[np.bool_], offset: int, expected: str) -> list[_Complaint]:
    """One complaint about the first true entry of `mask`, or none."""
    if not mask.any():
        return []
    return [(offset + int(mask.argmax()), expected)]


def _members(pages: npt.NDArray[Any], group: AbstractSet[int]) -> npt.NDArray[np.bool_]:
    """Which of `pages` are in `group`."""
    return np.fromiter(map(group.__contains__, pages.tolist()), np.bool_, len(pages))


def _of_fresh(
    fresh: IntArray, offset: int, page_size: int, num_slots: int | None, held: AbstractSet[int]
) -> list[_Complaint]:
    """What is wrong with the slots that the cache would own: whole pages, free, distinct."""
    if len(fresh) == 0:
        return []
    wide = fresh.astype(np.int64)  # a page may end beyond what an int32 holds
    outside = wide < 0
    within = "a slot from 0 on"
    if num_slots is not None:
        outside |= wide >= num_slots
        within = f"a slot in 0..{num_slots - 1}"
    complaints = _first(outside, offset, within)
    pages = wide[::page_size] // page_size
    if page_size > 1:
        whole = (pages[:, None] * page_size + np.arange(page_size)).reshape(-1)
        complaints += _first(wide != whole, offset, f"whole aligned pages of {page_size} slots")
    numbers = pages.tolist()
    distinct = set(numbers)
    if len(distinct) < len(numbers):
        repeated = np.ones(len(pages), dtype=np.bool_)
        repeated[np.unique(pages, return_index=True)[1]] = False
        complaints += _first(repeated.repeat(page_size), offset, "each page once")
    if not held.isdisjoint(distinct):
        taken = _members(pages, held).repeat(page_size)
        complaints += _first(taken, offset, "a page that the cache does not hold")
    return complaints


def _of_prefix(
    slots: IntArray, own: IntArray, page_size: int, held: AbstractSet[int]
) -> list[_Complaint]:
    """What is wrong where the cache has its own slots: each is that slot, or a duplicate."""
    already_len = len(own)
    if already_len == 0:
        return []
    foreign = slots[:already_len] != own
    if not foreign.any():
        return []
    pages = slots // page_size
    of_cache = foreign & _members(pages[:already_len], held)
    # Handed over further on, such a page would be the cache's and the caller's at once.
    given = foreign & _members(pages[:already_len], set(pages[already_len:].tolist()))
    return [
        *_first(of_cache, 0, "the cache's own slot there, or one that the cache holds nowhere"),
        *_first(given, 0, "a duplicate whose page is not handed over further on"),
    ]
