"""Sequences that meet: without shared prefixes a prefix cache does nothing."""

from __future__ import annotations

from itertools import pairwise, takewhile

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from kvref.promises import Promises
from kvstrategies import Recipe, configurations, recipes, token_sequences
from kvstrategies.sequences import ALPHABETS


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(one, other, strict=False)))


def drawn(strategy: st.SearchStrategy, count: int = 100) -> list:
    """The same values in each run, so that shares of them can be asserted."""
    values = []

    @settings(
        max_examples=count, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def collect(value: object) -> None:
        values.append(value)

    collect()
    return values


class TestRecipes:
    @pytest.mark.parametrize(
        ("recipe", "sequence"),
        [
            (Recipe(0, 0, pages=1, extra=0, content=3, space=0), (7, 8)),
            (Recipe(1, 0, pages=0, extra=0, content=0, space=0), (2, 2, 2, 2)),
            (Recipe(2, 0, pages=0, extra=1, content=1, space=0), (1, 1, 1, 8)),
            (Recipe(1, 1, pages=1, extra=-1, content=2, space=0), (2, 2, 9)),
            (Recipe(1, 99, pages=0, extra=0, content=0, space=0), (2, 2)),  # one page is left
            (Recipe(3, 0, pages=0, extra=0, content=0, space=0), (2, 2, 2, 2)),  # around again
            (Recipe(1, 0, pages=0, extra=-1, content=0, space=0), (2, 2, 2)),
        ],
    )
    def test_a_base_is_cut_and_extended(self, recipe, sequence):
        assert recipe.cook([(1, 1, 1), (2, 2, 2, 2)], (7, 8, 9), page_size=2) == sequence

    def test_where_nothing_came_before_it_is_what_is_added(self):
        recipe = Recipe(4, 2, pages=1, extra=0, content=2, space=0)
        assert recipe.cook([], (7, 8), page_size=2) == (7, 8)

    @given(recipes(pages=(0, 3)))
    def test_what_is_added_has_its_limit(self, recipe):
        assert recipe.pages in (0, 3)
        assert len(recipe.cook([], (7,), page_size=2)) <= 7


class TestTokenSequences:
    @given(st.integers(1, 4), st.data())
    def test_lengths_and_tokens_are_as_promised(self, size, data):
        sequences = data.draw(token_sequences(page_size=size, count=5, max_pages=3))
        assert len(sequences) == 5
        assert max(map(len, sequences)) <= 5 * (3 * size + 1)
        tokens = {token for sequence in sequences for token in sequence}
        assert any(tokens <= set(alphabet) for alphabet in ALPHABETS)

    def test_they_often_share_prefixes(self):
        pairs = [
            pair
            for sequences in drawn(token_sequences(page_size=2))
            for pair in pairwise(sequences)
        ]
        meeting = [pair for pair in pairs if shared(*pair) >= 2]
        assert len(meeting) > len(pairs) / 5

    @pytest.mark.parametrize("size", [2, 3, 4])
    def test_whole_pages_and_one_token_more_or_less_are_all_common(self, size):
        firsts = [sequences[0] for sequences in drawn(token_sequences(page_size=size))]
        for beyond in (0, 1, size - 1):
            assert sum(len(first) % size == beyond for first in firsts) > 5

    @pytest.mark.parametrize(
        "wanted",
        [
            lambda one, other: one and one == other,
            lambda one, other: (
                0 < len(one) < len(other) == len(other[: len(one)] + other[len(one) :])
                and other[: len(one)] == one
            ),
            lambda one, other: 0 < len(other) < len(one) and one[: len(other)] == other,
            lambda one, other: 0 < shared(one, other) < min(len(one), len(other)),
        ],
        ids=["equal", "extended", "cut", "branched off"],
    )
    def test_each_way_to_meet_can_be_drawn(self, wanted):
        one, other = find(
            token_sequences(page_size=2, count=2), lambda both: wanted(*both),
            settings=settings(database=None, max_examples=2000, phases=[Phase.generate]),
        )  # fmt: skip
        assert wanted(one, other)


class TestConfigurations:
    def test_all_that_the_contract_allows_and_small(self):
        found = drawn(configurations(max_pages=5))
        assert {each.page_size for each in found} == {1, 2, 3, 4}
        assert {each.policy for each in found} == {"lru", "fifo"}
        assert {each.checked for each in found} == {True, False}
        assert {each.num_pages for each in found} == {4, 5}

    @given(configurations(Promises(page_sizes=(16,), policies=("fifo",), checked_inserts=False)))
    def test_nothing_that_is_not_promised(self, configuration):
        assert (configuration.page_size, configuration.policy) == (16, "fifo")
        assert not configuration.checked
