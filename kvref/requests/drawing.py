"""What programs of requests are drawn from: configurations, prompts that share prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar, get_args

from kvref.configuration import Policy
from kvref.operations import Carried
from kvref.requests.configuration import DType, Layout, RequestConfiguration
from kvref.requests.promises import RequestPromises

__all__ = ["Prompts", "draw_configuration"]

_T = TypeVar("_T")

# Three tokens meet often. The others are alike in their lower 32 bits, or extreme.
_ALPHABETS = ((0, 1, 2), (0, 1, 2), (0, 1), (7, 7 + 2**32, -1), (0, -(2**31), 2**31 - 1, 2**63 - 1))


def draw_configuration(random: Random, promises: RequestPromises) -> RequestConfiguration:
    """A configuration that the target can be built with: mostly small, sometimes large."""
    sizes = promises.page_sizes or (1, 1, 1, 2, 2, 3, 4, 5, 16)
    large = random.random() < 0.1
    policies: tuple[Policy, ...] = promises.policies
    page_size = random.choice(sizes)
    num_pages = random.randint(40, 100) if large else random.randint(2, 12)
    num_slots = page_size * num_pages
    return RequestConfiguration(
        page_size=page_size,
        num_pages=num_pages,
        policy=random.choice(policies),
        checked=promises.checked_inserts and random.random() < 0.7,
        max_requests=random.randint(1, 4) + 4 * large,
        max_len=None if random.random() < 0.7 else random.randint(1 + num_slots // 2, num_slots),
        layers=random.choice((1, 1, 1, 1, 2)),
        kv_heads=random.choice((1, 1, 2)),
        head_dim=random.choice((8, 8, 12)),
        dtype=random.choice(get_args(DType)),
        layout=random.choice(get_args(Layout)),
    )


class Prompts:
    """Tokens that meet often.

    Args:
        size: of a page.
        reach: pages of a prompt, about.
        most: tokens of a prompt.
    """

    def __init__(self, random: Random, size: int, reach: int, most: int) -> None:
        self._random = random
        self._draw = random.random
        self._size = size
        self._reach = reach
        self._longest = min((reach + 1) * size, most)
        alphabet = random.choice(_ALPHABETS)
        # Tails are cut from it, which costs less than to draw each token.
        self._letters = tuple(random.choices(alphabet, k=4 * (reach + 1) * size))
        self._carried: tuple[Carried, ...] = ("int64", "int64", "int64-strided")
        if max(map(abs, alphabet)) < 2**31:
            self._carried += ("int32", "int32-strided")
        self._prompts: list[tuple[int, ...]] = [()]

    # Cheaper than `Random.randrange` and `choice`, and exact enough for choosing among a few.

    def _below(self, limit: int) -> int:
        """From 0 to `limit` - 1."""
        return int(self._draw() * limit)

    def _choice(self, options: Sequence[_T]) -> _T:
        return options[int(self._draw() * len(options))]

    def _tail(self, count: int) -> tuple[int, ...]:
        """So many tokens."""
        if count > len(self._letters):
            return tuple(self._random.choices(self._letters, k=count))
        start = self._below(len(self._letters) - count + 1)
        return self._letters[start : start + count]

    def _tokens(self) -> tuple[int, ...]:
        """A new prompt: mostly an earlier one, cut near a page boundary and extended."""
        random, size = self._random, self._size
        earlier = self._choice(self._prompts[-12:])
        kept = len(earlier) if random.random() < 0.5 else self._below(len(earlier) + 1)
        if random.random() < 0.5:
            kept -= kept % size
        added = self._below(self._reach + 1) * size + self._choice((0, 0, 1, 1, size - 1))
        if random.random() < 0.3:
            added = self._below(2)
        tokens = (earlier[:kept] + self._tail(added))[: self._longest] or self._tail(1)
        self._prompts.append(tokens)
        return tokens
