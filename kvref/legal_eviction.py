"""Whether a target's own choice of victims was allowed, and the oracle made to follow it."""

from __future__ import annotations

from collections.abc import Sequence

from kvref.oracle import Oracle, Page

__all__ = ["follow"]


def follow(oracle: Oracle, size: int, victims: Sequence[int]) -> str | None:
    """Remove the victims from the oracle, or say in words why they were not a legal choice.

    Legal: whole pages that are held and unlocked, each once; no page without all that is cached
    below it; enough of them; and no more than the granularity needs. `size` was checked before
    (`Oracle.check_evict`).
    """
    if len(set(victims)) != len(victims):
        return "a slot twice"
    found = {oracle.page_at(slot) for slot in victims}
    pages = {page for page in found if page is not None}
    if len(pages) != len(found):
        return "a slot that the cache does not hold"
    if len(pages) * oracle.page_size != len(victims):
        return "part of a page"
    if any(page.locks for page in pages):
        return "a locked page"
    staying = {page: page.children for page in pages}
    for page in pages:
        if page.parent in staying:
            staying[page.parent] -= 1
    if any(staying.values()):
        return "a page whose continuation stays cached"
    if len(victims) < size:
        return f"{len(victims)} slots, fewer than the {size} asked for"
    problem = _check_amount(oracle, pages, size)
    if problem is None:
        for page in sorted(pages, key=lambda page: -page.depth):
            oracle.remove(page)
    return problem


def _check_amount(oracle: Oracle, pages: set[Page], size: int) -> str | None:
    """Whether some victim was the last, without which it would have fallen short.

    It can only be one whose parent stays: below each other one, something had to go first.
    """
    if oracle.granularity == "any" or not pages:
        return None
    tops = [page for page in pages if page.parent not in pages]
    if oracle.granularity == "node":
        if any(_inside_a_node(page) for page in tops):
            return "part of a node"
        lasts = [_pages_of_node(oracle, page) for page in tops]
    else:
        lasts = [1 for _ in tops]
    freed = len(pages) * oracle.page_size
    if all(freed - last * oracle.page_size >= size for last in lasts):
        return f"{freed} slots, more than {size} needs"
    return None


def _inside_a_node(page: Page) -> bool:
    above = page.parent
    return above is not None and above.parent is not None and not above.node_ends


def _pages_of_node(oracle: Oracle, first: Page) -> int:
    pages, page = 1, first
    while not page.node_ends:
        page = oracle.next_page(page)
        pages += 1
    return pages
