"""Campaigns: what they count, and that seed and number have a run again."""

from __future__ import annotations

import signal
from itertools import islice
from typing import Any

import pytest

from kvref.campaign import Failure, Totals, campaign, start_isolated, start_locally
from kvref.configuration import Configuration
from kvref.divergence import DivergenceKind
from kvref.isolated import TargetProcess
from kvref.target import TargetFactory
from kvref.targets.kvgpu import naive
from tests.kvref.oracle_target import OracleTarget, judge_of
from tests.kvref.wrong_targets import ForgetsRecency, lru_only, right

WRONG = TargetFactory(ForgetsRecency)


def runs(factory: TargetFactory, seed: int, count: int, **options: Any):
    """The first runs of a campaign, and its totals."""
    totals = Totals()
    start = options.pop("start", start_locally(factory, 10.0))
    found = campaign(start, factory, seed, totals, **options)
    return list(islice(found, count)), totals


def first_failure(seed: int) -> Failure:
    return next(failure for failure in runs(WRONG, seed, 100)[0] if failure is not None)


def test_a_right_target_fails_nowhere_and_everything_is_counted():
    failures, totals = runs(right, 1, 20)
    assert failures == [None] * 20
    assert totals.runs == 20
    assert totals.skipped == 0
    assert totals.operations == totals.accepted + totals.refused == totals.judged["sizes"]
    assert totals.accepted == totals.judged["accepts"]
    assert totals.refused == totals.judged["refusals"]
    assert totals.share_accepted == totals.accepted / totals.operations
    assert totals.rate == totals.operations / totals.judging_seconds


def test_before_anything_ran_there_is_no_rate():
    totals = Totals()
    assert (totals.rate, totals.share_accepted) == (0.0, 1.0)


def test_the_same_seed_finds_the_same_failures():
    assert runs(WRONG, 5, 15)[0] == runs(WRONG, 5, 15)[0]
    assert runs(WRONG, 5, 15)[0] != runs(WRONG, 6, 15)[0]


def test_seed_and_number_have_one_failure_again():
    failure = first_failure(3)
    (again,), _ = runs(WRONG, 3, 1, first_run=failure.run)
    assert again == failure
    assert again.seed == 3


def test_a_failure_holds_all_that_is_needed_to_have_it_again():
    failure = first_failure(3)
    assert failure.divergence.kind in (DivergenceKind.VICTIMS, DivergenceKind.RESET_SLOTS)
    assert failure.divergence.index == len(failure.operations) - 1
    judge = judge_of(
        ForgetsRecency(failure.configuration), *failure.operations,
        configuration=failure.configuration, look_every=64,
    )  # fmt: skip
    assert judge.divergence == failure.divergence


def test_a_failing_run_is_followed_by_the_next():
    failures, totals = runs(WRONG, 3, 30)
    assert totals.runs == 30
    assert sum(failure is not None for failure in failures) > 1


def test_look_every_says_how_often_the_structure_is_seen():
    often, seldom = runs(right, 2, 5, look_every=1)[1], runs(right, 2, 5, look_every=10**6)[1]
    assert often.judged["structure"] >= often.operations
    assert seldom.judged["structure"] == 10  # before the end of each run, and after it
    assert often.operations == seldom.operations


def test_what_a_target_promises_decides_what_is_drawn():
    built = []

    def build(configuration: Configuration) -> OracleTarget:
        built.append(configuration.policy)
        return OracleTarget(configuration)

    runs(TargetFactory(build, lru_only.promises), 1, 12)
    assert built == ["lru"] * 12


def test_an_isolated_campaign_is_the_same_campaign():
    process = TargetProcess("tests.kvref.wrong_targets:ForgetsRecency")
    isolated, apart = runs(WRONG, 3, 8, start=start_isolated(process))
    process.close()
    local, here = runs(WRONG, 3, 8)
    assert isolated == local
    assert any(isolated)
    assert apart.judged == here.judged


def test_an_interrupted_run_is_counted_and_its_timer_stopped():
    class Interrupted(OracleTarget):
        def evict(self, size: Any) -> Any:
            raise KeyboardInterrupt

    factory, totals = TargetFactory(Interrupted), Totals()
    with pytest.raises(KeyboardInterrupt):
        list(campaign(start_locally(factory, 10.0), factory, 1, totals))
    assert totals.runs == 0
    assert totals.operations > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_manager_that_takes_any_handle_takes_a_foreign_one():
    failures, totals = runs(naive, 0, 150)
    assert not any(failures)
    assert totals.accepted > totals.refused > 0
