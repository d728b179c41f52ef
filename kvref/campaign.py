"""A random campaign: one run after another, each a new target and a random program."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kvref.composer import Composer, drain, draw_configuration
from kvref.configuration import Configuration
from kvref.divergence import Divergence
from kvref.executor import Executor, LocalExecutor
from kvref.isolated import IsolatedExecutor, TargetProcess
from kvref.judge import Judge
from kvref.listener import Listener, both
from kvref.operations import Operation
from kvref.requests import composer as requests_composer
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.drawing import draw_configuration as draw_requests
from kvref.requests.executor import LocalRequestExecutor, RequestExecutor
from kvref.requests.isolated import IsolatedRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.operations import RequestOperation
from kvref.requests.target import RequestTargetFactory
from kvref.situations import collector
from kvref.situations.counting import Counting
from kvref.target import TargetFactory

__all__ = [
    "LOOK_EVERY",
    "REQUESTS_LOOK_EVERY",
    "Factory",
    "Failure",
    "Totals",
    "campaign",
    "start_isolated",
    "start_locally",
]

LOOK_EVERY = 256
"""Structure, integrity and the oracle's recount are looked at after so many operations of a run,
before its locks are given back, and at its end: a look costs as much as about ten operations."""

REQUESTS_LOOK_EVERY = 64
"""The same for whole requests, where a look takes in rows and contents too."""

Factory = TargetFactory | RequestTargetFactory
"""A bare manager, or whole requests: says which machine plays."""

Start = Callable[[Any], Any]
"""Gives the executor of a new, empty target from its configuration."""


@dataclass(frozen=True)
class Failure:
    """A run that diverged, with all that is needed to have it again; `program` as Python."""

    seed: int
    run: int
    configuration: Configuration
    operations: tuple[Operation, ...] | tuple[RequestOperation, ...]
    divergence: Divergence
    program: str

    @property
    def machine(self) -> str:
        """What ran: "manager", or "requests"."""
        return "requests" if isinstance(self.configuration, RequestConfiguration) else "manager"


@dataclass
class Totals:
    """What a campaign has done so far."""

    runs: int = 0
    operations: int = 0
    accepted: int = 0
    refused: int = 0
    skipped: int = 0
    judging_seconds: float = 0.0
    judged: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Judged operations a second, by the clock that the campaign was given."""
        return self.operations / self.judging_seconds if self.judging_seconds else 0.0

    @property
    def share_accepted(self) -> float:
        """Of the operations that were not skipped; 1 where there were none."""
        judged = self.accepted + self.refused
        return self.accepted / judged if judged else 1.0


def start_locally(factory: Factory, seconds: float) -> Start:
    """Targets in this process, each operation under a limit of `seconds`."""

    def start(configuration: Any) -> Executor | RequestExecutor:
        if isinstance(factory, TargetFactory):
            return LocalExecutor(factory(configuration), seconds)
        return LocalRequestExecutor(factory(configuration), seconds)

    return start


def start_isolated(process: TargetProcess) -> Start:
    """Targets in `process`, which the caller closes."""

    def start(configuration: Configuration) -> Executor | RequestExecutor:
        if isinstance(configuration, RequestConfiguration):
            return IsolatedRequestExecutor(process, configuration)
        return IsolatedExecutor(process, configuration)

    return start


def _draw(random: Random, factory: Factory) -> Configuration:
    if isinstance(factory, TargetFactory):
        return draw_configuration(random, factory.promises)
    return draw_requests(random, factory.promises)


def _judge(
    random: Random,
    executor: Any,
    configuration: Any,
    factory: Factory,
    look_every: int,
    listener: Listener | None,
    watcher: Any,
) -> tuple[Any, tuple[Iterator[Any], Iterator[Any]]]:
    """The judge of a run; and its operations, and those that end it."""
    if isinstance(factory, TargetFactory):
        judge = Judge(
            executor,
            configuration,
            factory.promises,
            look_every=look_every,
            listener=both(watcher, listener),
        )
        return judge, (Composer(random, judge).program(), drain(judge))
    requests = RequestJudge(
        executor,
        configuration,
        factory.promises,
        look_every=look_every,
        listener=listener,
        observer=watcher,
    )
    composer = requests_composer.RequestComposer(random, requests)
    return requests, (composer.program(), requests_composer.drain(requests))


def campaign(
    start: Start,
    factory: Factory,
    seed: int,
    totals: Totals,
    *,
    first_run: int = 0,
    look_every: int = LOOK_EVERY,
    clock: Callable[[], float] = time.process_time,
    listen: Callable[[int, Configuration], Listener | None] = lambda number, configuration: None,
    counting: Counting | None = None,
) -> Iterator[Failure | None]:
    """Run for ever; yields after each run, with its failure if there was one.

    Every run depends on nothing but `seed`, its number and the target: (seed, number) has it
    again. `totals` is kept up to date during a run too, so that a caller who interrupts loses
    nothing. `clock` is what the rate is measured by; `listen` may give each run a listener.
    `counting` counts what the runs meet; by default the collector of this process does, if it is
    on.
    """
    counting = counting or collector.counting(factory)
    number = first_run
    while True:
        random = Random(f"{seed}:{number}")
        configuration = _draw(random, factory)
        executor = start(configuration)
        try:
            listener = listen(number, configuration)
            watcher = counting.watch(configuration) if counting else None
            judge, parts = _judge(
                random, executor, configuration, factory, look_every, listener, watcher
            )
            if watcher:
                watcher.attach(judge)
            failure = None
            began = clock()
            try:
                # Looked at while there is most to see, and when nothing may be left.
                for part in parts:
                    for operation in part:
                        if judge.apply(operation) is not None:
                            break
                    if judge.look() is not None:
                        break
            finally:
                totals.judging_seconds += clock() - began
                totals.operations += len(judge.operations)
                totals.accepted += judge.accepted
                totals.refused += len(judge.refused)
                totals.skipped += len(judge.skipped)
                totals.judged += judge.judged
                if counting and watcher:
                    counting.count(watcher, judge)
            if judge.divergence is not None:
                failure = Failure(
                    seed,
                    number,
                    configuration,
                    tuple(judge.operations),
                    judge.divergence,
                    judge.program(),
                )
        finally:
            executor.close()
        totals.runs += 1
        number += 1
        yield failure
