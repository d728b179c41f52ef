"""The oracle's tree as data: nested nodes to show, and a digest to compare."""

from __future__ import annotations

import hashlib

import msgspec

from kvref.listener import AnyOracle
from kvref.naive_oracle import NaiveOracle
from kvref.oracle import Oracle, Page
from kvref.requests.oracle import RequestOracle

__all__ = ["TreeNode", "cache_of", "digest", "tree"]


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node, with those below it.

    Fields:
        tokens, slots: the node's own.
        locks: outstanding locks that cover the node; `own_locks` of the prefix that ends here.
        recency, created: logical times.
        evictable: an unlocked leaf, which the next eviction may take.
    """

    namespace: str | None
    tokens: tuple[int, ...]
    slots: tuple[int, ...]
    locks: int
    own_locks: int
    recency: int
    created: int
    evictable: bool
    children: tuple[TreeNode, ...] = ()


def cache_of(oracle: AnyOracle) -> Oracle | NaiveOracle:
    """The oracle of the manager."""
    return oracle.cache if isinstance(oracle, RequestOracle) else oracle


def tree(oracle: Oracle | NaiveOracle) -> tuple[TreeNode, ...]:
    """The nodes below the roots, each with its children, in the order of their creation."""
    runs: dict[Page, list[Page]] = {}  # the pages of a node, by its last page
    open_runs: dict[Page, list[Page]] = {}  # those that did not come to their end yet
    below: dict[Page | None, list[Page]] = {}  # the last pages of nodes, by that of the parent
    for page in oracle.pages():  # a parent stands before its children
        run = open_runs.pop(page.parent, None) if page.parent is not None else None
        run = [] if run is None else run
        run.append(page)
        if not page.node_ends:
            open_runs[page] = run
            continue
        runs[page] = run
        above = run[0].parent
        below.setdefault(above if above is not None and above.depth else None, []).append(page)
    made: dict[Page, TreeNode] = {}
    # From the deepest up: prompts of thousands of nodes in a row allow no recursion.
    for last, run in sorted(runs.items(), key=lambda item: -item[0].depth):
        made[last] = TreeNode(
            namespace=last.namespace,
            tokens=tuple(token for page in run for token in page.tokens),
            slots=tuple(slot for page in run for slot in page.slots),
            locks=last.locks,
            own_locks=last.own_locks,
            recency=last.recency,
            created=last.created,
            evictable=last.locks == 0 and last.children == 0,
            children=tuple(made[child] for child in below.get(last, ())),
        )
    return tuple(made[last] for last in below.get(None, ()))


def digest(oracle: AnyOracle) -> str:
    """Sixteen hexadecimal digits that differ where two states do, times and locks included.

    Of requests their lengths count, and not their rows: which pages they got is no law.
    """
    numbers: dict[Page | None, int] = {}
    state: list[object] = []
    for number, page in enumerate(cache_of(oracle).pages()):
        numbers[page] = number
        state.append(
            (
                numbers.get(page.parent, -1), page.namespace, page.tokens, page.slots,
                page.locks, page.own_locks, page.recency, page.created, page.node_ends,
            )
        )  # fmt: skip
    if isinstance(oracle, RequestOracle):
        state += [
            (each.number, each.tokens, each.cached_len, each.stored_len, len(each.row))
            for each in oracle.running()
        ]
    return hashlib.blake2b(msgspec.json.encode(state), digest_size=8).hexdigest()
