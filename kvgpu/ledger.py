"""Recounts who owns each page, and whether rows and locks are as the requests say.

The cache itself was found whole before. Of all else nothing is trusted, and nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kvgpu.errors import LedgerError
from kvgpu.radix_node import IntArray, Node, Root
from kvgpu.request import Request, RequestState
from kvgpu.request_steps import RequestSteps

__all__ = ["check"]

REQUEST_ENDED = "request-ended"
REQUEST_LENGTHS = "request-lengths"
ROW_MISPLACED = "row-misplaced"
PAGE_OUT_OF_RANGE = "page-out-of-range"
PAGE_OWNED_TWICE = "page-owned-twice"
PAGE_LOST = "page-lost"
PREFIX_NOT_CACHED = "prefix-not-cached"
ROW_NOT_THE_CACHE_S = "row-not-the-cache-s"
LOCK_MISSING = "lock-missing"
LOCK_LEFT_OVER = "lock-left-over"

_SHOWN = 8


def check(steps: RequestSteps) -> None:
    """Raise a LedgerError for the first damage found. The caller holds the mutex."""
    _Inspection(steps).run()


class _Inspection:
    """One pass over all that owns pages."""

    def __init__(self, steps: RequestSteps) -> None:
        self.steps = steps
        self.running = steps.running
        self.nodes = set(steps.core.nodes())

    def run(self) -> None:
        """All checks, each of which may rely on those before it."""
        for row, request in self.running.items():
            self.check_lengths(row, request)
        self.check_rows()
        self.check_pages()
        for request in self.running.values():
            self.check_prefix(request)
        self.check_locks()

    def check_lengths(self, row: int, request: Request) -> None:
        """What a request says of itself is possible."""
        if request.state is not RequestState.RUNNING:
            raise LedgerError(REQUEST_ENDED, (), f"{request} in row {row}")
        lengths = (request.cached_len, request.stored_len, request.extended_len)
        if not (
            0 <= lengths[0] <= lengths[1] <= lengths[2] <= self.steps.max_len
            and lengths[0] % self.steps.page_size == 0
            and lengths[0] <= request.known_len <= len(request.tokens)
        ):
            raise LedgerError(REQUEST_LENGTHS, (), f"{request} in row {row}")
        if request.row != row:
            raise LedgerError(ROW_MISPLACED, (), f"{request} in row {row} says {request.row}")

    def check_rows(self) -> None:
        """Each row is free, or one request's."""
        table = self.steps.page_table
        rows = sorted([*table.free_rows, *self.running])
        if rows != list(range(table.max_requests)):
            details = f"free {sorted(table.free_rows)}, in use {sorted(self.running)}"
            raise LedgerError(ROW_MISPLACED, (), details)

    def check_pages(self) -> None:
        """Each page has one owner."""
        num_pages = self.steps.allocator.num_pages
        owners: list[list[str]] = [[] for _ in range(num_pages)]
        for owner, pages in self.owners():
            for page in pages.tolist():
                if not 0 <= page < num_pages:
                    details = f"page {page} of {owner}, outside 0..{num_pages - 1}"
                    raise LedgerError(PAGE_OUT_OF_RANGE, (page,), details)
                owners[page].append(owner)
        twice = [page for page, names in enumerate(owners) if len(names) > 1]
        if twice:
            details = "; ".join(f"page {p}: {', '.join(owners[p])}" for p in twice[:_SHOWN])
            raise LedgerError(PAGE_OWNED_TWICE, twice, details)
        lost = [page for page, names in enumerate(owners) if not names]
        if lost:
            details = f"{len(lost)} of nobody: {', '.join(map(str, lost[:_SHOWN]))}"
            raise LedgerError(PAGE_LOST, lost, details)

    def owners(self) -> Iterable[tuple[str, IntArray]]:
        """Everything that owns pages, by name."""
        yield "free", self.steps.allocator.free_pages
        for node in self.nodes:
            yield "cached", node.pages
        for row, request in self.running.items():
            own = self.steps.own_pages(request, request.cached_len, request.extended_len)
            yield f"row {row}", own

    def check_prefix(self, request: Request) -> None:
        """The cached part of a row is the cache's, of these tokens in this namespace."""
        node = request.node
        if node is None and request.cached_len == 0:
            return
        if node is None or node not in self.nodes or node.end != request.cached_len:
            details = f"row {request.row}, {request}: its prefix is not in the cache"
            raise LedgerError(PREFIX_NOT_CACHED, (), details)
        path: list[Node] = []
        while node.parent is not None:
            path.append(node)
            node = node.parent
        path.reverse()
        key = b"".join(step.key for step in path)
        namespace = node.namespace if isinstance(node, Root) else None
        if namespace != request.namespace or key != request.tokens[: request.cached_len].tobytes():
            details = f"row {request.row}, {request}: what is cached there is of other tokens"
            raise LedgerError(PREFIX_NOT_CACHED, (), details)
        pages = np.concatenate([step.pages for step in path])
        row = self.steps.own_pages(request, 0, request.cached_len)
        wrong = row[row != pages].tolist()
        if wrong:
            details = f"row {request.row} names {wrong[:_SHOWN]} for pages of its cached prefix"
            raise LedgerError(ROW_NOT_THE_CACHE_S, wrong, details)

    def check_locks(self) -> None:
        """A node is locked as often as requests name it."""
        named = Counter(request.node for request in self.running.values() if request.node)
        for node in self.nodes:
            locks, count = node.own_locks, named[node]
            if locks != count:
                damage = LOCK_MISSING if locks < count else LOCK_LEFT_OVER
                details = (
                    f"a prefix of {node.end} tokens has {locks} locks, and {count} requests use it"
                )
                raise LedgerError(damage, (), details)
