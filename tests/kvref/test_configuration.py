"""Configurations: what a factory is called with."""

from __future__ import annotations

import pytest

from kvref.configuration import Configuration


def test_slots_are_pages_times_their_size():
    assert Configuration(page_size=3, num_pages=5).num_slots == 15


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-1, 4)])
def test_sizes_below_one_are_refused_with_the_numbers(sizes):
    page_size, num_pages = sizes
    with pytest.raises(ValueError, match=f"at least 1, got {page_size} and {num_pages}"):
        Configuration(page_size=page_size, num_pages=num_pages)


def test_it_prints_as_the_constructor_call():
    assert Configuration(page_size=2, num_pages=4, policy="fifo", checked=False).python() == (
        'cache = RadixCacheManager("cpu", page_size=2, num_slots=8, policy="fifo", checked=False)'
    )
