"""The replay of a request trace on one target: what is set up, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.tags import HashedTags
from kvref.requests.target import RequestTargetFactory
from kvref.workload.latest import Latest
from kvref.workload.mooncake import BLOCK_TOKENS, TracedRequest
from kvref.workload.schedule import Pace, Schedule

__all__ = ["CHECK_EVERY", "Replay", "Setup"]

CHECK_EVERY = 20_000
"""Operations from one look at everything to the next, unless somebody asks for another number."""

_MOST_TAG_BITS = 48


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a trace is replayed.

    Fields:
        configuration: of the target; its `max_requests` is the requests in flight.
        pace: of the engine.
        check_every: all rows, all contents, ledger and integrity are looked at after so many
            operations, and at the end.
        seconds: the limit of one operation, or None for none.
        block_tokens: input tokens that one id of the trace stands for.
    """

    configuration: RequestConfiguration
    pace: Pace = field(default_factory=Pace)
    check_every: int = CHECK_EVERY
    seconds: float | None = 60.0
    block_tokens: int = BLOCK_TOKENS


class Replay:
    """One replay.

    Attributes:
        judge: what it found, and how often each law was judged.
        latest: its latest operations, as a program of their own.
        schedule: how far it is.
        setup: as given.
    """

    def __init__(
        self, factory: RequestTargetFactory, requests: Sequence[TracedRequest], setup: Setup
    ) -> None:
        """Build the target.

        Raises:
            CannotBuild: the factory cannot build it with this configuration.
        """
        configuration = setup.configuration
        self.setup = setup
        self._executor = LocalRequestExecutor(factory(configuration), setup.seconds)
        self.latest = Latest()
        self.judge = RequestJudge(
            self._executor,
            configuration,
            factory.promises,
            look_every=setup.check_every,
            long_run=True,
            tags=HashedTags(min(_MOST_TAG_BITS, configuration.tag_bits)),
            observer=self.latest,
        )
        self.schedule = Schedule(
            self.judge,
            requests,
            pool_tokens=configuration.longest,
            pace=setup.pace,
            block_tokens=setup.block_tokens,
        )

    def rounds(self) -> Iterator[None]:
        """Replay it; yields after each round of the engine. Ends at the first difference."""
        try:
            yield from self.schedule.rounds()
            self.judge.look()
        finally:
            self._executor.close()
