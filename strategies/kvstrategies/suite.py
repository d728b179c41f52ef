"""A whole test suite for a manager of one's own: a subclass that names the target is enough.

    # test_my_cache.py
    from kvstrategies.suite import ManagerSuite, RequestSuite

    class TestMine(ManagerSuite):
        target = "mytarget:factory"

    class TestMyRequests(RequestSuite):
        target = "mytarget:factory"

Either gives the shards of its state machine (test classes `TestMineShard0` and so on, beside it in
its module), a short campaign in parts, and a test for each trace in `traces`; a `RequestSuite` of
whole requests: those of the target, or the reference life over it. All of it is many tests, so
that `pytest -n auto` uses every core; how much each does is said by the settings profile
(`kvstrategies.profiles`). A whole session has to meet on the target whatever is required.
"""

from __future__ import annotations

import secrets
import sys
from abc import ABC, abstractmethod
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings

from kvref.campaign import (
    LOOK_EVERY,
    REQUESTS_LOOK_EVERY,
    Factory,
    Totals,
    campaign,
    start_locally,
)
from kvref.machine import Bench, Machine, Program
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.registry import UnknownTarget, find, load
from kvref.requests.life import life
from kvref.requests.machine import REQUESTS, RequestBench
from kvref.requests.target import RequestTargetFactory
from kvref.situations import collector
from kvref.target import TargetFactory
from kvref.testing.explaining import explained, known
from kvref.testing.items import check_trace
from kvref.traces.failures import FAILURES
from kvref.traces.format import Trace
from kvstrategies.manager import manager_shards
from kvstrategies.requests import request_shards

__all__ = ["RUNS", "ManagerSuite", "RequestSuite"]

RUNS = {"kv-dev": 100, "kv-ci": 150, "kv-nightly": 4000}
"""Runs of each part of a campaign, by profile. Whatever is required was met in the first 50 runs of
nearly any campaign that was tried (once it took more than 112): four parts of the smallest profile
have eight times as many."""

_TIME_LIMIT = 10.0
_LEAST_ACCEPTED = 0.5


