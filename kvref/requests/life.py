"""The reference life: the contract's life of a request over any bare manager.

It puts a manager that knows no requests under the load of whole requests, and is the right
target that wrong ones are made of. The pool of K and V is a table from slots to tags.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from kvref.operations import Carried
from kvref.oracle import NodeView
from kvref.refusals import RefusalKind
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.promises import RequestPromises
from kvref.requests.target import RequestTarget, RequestTargetFactory
from kvref.target import InspectableTarget, Target, TargetFactory

__all__ = ["LifeRequest", "NoRoom", "ReferenceLife", "RequestEnded", "TooManyRequests", "life"]


class NoRoom(RuntimeError):
    """Fewer pages are free or evictable than are needed."""

    def __init__(self, needed: int, free: int, evictable: int) -> None:
        self.needed, self.free, self.evictable = needed, free, evictable
        super().__init__(f"{needed} pages needed, {free} free, {evictable} evictable")


class TooManyRequests(RuntimeError):
    """As many run as may."""

    def __init__(self, running: int) -> None:
        self.running = running
        super().__init__(f"{running} requests run already")


class RequestEnded(RuntimeError):
    """The request is over."""


class LifeRequest:
    """One request."""

    def __init__(self, tokens: Sequence[int], namespace: str | None) -> None:
        self.tokens = list(tokens)
        self.namespace = namespace
        self.row: list[int] = []
        self.handle: Any = None
        self.stored_len = 0
        self.cached_len = 0
        self.running = True

    @property
    def extended_len(self) -> int:
        """Tokens that have slots."""
        return len(self.row)


class ReferenceLife:
    """Requests over `manager`, step by step as the contract's page says."""

    def __init__(
        self, manager: Target, configuration: RequestConfiguration, *, integrity: bool = True
    ) -> None:
        self.manager = manager
        self.integrity = integrity
        self.size = configuration.page_size
        self.num_pages = configuration.num_pages
        self.max_requests = configuration.max_requests
        self.max_len = configuration.longest
        self.free = list(range(configuration.num_pages))[::-1]
        self.running: list[LifeRequest] = []
        self.content: dict[int, int] = {}
        self.evicted: list[int] = []

    # ---------------------------------------------------------------------------- the steps

    def begin(
        self, tokens: Sequence[int], *, namespace: str | None, max_tokens: Any, carried: Carried
    ) -> Any:
        """Steps 1 to 3: match and lock, see whether there is room, evict, allocate."""
        if not 1 <= len(tokens) <= self.max_len:
            raise ValueError(f"{len(tokens)} tokens, expected 1 to {self.max_len}")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens: {max_tokens}, expected at least 1")
        if len(self.running) == self.max_requests:
            raise TooManyRequests(len(self.running))
        request = LifeRequest(tokens, namespace)
        looked_up = self.looked_up(tokens)
        request.handle, slots = self.match(looked_up, namespace, carried)
        self.manager.lock_handle(request.handle)
        request.cached_len = request.stored_len = len(slots)
        end = len(tokens) if max_tokens is None else len(slots) + max_tokens
        try:
            request.row = slots + self.slots_for(len(slots), min(end, len(tokens)), slots)
        except NoRoom:
            self.manager.lock_handle(request.handle, unlock=True)
            raise
        self.running.append(request)
        return request

    def extend(self, request: Any, count: Any) -> None:
        """Step 3 again."""
        self.check_running(request)
        end = request.extended_len + count
        if count < 1 or end > self.max_len:
            raise ValueError(f"{count} more than {request.extended_len} tokens")
        request.row += self.slots_for(request.extended_len, end, request.row)

    def append(self, request: Any, tokens: Sequence[int]) -> None:
        """More tokens are known."""
        self.check_running(request)
        request.tokens += tokens

    def store(self, request: Any, tags: Sequence[int]) -> None:
        """Step 4."""
        self.check_running(request)
        self.content.update(zip(request.row[request.stored_len :], tags, strict=True))
        request.stored_len = request.extended_len

    def commit(self, request: Any) -> int:
        """Steps 5 and 6."""
        self.check_running(request)
        whole, already = self.publish(request)
        if whole:
            handle, slots = self.match(request.tokens[:whole], request.namespace, "int64")
            self.manager.lock_handle(handle)
            self.manager.lock_handle(request.handle, unlock=True)
            # The cache did not take [cached_len:already], where the match covers it.
            mine = request.row[request.cached_len : min(already, len(slots))]
            request.row[: len(slots)] = slots
            self.give_back(mine)
            request.handle, request.cached_len = handle, len(slots)
        return int(request.cached_len)

    def finish(self, request: Any) -> None:
        """Steps 5 and 7."""
        self.check_running(request)
        whole, already = self.publish(request)
        self.give_back(request.row[request.cached_len : already])
        self.give_back(request.row[whole:])
        self.end(request)

    def abort(self, request: Any) -> None:
        """Everything back."""
        self.check_running(request)
        self.give_back(request.row[request.cached_len :])
        self.end(request)

    def preempt(self, request: Any) -> list[int] | None:
        """As abort; the tokens to begin with again."""
        self.abort(request)
        tokens: list[int] = request.tokens
        return tokens

    def flush(self) -> None:
        """All that is cached becomes free."""
        self.give_back(self.manager.reset())

    # --------------------------------------------------------------------- to be looked at

    def row(self, request: Any, start: int, stop: int) -> list[int]:
        """Slots of a request."""
        slots: list[int] = request.row[start:stop]
        return slots

    def read(self, slots: Sequence[int]) -> list[int | str]:
        """What was stored there last."""
        return [self.content.get(slot, "nothing was stored there") for slot in slots]

    def sizes(self) -> tuple[int, int]:
        """Those of the manager."""
        return self.manager.sizes()

    def num_free_pages(self) -> int:
        """Pages in the list of free ones."""
        return len(self.free)

    def victims(self) -> list[int]:
        """The slots that the latest `begin` or `extend` evicted."""
        return self.evicted

    def check(self) -> None:
        """The manager's check, and that pages add up."""
        if self.integrity:
            self.manager.check_integrity()
        owned = [slot for request in self.running for slot in request.row[request.cached_len :]]
        pages = {slot // self.size for slot in owned}
        if len(set(self.free)) != len(self.free) or pages & set(self.free):
            raise RuntimeError("a page that is free twice, or free and owned")
        cached = sum(self.manager.sizes())
        if (len(self.free) + len(pages)) * self.size + cached != self.num_pages * self.size:
            raise RuntimeError(
                f"{len(self.free)} pages free, {len(pages)} owned, {cached} slots cached: "
                f"not the {self.num_pages} pages of the pool"
            )

    # ---------------------------------------------------- the parts, that a wrong life changes

    def looked_up(self, tokens: Sequence[int]) -> Sequence[int]:
        """What a begin matches: one token is left to compute."""
        return tokens[:-1]

    def match(
        self, tokens: Sequence[int], namespace: str | None, carried: Carried
    ) -> tuple[Any, list[int]]:
        """The manager's match."""
        return self.manager.match_prefix(tokens, namespace=namespace, carried=carried)

    def check_running(self, request: LifeRequest) -> None:
        """Refuse a request that is over."""
        if not request.running:
            raise RequestEnded("the request is over")

    def slots_for(self, start: int, end: int, row: Sequence[int]) -> list[int]:
        """Slots for the tokens from `start` to `end`, of new pages where the last one is full."""
        size = self.size
        begun = -start % size  # places left in the page that is there
        slots = [row[-1] + 1 + at for at in range(begun)]
        needed = -(-end // size) - -(-start // size)
        free, evictable = len(self.free), self.sizes()[0] // size
        if needed > free + evictable:
            raise NoRoom(needed, free, evictable)
        self.evicted = []
        if needed > free:
            self.evicted = self.manager.evict(self.shortfall(needed, free))
            self.give_back(self.evicted)
        for page in self.allocate(needed):
            slots += range(page * size, (page + 1) * size)
        return slots[: end - start]

    def shortfall(self, needed: int, free: int) -> int:
        """How many slots have to be evicted, of pages."""
        return (needed - free) * self.size

    def allocate(self, count: int) -> list[int]:
        """Free pages."""
        return [self.free.pop() for _ in range(count)]

    def give_back(self, slots: Sequence[int]) -> None:
        """The pages of these slots are free."""
        self.free += dict.fromkeys(slot // self.size for slot in slots)

    def publishable(self, request: LifeRequest) -> int:
        """Tokens at the front that are stored and known."""
        return min(request.stored_len, len(request.tokens))

    def publish(self, request: LifeRequest) -> tuple[int, int]:
        """Insert whole pages: their length, and what was there of it."""
        whole = self.publishable(request) // self.size * self.size
        if whole == 0:
            return 0, 0
        already = self.manager.insert_prefix(
            request.tokens[:whole],
            request.row[:whole],
            namespace=request.namespace,
            carried="int64",
        )
        return whole, already

    def end(self, request: LifeRequest) -> None:
        """Step 7."""
        self.manager.lock_handle(request.handle, unlock=True)
        request.running = False
        self.running.remove(request)


class _InspectableLife(ReferenceLife):
    """Over a manager that can be looked into."""

    manager: Any

    def nodes(self) -> list[NodeView]:
        """The manager's nodes."""
        nodes: list[NodeView] = self.manager.nodes()
        return nodes

    def fingerprint(self) -> Hashable:
        """The manager's, the free pages, and each request."""
        requests = tuple(
            (tuple(request.tokens), tuple(request.row), request.stored_len, request.cached_len)
            for request in self.running
        )
        return self.manager.fingerprint(), tuple(self.free), requests


def life(factory: TargetFactory) -> RequestTargetFactory:
    """The reference life over the managers of `factory`."""
    promises = factory.promises

    def build(configuration: RequestConfiguration) -> RequestTarget:
        manager = factory.build(configuration)
        kind = _InspectableLife if isinstance(manager, InspectableTarget) else ReferenceLife
        return kind(manager, configuration, integrity=promises.integrity)

    own = {RefusalKind.VALUE, RefusalKind.NO_ROOM, RefusalKind.TOO_MANY, RefusalKind.ENDED}
    return RequestTargetFactory(
        build,
        RequestPromises(
            page_sizes=promises.page_sizes,
            policies=promises.policies,
            keeps_prefixes=promises.keeps_prefixes,
            eviction=promises.eviction,
            granularity=promises.granularity,
            namespaces=promises.namespaces,
            refuses=frozenset(own | (promises.refuses & {RefusalKind.IN_USE})),
            refusal_errors=promises.refusal_errors,
            refused_calls_change_nothing=promises.refused_calls_change_nothing,
            refused_begin="match",
            checked_inserts=promises.checked_inserts,
        ),
        f"the reference life of requests over: {factory.description or 'a bare manager'}",
    )
