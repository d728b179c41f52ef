"""What a watcher of whole requests notes before an operation, and remembers of a run."""

from __future__ import annotations

from kvref.oracle import Oracle
from kvref.requests.operations import Begin
from kvref.requests.oracle import Request, RequestOracle

__all__ = ["Before", "RequestMemory"]


class RequestMemory:
    """Of one run.

    Attributes:
        prompts: the length of the prompt of each request that runs.
        preempted: prompts of requests that were preempted.
        stored_by: whose K and V were last stored on a page.
        spaces: the namespaces of requests.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.prompts: dict[int, int] = {}
        self.preempted: set[tuple[int, ...]] = set()
        self.stored_by: dict[int, int] = {}
        self.spaces: set[str | None] = set()


class Before:
    """What was so before an operation: the oracle is asked before it answers."""

    def __init__(self, oracle: RequestOracle) -> None:
        cache = oracle.cache
        self.evictable, self.protected = cache.evictable_size, cache.protected_size
        self.free = oracle.ledger.num_free
        self.running = oracle.num_running
        # Of a request that runs:
        self.cached = self.stored = self.extended = self.known = 0
        self.row: list[int] = []
        self.whole = self.already = 0
        self.shared = False
        # Of one that begins:
        self.matched = 0
        self.own_evictable = 0
        self.all_cached = self.splits = self.hidden = self.equal = False

    def of_request(self, request: Request, page_size: int) -> None:
        """Note how far a request is, and whether others lock what it has locked."""
        self.cached, self.stored = request.cached_len, request.stored_len
        self.row = list(request.row)
        self.extended, self.known = len(self.row), len(request.tokens)
        self.whole = min(self.stored, self.known) // page_size * page_size
        page = request.handle.page
        self.shared = page is not None and page.locks > 1

    def of_insert(self, request: Request, oracle: RequestOracle) -> None:
        """Note how much of what it would publish is there."""
        tokens = request.tokens[: self.whole]
        self.already = len(oracle.cache.cached_slots(tokens, request.namespace))

    def of_begin(self, begin: Begin, oracle: RequestOracle, memory: RequestMemory) -> None:
        """Note what a request would find."""
        cache, tokens = oracle.cache, begin.tokens
        self.equal = any(
            request.namespace == begin.namespace and tuple(request.tokens[: len(tokens)]) == tokens
            for request in oracle.running()
        )
        if not isinstance(cache, Oracle) or not tokens:
            return
        slots = cache.cached_slots(tokens, begin.namespace)
        self.all_cached = len(slots) == len(tokens)
        size = memory.page_size
        slots = slots[: (len(tokens) - 1) // size * size]
        self.matched = len(slots)
        path = [cache.page_at(slot) for slot in slots[::size]]
        self.own_evictable = sum(page is not None and page.locks == 0 for page in path)
        end = path[-1] if path else None
        if end is not None:
            self.splits, self.shared = not end.node_ends, end.locks > 0
        elif len(tokens) > size:
            self.hidden = any(
                cache.cached_slots(tokens[:size], space)
                for space in memory.spaces
                if space != begin.namespace
            )
