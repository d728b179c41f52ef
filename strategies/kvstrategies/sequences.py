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
        cut: how many of its pages to leave out at the end, as long as one is left.
        pages, extra: how many pages to add, and how many tokens more or less than that.
        content: what to add: the digits of a number, to the base of the alphabet's size.
        space: which of the run's namespaces.
    """

    base: int
    cut: int
    pages: int
    extra: int
    content: int
    space: int

    def cook(
        self, earlier: Sequence[tuple[int, ...]], alphabet: Sequence[int], page_size: int
    ) -> tuple[int, ...]:
        """The sequence; `earlier` may be empty."""
        base: tuple[int, ...] = ()
        if self.base and earlier:
            base = earlier[-1 - (self.base - 1) % len(earlier)]
        # Cut down to the first page at most: an empty sequence meets nothing.
        kept = base[: max(page_size, len(base) - self.cut * page_size)]
        added = self.pages * page_size + self.extra
        if added < 0:
            return kept[:added]
        letters = len(alphabet)
        digits = (self.content // letters**i % letters for i in range(added))
        return kept + tuple(alphabet[digit] for digit in digits)


def recipes(*, pages: Sequence[int] = (1, 2, 3, 1, 0)) -> st.SearchStrategy[Recipe]:
    """Recipes that cut an earlier sequence and add one of `pages` pages to it, or repeat it."""
    return st.builds(
        Recipe,
        base=st.sampled_from((1, 2, 3, 4, 0)),
        cut=st.sampled_from((0, 0, 1, 2)),
        pages=st.sampled_from(tuple(pages)),
        extra=st.sampled_from((0, 0, 0, 1, -1)),
        content=st.integers(0, 3**9 - 1),
        space=st.integers(0, 2),
    )


@st.composite
def token_sequences(
    draw: st.DrawFn, *, page_size: int = 1, count: int = 4, max_pages: int = 4
) -> list[tuple[int, ...]]:
    """`count` sequences that extend or cut each other, for tests of one's own.

    Lengths lie around multiples of `page_size`.
    """
    alphabet = draw(st.sampled_from(ALPHABETS))
    made: list[tuple[int, ...]] = []
    for _ in range(count):
        made.append(draw(recipes(pages=range(max_pages + 1))).cook(made, alphabet, page_size))
    return made
