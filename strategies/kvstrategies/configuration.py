"""Configurations of a manager: structural constants so small that rare paths are common."""

from __future__ import annotations

from hypothesis import strategies as st

from kvref.configuration import Configuration
from kvref.promises import Promises

__all__ = ["configurations"]


def configurations(
    promises: Promises | None = None, *, max_pages: int = 12
) -> st.SearchStrategy[Configuration]:
    """Whatever a target with these promises can be built with: small pages, a handful of them."""
    promises = promises or Promises()
    return st.builds(
        Configuration,
        page_size=st.sampled_from(promises.page_sizes or (1, 2, 3, 4)),
        num_pages=st.integers(4, max_pages),
        policy=st.sampled_from(promises.policies),
        checked=st.booleans() if promises.checked_inserts else st.just(False),
    )
