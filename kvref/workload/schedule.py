"""Plays a request trace as an engine would: arrivals, batches, chunks, decode, late results.

The schedule decides what to ask, a judge asks it. One *round* is what an engine does between
two launches: admit who has come and fits, store what has slots, publish it, tell the requests
the tokens that the round before made (an engine with overlap learns them one round late), and
get slots for the next ones. A request that gets none makes room by preemption: who was admitted
last goes back to the head of the queue with all tokens that it knows.

Time is the trace's own: a round takes as long as its tokens do at a fixed speed, so the same
trace and options give the same operations on every machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from kvref.divergence import Divergence
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
from kvref.requests.run import Outcome
from kvref.workload.mooncake import BLOCK_TOKENS, TracedRequest
from kvref.workload.tokens import output_tokens, prompt_tokens

__all__ = ["Counts", "Driven", "Pace", "Schedule"]

_TOKENS_A_MS = 50.0
"""How fast the engine of the schedule is; a slower one has more requests in flight."""
_LEAST_ROUND_MS = 20.0


class Driven(Protocol):
    """What the schedule talks to: a `kvref.requests.judge.RequestJudge`, as far as it needs it."""

    @property
    def count(self) -> int:
        """Operations applied so far: the number of the next one."""

    @property
    def outcome(self) -> Outcome:
        """What the latest one came to."""

    def apply(self, operation: RequestOperation) -> Divergence | None:
        """Apply one operation."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How the engine goes about it.

    Fields:
        in_flight: requests that run at once, at most.
        chunk: prompt tokens of one round and request, at most.
        decode_step: tokens that a running request makes in a round.
        commit_every: rounds of a request between two commits in decode.
        abort_share: of the requests, whose client goes away at some point.
        seed: of who that is, and when.
    """

    in_flight: int = 16
    chunk: int = 8192
    decode_step: int = 16
    commit_every: int = 32
    abort_share: float = 0.01
    seed: int = 0


@dataclass
class Counts:
    """What happened so far, in requests and in tokens."""

    finished: int = 0
    aborted: int = 0
    preempted: int = 0
    refused: int = 0
    too_long: int = 0
    prompt_tokens: int = 0
    matched_tokens: int = 0
    evicted_pages: int = 0
    output_tokens: int = 0

    @property
    def ended(self) -> int:
        """Requests that will not be seen again."""
        return self.finished + self.aborted + self.too_long

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were not found cached."""
        return self.prompt_tokens - self.matched_tokens

    @property
    def hit_rate(self) -> float:
        """Share of the prompt tokens that were found cached."""
        return self.matched_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass
class _Job:
    """One request of the trace; it may begin several times, if it is preempted."""

    number: int
    traced: TracedRequest
    abort_at: int | None  # tokens with slots, at which its client goes away
    made: int = 0  # tokens of the output that the request was told
    prompt: tuple[int, ...] = ()  # while it waits
    # Of its present run:
    begun: int = -1
    prompt_len: int = 0
    extended: int = 0  # tokens that have slots
    stored: int = 0  # and K and V
    ahead: int = 0  # tokens at the end of `extended` that it was not told yet
    rounds: int = 0

    @property
    def whole_len(self) -> int:
        """Tokens that have K and V at its end: the last one that it makes has none."""
        return self.traced.input_length + max(0, self.traced.output_length - 1)


