"""Token sequences that share prefixes: what makes a prefix cache do anything at all.

A uniform generator never hits the cache. Here a sequence is a recipe: an earlier sequence of
the same run, cut somewhere, and a tail. Three tokens are enough, and meet often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

__all__ = ["ALPHABETS", "Recipe", "recipes", "token_sequences"]

ALPHABETS: tuple[tuple[int, ...], ...] = (
    (0, 1, 2),
    (7, 7 + 2**32, -1),  # the first two are alike in their lower 32 bits
    (0, -(2**63), 2**63 - 1),
)
"""Token ids; the last two sets do not fit int32."""


@dataclass(frozen=True)
class Recipe:
    """How to make a sequence of those that came before it in the run.

    Fields:
        base: which earlier sequence, counted from the latest; 0 is the empty one.
        cut: how many of its tokens to leave out at the end.
        tail: what follows, as indices into the run's alphabet.
        space: which of the run's namespaces.
    """

    base: int
    cut: int
    tail: tuple[int, ...]
    space: int

    def cook(self, earlier: Sequence[tuple[int, ...]], alphabet: Sequence[int]) -> tuple[int, ...]:
        """The sequence; `earlier` may be empty."""
        base: tuple[int, ...] = ()
        if self.base and earlier:
            base = earlier[-1 - (self.base - 1) % len(earlier)]
        kept = base[: max(0, len(base) - self.cut)]
        return kept + tuple(alphabet[token % len(alphabet)] for token in self.tail)


def recipes(*, max_tail: int = 9) -> st.SearchStrategy[Recipe]:
    """Recipes whose tails cross page boundaries for page sizes up to 4."""
    return st.builds(
        Recipe,
        base=st.integers(0, 6),
        cut=st.sampled_from((0, 0, 1, 2, 3, 4, 8)),
        tail=st.lists(st.integers(0, 2), max_size=max_tail).map(tuple),
        space=st.integers(0, 2),
    )


@st.composite
def token_sequences(
    draw: st.DrawFn, *, page_size: int = 1, count: int = 4, max_pages: int = 4
) -> list[tuple[int, ...]]:
    """`count` sequences that extend or cut each other, for tests of one's own.

    Lengths lie around multiples of `page_size`, up to `2 * max_pages` pages.
    """
    alphabet = draw(st.sampled_from(ALPHABETS))
    made: list[tuple[int, ...]] = []
    for _ in range(count):
        pages = draw(st.integers(0, max_pages))
        length = max(0, pages * page_size + draw(st.sampled_from((0, 0, 1, -1))))
        tail = draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
        base = draw(st.integers(0, len(made)))
        cut = draw(st.integers(0, max_pages * page_size))
        recipe = Recipe(base, cut, tuple(tail), 0)
        made.append(recipe.cook(made, alphabet)[: 2 * max_pages * page_size])
    return made
