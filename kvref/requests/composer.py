"""Makes up telling programs of requests: they share prefixes, and the pool is tight.

The composer looks at the oracle, so that most of what it issues is right, and what is refused
is refused on purpose. Every decision is a draw from one `Random`: the same seed and the same
target give the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from kvref.requests.drawing import Prompts
from kvref.requests.judge import RequestJudge
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    RequestOperation,
    Store,
)
from kvref.requests.oracle import Request

__all__ = ["RequestComposer", "drain", "squeeze"]

_NAMESPACES: tuple[tuple[str | None, ...], ...] = ((None,), (None,), (None, "", "a"), ("a", "b"))
_WEIGHTS = {
    "begin": 6, "begin_again": 4, "begin_equal": 3, "begin_waiting": 4, "begin_to_fit": 3,
    "store": 10, "decode": 10, "ahead": 4, "late": 4, "told_early": 1, "extend_to_fit": 2,
    "commit": 7, "finish": 6, "abort": 4, "preempt": 3, "flush": 1, "misuse": 1, "too_late": 1,
}  # fmt: skip
_ALWAYS = ("begin", "store", "decode", "finish")


class RequestComposer(Prompts):
    """The source of one random program, for one judge.

    Attributes:
        length: how many operations the program should have before its end.
    """

    def __init__(self, random: Random, judge: RequestJudge) -> None:
        pages = judge.configuration.num_pages
        # Pages of a prompt. Long ones cost time and find nothing that short ones do not.
        size = judge.configuration.page_size
        reach = random.randint(1, max(2, min(pages // 2, 16, 48 // size)))
        super().__init__(random, size, reach, judge.oracle.max_len)
        self.length = random.randint(20, 120) if pages < 40 else random.randint(150, 400)
        self._judge = judge
        self._oracle = judge.oracle
        spaces = random.choice(_NAMESPACES)
        self._namespaces = spaces if judge.promises.namespaces else (None,)
        self._waiting: list[Begin] = []
        self._ended: list[int] = []
        self._queued: list[RequestOperation] = []
        # Swarm testing: each program leaves some rules out and overdoes others.
        self._rules: list[Callable[[], RequestOperation]] = []
        for name, weight in _WEIGHTS.items():
            share = weight * random.choice((1, 1, 3) if name in _ALWAYS else (0, 1, 1, 3))
            self._rules += [getattr(self, f"_{name}")] * share

    def program(self) -> Iterator[RequestOperation]:
        """Operations, each to be applied at once; `drain` makes the end of the run."""
        judge = self._judge
        while judge.count < self.length or self._queued:
            operation = self._queued.pop() if self._queued else self._choice(self._rules)()
            yield operation
            if judge.outcome.refused is None:
                continue
            if isinstance(operation, Begin) and operation.tokens:
                self._waiting.append(operation)
            elif isinstance(operation, Extend):
                # An engine then ends somebody, often the one that found no room.
                self._queued.clear()
                if self._random.random() < 0.5 and self._oracle.requests[operation.request].running:
                    self._queued.append(self._end_of(operation.request))

    def _begins(self, tokens: tuple[int, ...], namespace: str | None) -> Begin:
        chunk = None if self._random.random() < 0.7 else 1 + self._below(2 * self._size)
        return Begin(tokens, namespace, chunk, self._choice(self._carried))

    def _one(self) -> Request | None:
        running = self._oracle.running()
        return self._choice(running) if running else None

    def _ahead_of(self, request: Request, count: int) -> tuple[int, ...]:
        """Values that have to be told ahead for `count` more slots."""
        length = len(request.row) + count
        if length > self._oracle.max_len:
            return ()
        return self._tail(max(0, length - len(self._judge.sequences[request.number])))

    def _pending(self, request: Request) -> tuple[int, ...]:
        """Values that were told ahead and not to the request."""
        return tuple(self._judge.sequences[request.number][len(request.tokens) :])

    def _end_of(self, number: int) -> RequestOperation:
        request = self._oracle.requests[number]
        self._ended.append(number)
        self._prompts.append(tuple(request.tokens[: 2 * self._longest]))
        if self._random.random() < 0.5:
            return Finish(number)
        if self._random.random() < 0.5:
            return Abort(number)
        self._wait(request)
        return Preempt(number)

    def _wait(self, request: Request) -> None:
        tokens = tuple(request.tokens[: self._oracle.max_len])
        self._waiting.append(self._begins(tokens, request.namespace))

    # ----------------------------------------------------------------------- rules of begin

    def _full(self) -> bool:
        """Whether a begin would be one too many; sometimes it is one all the same."""
        most = self._judge.configuration.max_requests
        return self._oracle.num_running == most and self._random.random() < 0.8

    def _begin(self) -> RequestOperation:
        if self._full():
            return self._finish()
        return self._begins(self._tokens(), self._choice(self._namespaces))

    def _begin_again(self) -> RequestOperation:
        """A prompt that was there before."""
        tokens = self._choice(self._prompts[-12:])[: self._oracle.max_len]
        if self._full() or not tokens:
            return self._begin()
        return self._begins(tokens, self._choice(self._namespaces))

    def _begin_equal(self) -> RequestOperation:
        """The prompt of one that runs, or what it knows by now."""
        request = self._one()
        if request is None or self._full():
            return self._begin()
        tokens = tuple(request.tokens[: self._oracle.max_len])
        return self._begins(tokens, request.namespace)

    def _begin_waiting(self) -> RequestOperation:
        """One that was refused or preempted."""
        if not self._waiting or self._full():
            return self._begin()
        return self._waiting.pop(self._below(len(self._waiting)))

    def _begin_to_fit(self) -> RequestOperation:
        """A prompt that just fits into the pool, or just does not."""
        if self._full():
            return self._finish()
        namespace = self._choice(self._namespaces)
        known = self._choice(self._prompts[-12:])
        matched = self._oracle.cache.cached_slots(known[:-1], namespace)
        pages = sum(self._oracle.room(matched)) + self._below(2)
        length = len(matched) + pages * self._size - self._below(self._size)
        kept = known[: len(matched)]
        tokens = (kept + self._tail(max(1, length - len(kept))))[: self._oracle.max_len]
        return Begin(tokens, namespace, None, self._choice(self._carried))

    # --------------------------------------------------------- rules of a request that runs

    def _store(self) -> RequestOperation:
        behind = [r for r in self._oracle.running() if r.stored_len < len(r.row)]
        if not behind and self._random.random() < 0.1:
            behind = self._oracle.running()  # where there is nothing to store
        return Store(self._choice(behind).number) if behind else self._decode()

    def _decode(self) -> RequestOperation:
        """The next step of a request: the next chunk of its prompt, or one token."""
        request = self._one()
        if request is None:
            return self._begin()
        number = request.number
        left = len(request.tokens) - len(request.row)
        if left > 0:
            count = left if self._random.random() < 0.5 else 1 + self._below(left)
            self._queued.append(Store(number))
            return Extend(number, count)
        if len(request.row) == self._oracle.max_len:
            return self._finish()
        token = self._pending(request)[:1] or self._tail(1)
        self._queued += [Store(number), Extend(number, 1, self._ahead_after(request))]
        return Append(number, token)

    def _ahead_after(self, request: Request) -> tuple[int, ...]:
        """As `_ahead_of` one more slot, once a pending or else a new token was appended."""
        return self._ahead_of(request, 1) if self._pending(request) else ()

    def _ahead(self) -> RequestOperation:
        """Slots for tokens that are not known yet, mostly stored at once."""
        request = self._one()
        if request is None or len(request.row) == self._oracle.max_len:
            return self._decode()
        most = min(self._size + 1, self._oracle.max_len - len(request.row))
        count = 1 if self._random.random() < 0.6 else 1 + self._below(most)
        if self._random.random() < 0.8:
            self._queued.append(Store(request.number))
        return Extend(request.number, count, self._ahead_of(request, count))

    def _late(self) -> RequestOperation:
        """Values of tokens that have slots already; some of them, or one more."""
        waiting = [r for r in self._oracle.running() if self._pending(r)]
        if not waiting:
            return self._ahead()
        request = self._choice(waiting)
        pending = self._pending(request)
        return Append(
            request.number, (pending + self._tail(1))[: 1 + self._below(len(pending) + 1)]
        )

    def _told_early(self) -> RequestOperation:
        """Values of tokens that have no slots yet; or no values at all."""
        request = self._one()
        if request is None:
            return self._begin()
        more = self._tail(self._below(3))
        return Append(request.number, self._pending(request) + more if more else ())

    def _extend_to_fit(self) -> RequestOperation:
        """All the room that there is, or a page more."""
        request = self._one()
        if request is None:
            return self._begin()
        begun = -len(request.row) % self._size
        count = begun + (sum(self._oracle.room()) + self._below(2)) * self._size
        count = max(
            1, min(count - self._below(self._size), self._oracle.max_len - len(request.row))
        )
        return Extend(request.number, count, self._ahead_of(request, count))

    def _commit(self) -> RequestOperation:
        """One; or one, another and the first again, which has nothing new and counts as a use."""
        request, other = self._one(), self._one()
        if request is None or other is None:
            return self._begin()
        if other is not request and self._random.random() < 0.3:
            self._queued += [Commit(request.number), Commit(other.number)]
        return Commit(request.number)

    def _finish(self) -> RequestOperation:
        request = self._one()
        if request is None:
            return self._begin()
        self._ended.append(request.number)
        self._prompts.append(tuple(request.tokens[: 2 * self._longest]))
        return Finish(request.number)

    def _abort(self) -> RequestOperation:
        request = self._one()
        if request is None:
            return self._begin()
        self._ended.append(request.number)
        return Abort(request.number)

    def _preempt(self) -> RequestOperation:
        request = self._one()
        if request is None:
            return self._begin()
        self._ended.append(request.number)
        self._wait(request)
        return Preempt(request.number)

    # ----------------------------------------------------------------------- the other rules

    def _flush(self) -> RequestOperation:
        return Flush()

    def _too_late(self) -> RequestOperation:
        """A request that has ended, used again."""
        if not self._ended:
            return self._finish()
        number = self._choice(self._ended[-12:])
        wrong: tuple[RequestOperation, ...] = (
            Extend(number, 1), Append(number, (0,)), Store(number), Commit(number),
            Finish(number), Abort(number), Preempt(number),
        )  # fmt: skip
        return self._choice(wrong)

    def _misuse(self) -> RequestOperation:
        request, most = self._one(), self._oracle.max_len
        tokens = self._tokens()
        wrong: list[RequestOperation] = [
            Begin(()),
            Begin(tokens, max_tokens=0),
            Begin(tokens, max_tokens=-1),
            Begin(self._tail(most + 1)),
        ]
        if request is not None:
            number = request.number
            over = most - len(request.row) + 1
            wrong += [Extend(number, 0), Extend(number, -1), Extend(number, over)]
        return self._choice(wrong)


def drain(judge: RequestJudge) -> Iterator[RequestOperation]:
    """The end of any run: every request ended in one way or another, and the cache emptied."""
    # All in one way, or each in another: a finish counts as a use, and hides what came before it.
    first, step = judge.count % 3, judge.count // 3 % 2
    for at, request in enumerate(judge.oracle.running()):
        yield (Finish, Abort, Preempt)[(first + at * step) % 3](request.number)
    if judge.count % 3:
        yield from squeeze(judge)
    yield Flush()


def squeeze(judge: RequestJudge) -> Iterator[RequestOperation]:
    """Evict leaf after leaf, so that it shows in which order all would go that is cached.

    None may be running. Ends sooner where one request may not have that much.
    """
    oracle, size = judge.oracle, judge.configuration.page_size
    if not oracle.cache.evictable_size:
        return
    number = judge.count
    yield Begin((0,))
    row = oracle.requests[number].row
    while oracle.cache.evictable_size and len(row) < oracle.max_len:
        count = -len(row) % size + (oracle.ledger.num_free + 1) * size
        count = min(count, oracle.max_len - len(row))
        yield Extend(number, count, (0,) * count)
    yield Abort(number)