class Schedule:
    """One replay. Attributes: `counts`; `running`, how many requests hold slots."""

    def __init__(
        self,
        judge: Driven,
        requests: Sequence[TracedRequest],
        *,
        pool_tokens: int,
        pace: Pace | None = None,
        block_tokens: int = BLOCK_TOKENS,
    ) -> None:
        """Play `requests`, in the order of arrival, on the target of `judge`.

        A request that is longer than the whole pool (`pool_tokens`) is passed over and counted.
        """
        self.counts = Counts()
        self._judge = judge
        self._pace = pace or Pace()
        self._pool_tokens = pool_tokens
        self._block_tokens = block_tokens
        self._to_come = deque(self._jobs(requests))
        self._waiting: deque[_Job] = deque()
        self._running: list[_Job] = []
        self._now = 0.0  # in ms
        self._given = 0  # tokens that got slots in this round

    @property
    def running(self) -> int:
        """Requests that hold slots."""
        return len(self._running)

    def _jobs(self, requests: Sequence[TracedRequest]) -> Iterator[_Job]:
        random = Random(self._pace.seed)
        for number, traced in enumerate(requests):
            leaves = random.random() < self._pace.abort_share
            at = random.randint(1, traced.input_length + traced.output_length)
            yield _Job(number, traced, at if leaves else None)

    def rounds(self) -> Iterator[None]:
        """Play it; yields after each round. Ends early when the judge found a difference."""
        try:
            while self._to_come or self._waiting or self._running:
                self._round()
                yield
            self._apply(Flush())
        except _Found:
            return

    # --------------------------------------------------------------------------- one round

    def _round(self) -> None:
        if not (self._running or self._waiting):
            self._now = max(self._now, self._to_come[0].traced.timestamp)
        while self._to_come and self._to_come[0].traced.timestamp <= self._now:
            self._waiting.append(self._to_come.popleft())
        self._given = 0
        self._admit()
        batch = list(self._running)
        for job in batch:  # launched: from here on K and V of these are there
            self._apply(Store(job.begun))
            job.stored = job.extended
        for job in batch:
            self._publish(job)
        for job in batch:
            if job in self._running:  # it may have been preempted for another one
                self._go_on(job)
        self._now += max(_LEAST_ROUND_MS, self._given / _TOKENS_A_MS)

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._pace.in_flight:
            job = self._waiting[0]
            if job.whole_len > self._pool_tokens:
                self.counts.too_long += 1
                self._waiting.popleft()
                continue
            tokens = job.prompt or prompt_tokens(job.traced, self._block_tokens) + output_tokens(
                job.number, 0, job.made
            )
            index = self._judge.count
            self._apply(Begin(tokens, max_tokens=self._pace.chunk))
            if self._judge.outcome.refused:
                self.counts.refused += 1
                job.prompt = tokens  # it will ask again in the next round
                return  # those behind it wait too, or it would starve
            self._waiting.popleft()
            matched = self._judge.outcome.matched
            self.counts.prompt_tokens += len(tokens)
            self.counts.matched_tokens += matched
            job.begun, job.rounds, job.ahead, job.prompt = index, 0, 0, ()
            job.prompt_len = len(tokens)
            job.extended = min(len(tokens), matched + self._pace.chunk)
            self._given += job.extended - matched
            self._running.append(job)

    def _publish(self, job: _Job) -> None:
        in_prefill = job.extended <= job.prompt_len
        if in_prefill or job.rounds % self._pace.commit_every == 0:
            self._apply(Commit(job.begun))
        job.rounds += 1

    def _go_on(self, job: _Job) -> None:
        if job.abort_at is not None and job.extended >= job.abort_at:
            self._apply(Abort(job.begun))
            self._running.remove(job)
            self.counts.aborted += 1
            return
        late, job.ahead = job.ahead, 0
        whole = job.whole_len
        if job.extended < whole and not self._extend(job, late):
            return
        self._tell(job, late)
        if job.stored == whole:
            if job.traced.output_length:
                self._tell(job, 1)  # the last one, which needs no K and V
            self._apply(Finish(job.begun))
            self._running.remove(job)
            self.counts.finished += 1

    def _extend(self, job: _Job, late: int) -> bool:
        """Slots for its next tokens, at the cost of others if need be; False: at its own cost."""
        if job.extended < job.prompt_len:
            count, ahead = min(self._pace.chunk, job.prompt_len - job.extended), 0
        else:
            count = ahead = min(self._pace.decode_step, job.whole_len - job.extended)
        first = job.made + late
        values = output_tokens(job.number, first, first + ahead)
        while True:
            self._apply(Extend(job.begun, count, values))
            if not self._judge.outcome.refused:
                break
            self.counts.refused += 1
            youngest = self._running[-1]
            self._apply(Preempt(youngest.begun))  # what it was not told yet is lost
            self._running.pop()
            self._waiting.appendleft(youngest)
            self.counts.preempted += 1
            if youngest is job:
                return False
        job.extended += count
        self._given += count
        job.ahead = ahead
        return True

    def _tell(self, job: _Job, tokens: int) -> None:
        if tokens:
            values = output_tokens(job.number, job.made, job.made + tokens)
            self._apply(Append(job.begun, values))
            job.made += tokens
            self.counts.output_tokens += tokens

    def _apply(self, operation: RequestOperation) -> None:
        if self._judge.apply(operation) is not None:
            raise _Found
        self.counts.evicted_pages += self._judge.outcome.evicted


class _Found(Exception):
    """The judge found a difference: the replay is over."""
