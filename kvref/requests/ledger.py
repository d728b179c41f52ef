"""Who holds each page of the pool: nobody, the cache, or one request."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

__all__ = ["CACHE", "FREE", "Holder", "Ledger"]

FREE: Literal["free"] = "free"
CACHE: Literal["cache"] = "cache"

Holder = Literal["free", "cache"] | int
"""A request is named by the number of its `Begin`."""


class Ledger:
    """Exactly one holder for each page, and the request that owned it last."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self.num_free = num_pages  # kept for speed; `held_by` recounts
        self._holder: list[Holder] = [FREE] * num_pages
        self._last_owner: list[int | None] = [None] * num_pages

    def move(self, pages: Collection[int], old: Holder, new: Holder) -> None:
        """The pages pass from one holder to another."""
        for page in pages:
            assert self._holder[page] == old, f"not {old}'s: {self.words(page)}"
            self._holder[page] = new
            if isinstance(new, int):
                self._last_owner[page] = new
        self.num_free += len(pages) * ((new == FREE) - (old == FREE))

    def wrong(self, pages: Sequence[int]) -> str | None:
        """Why these pages cannot be given to a request, or None if they can."""
        seen: set[int] = set()
        for page in pages:
            if not 0 <= page < self.num_pages:
                return f"page {page}, where the pool has pages 0 to {self.num_pages - 1}"
            if page in seen:
                return f"page {page} twice"
            if self._holder[page] != FREE:
                return self.words(page)
            seen.add(page)
        return None

    def words(self, page: int) -> str:
        """Whose a page is, and whose it was."""
        holder, last = self._holder[page], self._last_owner[page]
        if isinstance(holder, int):
            return f"page {page}, which r{holder} owns"
        state = "the cache holds" if holder == CACHE else "is free"
        return f"page {page}, which {state}" + ("" if last is None else f" and r{last} owned last")

    def held_by(self, holder: Holder) -> set[int]:
        """All its pages."""
        return {page for page, whose in enumerate(self._holder) if whose == holder}
