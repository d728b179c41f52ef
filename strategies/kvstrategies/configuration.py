"""Configurations of a manager, and of requests: so small that rare paths are common."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from kvref.configuration import Configuration
from kvref.promises import Promises
from kvref.requests.configuration import DType, Layout, RequestConfiguration
from kvref.requests.promises import RequestPromises

__all__ = ["configurations", "request_configurations"]


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


def request_configurations(
    promises: RequestPromises | None = None, *, max_pages: int = 12
) -> st.SearchStrategy[RequestConfiguration]:
    """Whatever a target of requests with these promises can be built with, in a tight pool."""
    promises = promises or RequestPromises()
    return st.builds(
        RequestConfiguration,
        page_size=st.sampled_from(promises.page_sizes or (1, 2, 3, 4)),
        num_pages=st.integers(4, max_pages),
        # What LRU alone shows (who used what, and when) is harder to meet than the rest.
        policy=st.sampled_from((*promises.policies, promises.policies[0])),
        checked=st.booleans() if promises.checked_inserts else st.just(False),
        max_requests=st.sampled_from((3, 4, 2, 1)),
        max_len=st.sampled_from((None, None, None, 5, 11)),
        layers=st.sampled_from((1, 1, 2)),
        kv_heads=st.sampled_from((1, 1, 2)),
        dtype=st.sampled_from(get_args(DType)),
        layout=st.sampled_from(get_args(Layout)),
    )
