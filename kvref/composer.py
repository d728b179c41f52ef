"""Makes up random programs that are telling: sequences that share prefixes, and a tight pool.

The composer looks at the oracle, so that most of what it issues is right (slots that are really
free, locks that are really outstanding) and what is wrong is wrong on purpose. Every decision
is a draw from one `Random`: the same seed and the same target give the same program.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from typing import TypeVar

from kvref.configuration import Configuration, Policy
from kvref.judge import Judge
from kvref.naive_oracle import NaiveOracle
from kvref.operations import (
    FOREIGN,
    NOT_A_HANDLE,
    Carried,
    Evict,
    Insert,
    Lock,
    Match,
    Operation,
    Reset,
    Unlock,
)
from kvref.oracle import Oracle
from kvref.promises import Promises

__all__ = ["Composer", "drain", "draw_configuration", "fresh_pages", "slots_for"]

_T = TypeVar("_T")

# Three tokens meet often. The others are alike in their lower 32 bits, or extreme.
_ALPHABETS = ((0, 1, 2), (0, 1, 2), (0, 1), (7, 7 + 2**32, -1), (0, -(2**31), 2**31 - 1, 2**63 - 1))
_NAMESPACES: tuple[tuple[str | None, ...], ...] = ((None,), (None,), (None, "", "a"), ("a", "b"))
_WEIGHTS = {
    "insert": 12, "insert_duplicate": 4, "match": 8, "match_and_lock": 10, "lock_earlier": 4,
    "unlock": 12, "unlock_earlier": 1, "evict_some": 6, "evict_exactly": 1, "evict_nothing": 1,
    "evict_too_much": 1, "reset": 1, "misuse": 1, "wrong_slots": 2,
}  # fmt: skip


def draw_configuration(random: Random, promises: Promises) -> Configuration:
    """A configuration that the target can be built with: mostly small, sometimes large."""
    sizes = promises.page_sizes or (1, 1, 1, 2, 2, 3, 4, 5, 16)
    # A large one costs half as much again an operation, and earns it: with 4 in 100 the planted
    # faults that are hardest to find take 15 % more operations.
    large = random.random() < 0.1
    policies: tuple[Policy, ...] = promises.policies
    return Configuration(
        page_size=random.choice(sizes),
        num_pages=random.randint(50, 200) if large else random.randint(3, 14),
        policy=random.choice(policies),
        checked=promises.checked_inserts and random.random() < 0.7,
    )


class Composer:
    """The source of one random program, for one judge.

    Attributes:
        length: how many operations the program should have before its end.
    """

    def __init__(self, random: Random, judge: Judge) -> None:
        self._draw = random.random
        self._judge = judge
        self._configuration = configuration = judge.configuration
        pages = judge.configuration.num_pages
        # Shorter ones cost more an operation, for what each run looks at, and find no more.
        self.length = random.randint(40, 160) if pages < 50 else random.randint(200, 500)
        # Pages of a sequence. Long ones cost time and find nothing that short ones do not.
        longest = max(3, min(pages // 2, 24, 48 // judge.configuration.page_size))
        self._reach = random.randint(2, longest)
        alphabet = random.choice(_ALPHABETS)
        # Tails are cut from it, which costs less than to draw each token.
        self._letters = tuple(random.choices(alphabet, k=4 * self._reach * configuration.page_size))
        spaces = random.choice(_NAMESPACES)
        self._namespaces = spaces if judge.promises.namespaces else (None,)
        carried: tuple[Carried, ...] = ("int64", "int64", "int64-strided")
        if max(map(abs, alphabet)) < 2**31:
            carried += ("int32", "int32-strided")
        # One draw for both: where a sequence goes, and how it travels.
        self._ways = tuple(product(self._namespaces, carried))
        self._sequences: deque[tuple[int, ...]] = deque([()], maxlen=12)
        self._matches: list[int] = []
        self._queued: list[Operation] = []
        # Swarm testing: each program leaves some rules out and overdoes others.
        self._rules: list[Callable[[], Operation]] = []  # each as often as its weight says
        for name, weight in _WEIGHTS.items():
            always = name in ("insert", "match", "match_and_lock")
            share = weight * self._choice((1, 1, 3) if always else (0, 1, 1, 3))
            self._rules += [getattr(self, f"_{name}")] * share

    def program(self) -> Iterator[Operation]:
        """Operations, each to be applied at once; `drain` makes the end of the run."""
        operations, queued, rules, draw = (
            self._judge.operations, self._queued, self._rules, self._draw,
        )  # fmt: skip
        while len(operations) < self.length or queued:
            yield queued.pop() if queued else rules[int(draw() * len(rules))]()

    # Cheaper than `Random.randrange` and `choice`, and exact enough for choosing among a few.

    def _below(self, limit: int) -> int:
        """From 0 to `limit` - 1."""
        return int(self._draw() * limit)

    def _choice(self, options: Sequence[_T]) -> _T:
        return options[int(self._draw() * len(options))]

    # ------------------------------------------------------------------------- sequences

    def _tokens(self) -> tuple[int, ...]:
        """A new sequence: mostly an earlier one, cut near a page boundary and extended."""
        draw, size = self._draw, self._configuration.page_size
        tokens = self._choice(self._sequences)
        if draw() < 0.5:
            tokens = tokens[: int(draw() * (len(tokens) + 1))]
        if size > 1 and draw() < 0.5:
            tokens = tokens[: len(tokens) - len(tokens) % size]
        if draw() >= 0.3:
            added = int(draw() * (self._reach + 1)) * size
            part = draw()  # of a page on top: mostly none
            if part < 0.4:
                added += 1 if part < 0.2 else size - 1
            start = int(draw() * (len(self._letters) - added))
            tokens += self._letters[start : start + added]
            tokens = tokens[: self._reach * 2 * size]
        self._sequences.append(tokens)
        return tokens

    def _known(self) -> tuple[int, ...]:
        return self._choice(self._sequences)

    def _namespace(self) -> str | None:
        return self._choice(self._namespaces)

    # ----------------------------------------------------------------------------- rules

    def _match(self) -> Match:
        tokens = self._known() if self._draw() < 0.6 else self._tokens()
        self._matches.append(len(self._judge.operations))
        return Match(tokens, *self._choice(self._ways))

    def _match_and_lock(self) -> Match:
        match = self._match()
        self._queued.append(Lock(self._matches[-1]))
        return match

    def _insert(self, reuse: Callable[[], bool] | None = None) -> Insert:
        namespace, carried = self._choice(self._ways)
        tokens, slots = slots_for(
            self._judge.oracle, self._configuration, self._tokens(), namespace, self._below, reuse
        )
        return Insert(tokens, slots, namespace, carried)

    def _insert_duplicate(self) -> Insert:
        share, draw = self._choice((0.0, 0.5)), self._draw
        return self._insert(lambda: draw() < share)

    def _lock_earlier(self) -> Operation:
        """May be stale: the match was held over whatever came since."""
        return Lock(self._choice(self._matches[-20:])) if self._matches else self._match()

    def _unlock(self) -> Operation:
        locked = self._judge.outstanding()
        return Unlock(self._choice(locked)) if locked else self._match_and_lock()

    def _unlock_earlier(self) -> Operation:
        """Often not locked at that prefix, or stale."""
        return Unlock(self._choice(self._matches[-20:])) if self._matches else self._match()

    def _evict_some(self) -> Evict:
        most = self._judge.oracle.evictable_size
        some = 1 + self._below(3 * self._configuration.page_size)
        return Evict(min(some, most))

    def _evict_exactly(self) -> Evict:
        return Evict(self._judge.oracle.evictable_size)

    def _evict_nothing(self) -> Evict:
        return Evict(0)

    def _evict_too_much(self) -> Evict:
        return Evict(self._judge.oracle.evictable_size + self._choice((1, 1, 1000)))

    def _reset(self) -> Reset:
        return Reset()

    def _misuse(self) -> Operation:
        tokens = self._known()
        wrong: tuple[Operation, ...] = (
            Evict(-1), Evict(True), Evict(1.0), Evict(None),
            Lock(FOREIGN), Unlock(FOREIGN), Lock(NOT_A_HANDLE), Unlock(NOT_A_HANDLE),
            Insert(tokens, (0,) * (len(tokens) + 1), self._namespace()),
            Insert((*tokens, 0), (0,) * len(tokens), self._namespace()),
        )  # fmt: skip
        return self._choice(wrong)

    def _wrong_slots(self) -> Insert:
        """In checked mode: one page of the slots is not what the cache can take."""
        size = self._configuration.page_size
        draw = self._draw
        right = self._insert(lambda: draw() < 0.7)
        pages = len(right.slots) // size
        if not self._configuration.checked or pages == 0:
            return right
        slots = list(right.slots)
        at = self._below(pages) * size
        other = self._below(pages) * size
        wrong: list[int]
        match self._below(5):
            case 0:
                wrong = slots[other : other + size]  # twice, or the cache's of another position
            case 1:
                wrong = [self._configuration.num_slots + i for i in range(size)]
            case 2:
                wrong = [i - size for i in range(size)]
            case 3:
                wrong = slots[at + 1 : at + size] + slots[at : at + 1]  # rotated within the page
            case _:
                first = self._below(self._configuration.num_pages) * size
                wrong = [first + i for i in range(size)]
        slots[at : at + size] = wrong
        return Insert(right.tokens, tuple(slots), right.namespace, right.carried)


def drain(judge: Judge) -> Iterator[Operation]:
    """The end of any run: all locks given back, then everything evicted."""
    for match in judge.outstanding():
        yield Unlock(match)
    yield Evict(judge.oracle.evictable_size)


def fresh_pages(
    oracle: Oracle | NaiveOracle,
    configuration: Configuration,
    wanted: int,
    below: Callable[[int], int],
) -> list[int]:
    """Up to `wanted` first slots of pages that the cache does not hold, in no useful order.

    `below(n)` draws from 0 .. n - 1.
    """
    if wanted == 0:
        return []
    held = oracle.held
    firsts = range(0, configuration.num_slots, configuration.page_size)
    free = [first for first in firsts if first not in held]
    count = len(free)
    if count == 0:
        return []
    at, stride = below(count), below(count) + 1
    while math.gcd(stride, count) > 1:
        stride += 1
    return [free[(at + i * stride) % count] for i in range(min(wanted, count))]


def slots_for(
    oracle: Oracle | NaiveOracle,
    configuration: Configuration,
    tokens: Sequence[int],
    namespace: str | None,
    below: Callable[[int], int],
    reuse: Callable[[], bool] | None = None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Slots that an engine might insert `tokens` with, the tokens cut to what is free.

    Where a page is cached already, `reuse()` says whether it is named by the cache's own slots
    (it came from a match, as all of them do without a `reuse`) or by a page of the caller's (a
    duplicate). All else is fresh.
    """
    size = configuration.page_size
    firsts: list[int | None] = [*oracle.cached_slots(tokens, namespace)[::size]]
    if reuse is not None:
        firsts = [first if reuse() else None for first in firsts]
    firsts += [None] * (-(-len(tokens) // size) - len(firsts))
    fresh = fresh_pages(oracle, configuration, firsts.count(None), below)
    slots: list[int] = []
    for first in firsts:
        if first is None:
            if not fresh:
                break
            first = fresh.pop()
        slots += range(first, first + size)
    kept = min(len(slots), len(tokens))
    return tuple(tokens[:kept]), tuple(slots[:kept])