class _Suite(ABC):
    """What both have.

    Attributes:
        target: a registered name, or `module:factory`; or else
        factory: the factory itself.
        shards: of the state machine, each a test class.
        parts: of the campaign, each a test.
        failures: the folder for the traces of what fails.
        traces: a folder of traces, each a test; an empty one fails.
    """

    target: ClassVar[str | None] = None
    factory: ClassVar[Any] = None
    shards: ClassVar[int] = 4
    parts: ClassVar[int] = 4
    failures: ClassVar[Path] = FAILURES
    traces: ClassVar[Path | str | None] = None
    _machine: ClassVar[Machine]
    _look_every: ClassVar[int]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__ == __name__:
            return
        if cls.traces is not None:  # else there is no such test, which is better than a hollow one
            cls.test_trace = cls._test_trace  # type: ignore[attr-defined]
        if cls.target is None and cls.factory is None:
            return  # a base of somebody's own
        cases = cls._cases(
            shards=cls.shards, name=cls.__name__.removeprefix("Test"), module=cls.__module__,
            named=cls._name(), failures=cls.failures,
        )  # fmt: skip
        # Pytest and HypoFuzz look for test classes in the module.
        vars(sys.modules[cls.__module__]).update(cases)

    @classmethod
    @abstractmethod
    def _the_factory(cls) -> Factory:
        """What is judged."""

    @classmethod
    @abstractmethod
    def _bench(cls, factory: Any) -> Bench:
        """Where its programs run."""

    @classmethod
    @abstractmethod
    def _cases(cls, **options: Any) -> dict[str, type]:
        """The shards of its state machine."""

    @classmethod
    def _name(cls) -> str | None:
        """What replays it by name: as given, or where the factory is found in its own module."""
        if cls.target is not None:
            return cls.target
        module = getattr(getattr(cls.factory, "build", cls.factory), "__module__", None)
        found = sys.modules.get(module or "")
        for name, value in vars(found).items() if found else ():
            if value is cls.factory:
                return f"{module}:{name}"
        return None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """The parts of the campaign, and the traces."""
        cls = type(self)
        if "part" in metafunc.fixturenames:
            metafunc.parametrize("part", range(cls.parts))
        if "trace" in metafunc.fixturenames:
            paths = sorted(Path(cls.traces or "").glob("**/*.jsonl"))
            if not paths:
                raise pytest.UsageError(f"{cls.__name__}: there is no *.jsonl in {cls.traces}")
            metafunc.parametrize("trace", paths, ids=[path.stem for path in paths])

    def test_campaign(self, part: int) -> None:
        """Random programs, another seed in each session; a failure says which."""
        factory = self._the_factory()
        name = self._name()
        bench = self._bench(factory)
        seed, totals = secrets.randbelow(2**32), Totals()
        counting = collector.counting(factory, name or "", held=True)
        runs = campaign(
            start_locally(factory, _TIME_LIMIT),
            factory,
            seed,
            totals,
            look_every=self._look_every,
            counting=counting,
        )
        for failure in islice(runs, RUNS.get(settings.get_current_profile_name(), RUNS["kv-dev"])):
            if failure is None:
                continue
            program = Program(failure.operations, failure.configuration)
            if known(self._machine, bench, program) is not None:
                continue
            raise explained(
                self._machine, bench, program, failure.divergence, target=name,
                folder=self.failures, note="found by the campaign of a test suite", seed=seed,
                run=failure.run,
            )  # fmt: skip
        assert totals.share_accepted >= _LEAST_ACCEPTED, (
            f"only {totals.share_accepted:.0%} of the operations were accepted: this says little"
        )

    def _test_trace(self, trace: Path) -> None:
        """What once failed does so no more, on this target, whatever the file names."""
        check_trace(trace, self._name(), self._bench_of)

    @classmethod
    def _bench_of(cls, trace: Trace) -> Bench:
        """What a trace of either machine is replayed on: the target of this suite."""
        factory = cls._found()
        look_every = trace.header.look_every
        if trace.machine is REQUESTS:
            return RequestBench(_requests(factory), look_every=look_every, seconds=_TIME_LIMIT)
        if isinstance(factory, RequestTargetFactory):
            raise UnknownTarget("a trace of a bare manager, and this target runs requests alone")
        return ManagerBench(factory, look_every=look_every, seconds=_TIME_LIMIT)

    @classmethod
    def _found(cls) -> TargetFactory | RequestTargetFactory:
        """What `target` or `factory` gives, of whichever machine."""
        found = load(cls.target) if cls.target is not None else cls.factory
        if isinstance(found, TargetFactory | RequestTargetFactory):
            return found
        return TargetFactory(found)


def _requests(factory: TargetFactory | RequestTargetFactory) -> RequestTargetFactory:
    if isinstance(factory, RequestTargetFactory):
        return factory
    return factory.requests or life(factory)


class ManagerSuite(_Suite):
    """Of a bare manager."""

    _machine = MANAGER
    _look_every = LOOK_EVERY

    @classmethod
    def _the_factory(cls) -> TargetFactory:
        if cls.target is not None:
            return find(cls.target)
        return cls.factory if isinstance(cls.factory, TargetFactory) else TargetFactory(cls.factory)

    @classmethod
    def _bench(cls, factory: Any) -> Bench:
        return ManagerBench(factory, look_every=cls._look_every, seconds=_TIME_LIMIT)

    @classmethod
    def _cases(cls, **options: Any) -> dict[str, type]:
        return manager_shards(cls._the_factory(), **options)


class RequestSuite(_Suite):
    """Of whole requests."""

    shards = 2
    _machine = REQUESTS
    _look_every = REQUESTS_LOOK_EVERY

    @classmethod
    def _the_factory(cls) -> RequestTargetFactory:
        return _requests(cls._found())

    @classmethod
    def _bench(cls, factory: Any) -> Bench:
        return RequestBench(factory, look_every=cls._look_every, seconds=_TIME_LIMIT)

    @classmethod
    def _cases(cls, **options: Any) -> dict[str, type]:
        return request_shards(cls._the_factory(), **options)
