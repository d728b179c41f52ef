"""Which choices of victims are legal, and that the oracle follows those that are."""

from __future__ import annotations

import pytest

from kvref.configuration import Configuration
from kvref.legal_eviction import follow
from kvref.oracle import Oracle
from tests.kvref.oracle_target import picture


def cache(granularity, page_size=1) -> Oracle:
    """Nodes 1, then 2 3 and 4 after it; 5, locked; each token at the slot of its number."""
    oracle = Oracle(Configuration(page_size=page_size, num_pages=32), granularity=granularity)
    for tokens in ([1, 2, 3], [1, 4], [5]):
        repeated = [token for token in tokens for _ in range(page_size)]
        places = [token * page_size + i for token in tokens for i in range(page_size)]
        oracle.insert_prefix(repeated, places)
    oracle.lock_handle(oracle.match_prefix([5] * page_size)[0])
    return oracle


def evicted(oracle) -> set[int]:
    return {1, 2, 3, 4, 5} - set(oracle._holder)


@pytest.mark.parametrize(
    ("granularity", "size", "victims", "words"),
    [
        ("node", 1, [4, 4], "a slot twice"),
        ("node", 1, [9], "a slot that the cache does not hold"),
        ("node", 1, [4, 9], "a slot that the cache does not hold"),
        ("node", 1, [5], "a locked page"),
        ("node", 1, [1], "a page whose continuation stays cached"),
        ("node", 1, [1, 4], "a page whose continuation stays cached"),
        ("page", 1, [2], "a page whose continuation stays cached"),
        ("any", 1, [2], "a page whose continuation stays cached"),
        ("node", 2, [4], "1 slots, fewer than the 2 asked for"),
        ("any", 2, [3], "1 slots, fewer than the 2 asked for"),
        ("node", 1, [], "0 slots, fewer than the 1 asked for"),
        ("node", 1, [3], "part of a node"),
        ("node", 1, [2, 3, 4], "3 slots, more than 1 needs"),
        ("node", 0, [4], "1 slots, more than 0 needs"),
        ("page", 1, [2, 3], "2 slots, more than 1 needs"),
        ("page", 1, [3, 4], "2 slots, more than 1 needs"),
        ("page", 0, [3], "1 slots, more than 0 needs"),
        ("node", 1, [1, 2, 3, 4], "4 slots, more than 1 needs"),
    ],
)
def test_an_illegal_choice_is_named_and_not_followed(granularity, size, victims, words):
    oracle = cache(granularity)
    before = picture(oracle)
    assert follow(oracle, size, victims) == words
    assert picture(oracle) == before


def test_part_of_a_page_is_named():
    oracle = cache("any", page_size=2)
    assert follow(oracle, 1, [8]) == "part of a page"
    assert follow(oracle, 1, [8, 9]) is None


@pytest.mark.parametrize(
    ("granularity", "size", "victims"),
    [
        ("node", 0, []),
        ("page", 0, []),
        ("any", 0, []),
        ("node", 1, [4]),
        ("node", 1, [3, 2]),
        ("node", 2, [2, 3]),
        ("node", 2, [4, 2, 3]),  # 4 went first and was too little
        ("node", 3, [4, 3, 2]),
        ("node", 4, [1, 2, 3, 4]),
        ("page", 1, [3]),
        ("page", 2, [3, 2]),
        ("page", 2, [3, 4]),
        ("page", 4, [1, 2, 3, 4]),
        ("any", 1, [2, 3]),
        ("any", 0, [1, 2, 3, 4]),
    ],
)
def test_a_legal_choice_is_followed_whatever_its_order(granularity, size, victims):
    oracle = cache(granularity)
    assert follow(oracle, size, victims) is None
    assert evicted(oracle) == set(victims)
    oracle.recompute()


def test_a_node_cut_short_by_pages_ends_where_it_was_cut():
    oracle = cache("page")
    assert follow(oracle, 1, [3]) is None
    assert [view.prefix for view in oracle.nodes()] == [(1,), (1, 2), (1, 4), (5,)]
    assert follow(oracle, 1, [2]) is None


@pytest.mark.parametrize("size", [1, 2])
def test_a_whole_branch_counts_by_its_topmost_node(size):
    """Below each other, the deeper node had to go first: without the top one it was enough."""
    oracle = Oracle(Configuration(num_pages=8), granularity="node")
    oracle.insert_prefix([1], [1])
    oracle.insert_prefix([1, 2], [1, 2])
    problem = follow(oracle, size, [1, 2])
    assert problem == (None if size == 2 else "2 slots, more than 1 needs")
