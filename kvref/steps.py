"""A run step by step, as data: what was asked, what was said, and what the cache looked like.

A terminal, a page or a test shows it; nothing here is about how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from kvref.answers import Answer
from kvref.divergence import Divergence
from kvref.listener import AnyOracle, answer_in_words, expected_in_words
from kvref.machine import Bench, Program
from kvref.refusals import Refusal
from kvref.requests.executor import RequestAnswer
from kvref.requests.oracle import RequestOracle
from kvref.tree import TreeNode, cache_of, tree

__all__ = ["Change", "PoolPage", "Step", "walk"]

_LARGE = 4096
_Key = tuple[str | None, tuple[int, ...]]


class PoolPage(msgspec.Struct, frozen=True):
    """One page of the pool: whose it is ("free", "cached", "request r3"), and what it holds."""

    number: int
    owner: str
    tokens: tuple[int, ...] = ()
    locks: int = 0


class Change(msgspec.Struct, frozen=True):
    """One node that the operation changed: `before` and `after` are lock counts, or times."""

    what: Literal["cached", "evicted", "split", "locks", "used"]
    namespace: str | None
    prefix: tuple[int, ...]
    before: int | None = None
    after: int | None = None


class Step(msgspec.Struct, kw_only=True):
    """One operation, and the oracle's cache after it.

    Fields:
        operation: as JSON has it; `call` as Python.
        status: "skipped" if it was not issued, for this target does not promise it.
        expected, got: in words; None where there is nothing to say.
        evictable_size, protected_size: in slots.
        tree: the nodes below the roots, with those below them.
        pool: every page by its number; in a large pool those that are cached alone.
        changed: what is not as before.
        divergence: the difference, if it is here.
    """

    index: int
    operation: Any
    call: str
    status: Literal["accepted", "refused", "skipped"]
    expected: str | None
    got: str | None
    evictable_size: int
    protected_size: int
    tree: tuple[TreeNode, ...]
    pool: tuple[PoolPage, ...]
    changed: tuple[Change, ...]
    divergence: Divergence | None = None


def walk(
    bench: Bench, program: Program, each: Callable[[Step], None], *, since: int = 0
) -> Divergence | None:
    """Run the program and hand over each step, the one with the difference last.

    Of those before `since` no step is made, which costs more than judging them; at the first one
    everything has changed.
    """
    listener = _Listener(program.configuration, each, since)
    divergence = bench.run(program, listener)
    listener.flush(divergence)
    return divergence


class _Listener:
    """Makes the steps; each waits for the next, since a difference shows after its operation."""

    def __init__(self, configuration: Any, each: Callable[[Step], None], since: int) -> None:
        self._configuration, self._each, self._since = configuration, each, since
        self._last: Step | None = None
        self._operation: Any = None
        self._expected: Any = None
        self._got: str | None = None
        self._nodes: dict[_Key, TreeNode] = {}

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        self._operation, self._expected, self._got = operation, expected, None

    def answers(self, index: int, answer: Answer | RequestAnswer) -> None:
        self._got = answer_in_words(self._operation, answer)

    def ends(self, index: int, oracle: AnyOracle) -> None:
        refused = isinstance(self._expected, Refusal)
        expected = expected_in_words(self._operation, self._expected)
        self._step(index, oracle, "refused" if refused else "accepted", expected, self._got)

    def skips(self, index: int, operation: Any, oracle: AnyOracle) -> None:
        self._operation = operation
        self._step(index, oracle, "skipped", None, None)

    def flush(self, divergence: Divergence | None) -> None:
        if self._last is not None:
            self._last.divergence = divergence
            self._each(self._last)

    def _step(
        self,
        index: int,
        oracle: AnyOracle,
        status: Literal["accepted", "refused", "skipped"],
        expected: str | None,
        got: str | None,
    ) -> None:
        if index < self._since:
            return
        self.flush(None)
        cache = cache_of(oracle)
        roots = tree(cache)
        nodes = dict(_flat(roots))
        self._last = Step(
            index=index,
            operation=msgspec.to_builtins(self._operation),
            call=self._operation.python(index),
            status=status,
            expected=expected,
            got=got,
            evictable_size=cache.evictable_size,
            protected_size=cache.protected_size,
            tree=roots,
            pool=_pool(oracle, self._configuration.num_pages),
            changed=tuple(_changes(self._nodes, nodes)),
        )
        self._nodes = nodes


def _flat(roots: tuple[TreeNode, ...]) -> Iterator[tuple[_Key, TreeNode]]:
    """Every node by its namespace and its whole prefix."""
    waiting: list[tuple[tuple[int, ...], TreeNode]] = [((), node) for node in roots]
    while waiting:
        above, node = waiting.pop()
        prefix = above + node.tokens
        yield (node.namespace, prefix), node
        waiting += [(prefix, child) for child in node.children]


def _pool(oracle: AnyOracle, num_pages: int) -> tuple[PoolPage, ...]:
    cache = cache_of(oracle)
    size = cache.page_size
    held = {
        page.slots[0] // size: PoolPage(page.slots[0] // size, "cached", page.tokens, page.locks)
        for page in cache.pages()
    }
    if isinstance(oracle, RequestOracle):
        for request in oracle.running():
            for start in range(request.cached_len, len(request.row), size):
                number = request.row[start] // size
                tokens = tuple(request.tokens[start : start + size])
                held[number] = PoolPage(number, f"request r{request.number}", tokens)
    numbers = sorted({*range(num_pages), *held} if num_pages <= _LARGE else held)
    return tuple(held.get(number) or PoolPage(number, "free") for number in numbers)


def _changes(before: dict[_Key, TreeNode], after: dict[_Key, TreeNode]) -> Iterator[Change]:
    for (namespace, prefix), node in after.items():
        old = before.get((namespace, prefix))
        if old is None:
            inside = any(
                namespace == space and longer[: len(prefix)] == prefix for space, longer in before
            )
            yield Change("split" if inside else "cached", namespace, prefix, None, node.locks)
            continue
        if old.locks != node.locks:
            yield Change("locks", namespace, prefix, old.locks, node.locks)
        if old.recency != node.recency:
            yield Change("used", namespace, prefix, old.recency, node.recency)
    for (namespace, prefix), node in before.items():
        if (namespace, prefix) not in after:
            yield Change("evicted", namespace, prefix, node.locks, None)
