"""The oracle of whole requests: the contract's life of a request over the plain oracle.

Nothing is clever here. The cache is `kvref.oracle.Oracle` (or the one that remembers nothing),
the ledger says who holds each page, and a request is its tokens and its row of slots:

    row   |- cached_len -|- stored_len - cached_len -|- extended_len - stored_len -|
          | the cache's  | its own, K and V stored   | its own, nothing there yet  |

A step that takes pages comes in three parts, because which pages they are is the target's
choice: `begin` or `extend` says how many are needed and how many slots are missing, `evict` (or
`follow`) frees those, and `take` adopts the slots that the target gave, once `wrong_slots` has
nothing to say against them. All else is predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvref.legal_eviction import follow
from kvref.naive_oracle import NaiveOracle
from kvref.oracle import EMPTY, Granularity, Handle, Oracle, Page
from kvref.refusals import RefusalKind, refuse
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.ledger import CACHE, FREE, Ledger

__all__ = ["Need", "Request", "RequestOracle"]


class Request:
    """One request, named by the number of its `Begin`."""

    __slots__ = (
        "cached_len", "handle", "namespace", "number", "row", "running", "stored_len", "tokens",
    )  # fmt: skip

    def __init__(self, number: int, tokens: Sequence[int], namespace: str | None) -> None:
        self.number = number
        self.namespace = namespace
        self.tokens = list(tokens)  # whose values it knows
        self.row: list[int] = []  # a slot for each token that has one
        self.stored_len = 0
        self.cached_len = 0
        self.handle: Handle = EMPTY  # what it locks
        self.running = True


class Need(NamedTuple):
    """What a step takes: tokens that get slots, new pages, and slots to be evicted for them."""

    tokens: int
    pages: int
    missing: int


class RequestOracle:
    """Requests on plain ints and lists.

    Attributes:
        cache: the oracle of the manager.
        ledger: who holds each page.
        requests: all that began and were not forgotten, by number; ended ones too.
    """

    def __init__(
        self,
        configuration: RequestConfiguration,
        *,
        keeps_prefixes: bool = True,
        granularity: Granularity = "node",
        refused_begin_matches: bool = False,
    ) -> None:
        self.cache: Oracle | NaiveOracle = (
            Oracle(configuration, granularity=granularity)
            if keeps_prefixes
            else NaiveOracle(configuration)
        )
        self.ledger = Ledger(configuration.num_pages)
        self.requests: dict[int, Request] = {}
        self._running: dict[int, Request] = {}
        self.max_len = configuration.longest
        self._size = configuration.page_size
        self._max_requests = configuration.max_requests
        self._refused_begin_matches = refused_begin_matches

    # ------------------------------------------------------------ steps that take pages

    def begin(
        self,
        number: int,
        tokens: Sequence[int],
        namespace: str | None = None,
        max_tokens: int | None = None,
    ) -> Need:
        """Admit a request: match all but its last token, and lock that."""
        if not 1 <= len(tokens) <= self.max_len or (max_tokens is not None and max_tokens < 1):
            refuse(RefusalKind.VALUE)
        if self.num_running == self._max_requests:
            refuse(RefusalKind.TOO_MANY, running=self.num_running)
        looked_up = tokens[:-1]
        matched = self.cache.walk(looked_up, namespace)
        left = len(tokens) - len(matched) * self._size
        count = left if max_tokens is None else min(left, max_tokens)
        pages = self._pages(count)
        free, evictable = self.room(matched)
        if pages > free + evictable:
            if self._refused_begin_matches:
                self.cache.match(matched)
            refuse(RefusalKind.NO_ROOM, needed=pages, free=free, evictable=evictable)
        request = Request(number, tokens, namespace)
        request.handle, request.row = self.cache.match(matched)
        self.cache.lock_handle(request.handle)
        request.cached_len = request.stored_len = len(request.row)
        self.requests[number] = self._running[number] = request
        return self._need(count, pages)

    def extend(self, number: int, count: int) -> Need:
        """Slots for `count` more tokens."""
        request = self._require_running(number)
        length = len(request.row)
        if count < 1 or length + count > self.max_len:
            refuse(RefusalKind.VALUE)
        pages = self._pages(length + count) - self._pages(length)
        free, evictable = self.room()
        if pages > free + evictable:
            refuse(RefusalKind.NO_ROOM, needed=pages, free=free, evictable=evictable)
        return self._need(count, pages)

    def evict(self, missing: int) -> list[int]:
        """Evict what is missing; the victims' slots."""
        if missing == 0:
            return []
        victims = self.cache.evict(missing)
        self.ledger.move(self._pages_of(victims), CACHE, FREE)
        return victims

    def follow(self, missing: int, victims: Sequence[int]) -> str | None:
        """The target evicted these, by its own choice; or in words why it may not have."""
        assert isinstance(self.cache, Oracle)
        problem = follow(self.cache, missing, victims)
        if problem is None:
            self.ledger.move({slot // self._size for slot in victims}, CACHE, FREE)
        return problem

    def wrong_slots(self, number: int, need: Need, slots: Sequence[int]) -> str | None:
        """Why `slots` cannot be what `need` asks for, or None if they can."""
        if len(slots) != need.tokens:
            return f"{len(slots)} slots"
        size, row = self._size, self.requests[number].row
        begun = -len(row) % size  # places left in the page that it owns in part
        for at, slot in enumerate(slots[:begun]):
            if slot != row[-1] + 1 + at:
                return f"slot {slot}, which does not continue the page of slot {row[-1]}"
        new = slots[begun:]
        right: list[int] = []
        for first in new[::size]:
            right += range(first - first % size, first - first % size + size)
        if new != right[: len(new)]:
            at = next(at for at, slot in enumerate(new) if slot != right[at]) // size * size
            part = new[at : at + size]
            return f"slots {part}, which are no page from its beginning on"
        return self.ledger.wrong(self._pages_of(new))

    def take(self, number: int, slots: Sequence[int]) -> None:
        """The target gave these slots; `wrong_slots` had nothing to say against them."""
        row = self.requests[number].row
        begun = -len(row) % self._size
        self.ledger.move(self._pages_of(slots[begun:]), FREE, number)
        row += slots

    # ------------------------------------------------------------------ the other steps

    def append(self, number: int, tokens: Sequence[int]) -> None:
        """The values of the next tokens."""
        self._require_running(number).tokens += tokens

    def store(self, number: int) -> int:
        """K and V of all that has slots are stored; returns from which token on they were not."""
        request = self._require_running(number)
        start, request.stored_len = request.stored_len, len(request.row)
        return start

    def commit(self, number: int) -> int:
        """Publish whole pages that are stored and known, and go on; returns what is cached."""
        request = self._require_running(number)
        whole, already, pages = self._insert(request)
        if whole == 0:
            return 0
        handle, slots = self.cache.match(pages)
        self.cache.lock_handle(handle)
        self.cache.lock_handle(request.handle, unlock=True)
        # [cached_len:already] were duplicates, if what was matched covers them.
        mine = request.row[request.cached_len : min(already, len(slots))]
        self.ledger.move(self._pages_of(mine), number, FREE)
        request.row[: len(slots)] = slots
        request.handle, request.cached_len = handle, len(slots)
        return request.cached_len

    def finish(self, number: int) -> None:
        """Publish whole pages that are stored and known, and give back all else."""
        request = self._require_running(number)
        whole, already, _ = self._insert(request)
        mine = request.row[request.cached_len : already] + request.row[whole:]
        self._end(request, mine)

    def abort(self, number: int) -> None:
        """Give back everything."""
        request = self._require_running(number)
        self._end(request, request.row[request.cached_len :])

    def preempt(self, number: int) -> list[int]:
        """Give back everything; the tokens to begin with again."""
        self.abort(number)
        return self.requests[number].tokens

    def flush(self) -> None:
        """Empty the cache."""
        slots = self.cache.reset()
        self.ledger.move(self._pages_of(slots), CACHE, FREE)

    # --------------------------------------------------------------- looking, not touching

    def room(self, matched: Sequence[Page] = ()) -> tuple[int, int]:
        """Pages that are free, and evictable beside those that were matched.

        What a request matched is about to be locked, so it is not there to be evicted for it.
        """
        evictable = self.cache.evictable_size // self._size
        evictable -= sum([page.locks == 0 for page in matched])
        return self.ledger.num_free, evictable

    @property
    def num_running(self) -> int:
        """How many requests run."""
        return len(self._running)

    def running(self) -> list[Request]:
        """The requests that run, in the order in which they began."""
        return list(self._running.values())

    def recompute(self) -> None:
        """The cache's own recount, and the ledger against the cache and all rows."""
        self.cache.recompute()
        running = {number: each for number, each in self.requests.items() if each.running}
        assert self._running == running, "running"
        held = {first // self._size for first in self.cache.held}
        assert self.ledger.held_by(CACHE) == held, "cached pages"
        owned = 0
        for request in self.running():
            assert request.cached_len <= request.stored_len <= len(request.row), "lengths"
            pages = self._pages_of(request.row[request.cached_len :])
            assert self.ledger.held_by(request.number) == set(pages), "owned pages"
            owned += len(pages)
        free = len(self.ledger.held_by(FREE))
        assert self.ledger.num_free == free, "free pages"
        assert free + owned + len(held) == self.ledger.num_pages, "pages"

    # --------------------------------------------------------------------------- the parts

    def _require_running(self, number: int) -> Request:
        request = self.requests[number]
        if not request.running:
            refuse(RefusalKind.ENDED)
        return request

    def _insert(self, request: Request) -> tuple[int, int, list[Page]]:
        """Insert whole pages that are stored and known.

        Returns their length in tokens, how much of it was there, and the cache's pages of it.
        """
        whole = min(request.stored_len, len(request.tokens)) // self._size * self._size
        if whole == 0:
            return 0, 0, []
        already, pages = self.cache.insert(
            request.tokens[:whole], request.row[:whole], request.namespace
        )
        self.ledger.move(self._pages_of(request.row[already:whole]), request.number, CACHE)
        return whole, already, pages

    def _end(self, request: Request, mine: Sequence[int]) -> None:
        self.ledger.move(self._pages_of(mine), request.number, FREE)
        self.cache.lock_handle(request.handle, unlock=True)
        request.running = False
        request.row = []
        del self._running[request.number]

    def _need(self, tokens: int, pages: int) -> Need:
        return Need(tokens, pages, max(0, pages - self.ledger.num_free) * self._size)

    def _pages(self, tokens: int) -> int:
        """How many pages so many tokens from the beginning of a page take."""
        return -(-tokens // self._size)

    def _pages_of(self, slots: Sequence[int]) -> list[int]:
        """The pages of slots that begin with a page and go page by page."""
        return [slot // self._size for slot in slots[:: self._size]]
