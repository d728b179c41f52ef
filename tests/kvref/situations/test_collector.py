"""What campaigns and machines feed, and that a generator that lacks a rule is found out."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import Phase, seed, settings

from kvref import composer
from kvref.campaign import Totals, campaign, start_locally
from kvref.promises import Promises
from kvref.situations import collector, counting
from kvref.situations.counting import Counting
from kvref.situations.registry import SITUATIONS
from kvref.situations.tally import decode, encode, missed
from kvref.target import TargetFactory
from kvstrategies import manager_machine, profiles
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.situations.test_witnesses import ON_ORACLE
from tests.kvref.wrong_targets import lru_only, modest

RIGHT = "tests.kvref.wrong_targets:right"


@pytest.fixture(autouse=True)
def _collect_nothing_beside(monkeypatch):
    """Not for the session of this suite either."""
    monkeypatch.setattr(collector, "_session", None)
    monkeypatch.setattr(collector, "_held", set())
    yield
    collector.stop()


def run_campaign(factory, runs: int = 3, at: int = 1, **options) -> Totals:
    totals = Totals()
    start = start_locally(factory, 10.0)
    list(islice(campaign(start, factory, at, totals, **options), runs))
    return totals


def run_machine(target, examples: int = 10) -> None:
    case = manager_machine(target).TestCase
    case.settings = settings(
        max_examples=examples, stateful_step_count=20, database=None, derandomize=True,
        deadline=None, phases=[Phase.generate],
    )  # fmt: skip
    case("runTest").debug()


class TestCollector:
    def test_while_it_is_off_nothing_is_collected(self):
        run_campaign(modest)
        assert collector.counting(modest) is None
        assert collector.stop() == []

    def test_campaigns_feed_it_by_machine_and_target(self):
        collector.start()
        totals = run_campaign(modest)
        run_campaign(ON_ORACLE["requests"])
        manager, requests = collector.stop()
        assert manager.operations == totals.accepted + totals.refused
        assert (manager.runs, manager.skipped) == (3, totals.skipped)
        assert (manager.machine, requests.machine) == ("manager", "requests")
        assert manager.target == "tests.kvref.oracle_target:OracleTarget"
        assert collector.stop() == []

    def test_machines_feed_it_under_the_name_that_they_were_made_with(self):
        collector.start()
        run_machine(RIGHT)
        run_machine(lru_only)
        named, unnamed = collector.stop()
        assert named.target == RIGHT
        assert named.runs >= 10
        assert named.situations["insert-of-no-page"].met + named.accepted["insert"] > 0
        assert unnamed.promises == lru_only.promises

    def test_one_target_in_two_promises_is_two(self):
        collector.start()
        run_campaign(TargetFactory(OracleTarget))
        run_campaign(TargetFactory(OracleTarget, Promises(namespaces=False)))
        one, other = collector.stop()
        assert one.target == other.target
        assert one.promises != other.promises

    def test_a_new_start_drops_what_was_collected(self):
        collector.start()
        run_campaign(modest)
        collector.start()
        assert collector.stop() == []

    def test_what_workers_collected_is_put_together(self):
        sent = []
        for at in (1, 2):
            collector.start()
            run_campaign(modest, at=at)
            run_campaign(ON_ORACLE["requests"], at=at)
            sent.append(encode(collector.stop()))
        merged = collector.merged(tally for each in sent for tally in decode(each))
        assert [each.machine for each in merged] == ["manager", "requests"]
        collector.start()
        for at in (1, 2):
            run_campaign(modest, at=at)
            run_campaign(ON_ORACLE["requests"], at=at)
        assert merged == collector.stop()

    def test_a_campaign_that_counts_for_itself_feeds_nobody_else(self):
        collector.start()
        mine = Counting("mine", modest.promises)
        run_campaign(modest, counting=mine)
        assert mine.tally().runs == 3
        assert collector.stop() == []


class TestTheSession:
    def test_it_collects_what_nobody_else_does(self):
        collector.start_session()
        run_campaign(modest)
        collector.start()
        run_campaign(modest, runs=2)
        (inner,) = collector.stop()
        run_campaign(modest, runs=1)
        ((tally, held),) = collector.stop_session()
        assert (inner.runs, tally.runs, held) == (2, 4, False)
        assert collector.stop_session() == []

    def test_a_target_is_held_to_what_is_required_where_a_suite_says_so(self):
        collector.start_session()
        run_campaign(modest)
        run_campaign(lru_only, counting=collector.counting(lru_only, "mine", held=True))
        found = collector.stop_session()
        assert [(tally.target, held) for tally, held in found] == [
            ("tests.kvref.oracle_target:OracleTarget", False), ("mine", True),
        ]  # fmt: skip
        collector.start_session()
        run_campaign(lru_only, counting=collector.counting(lru_only, "mine"))
        assert [held for _, held in collector.stop_session()] == [False]

    def test_what_somebody_collects_for_themselves_is_not_held(self):
        collector.start_session()
        collector.start()
        collector.counting(modest, held=True)
        collector.stop()
        run_campaign(modest)
        assert [held for _, held in collector.stop_session()] == [False]


class TestCounting:
    def test_many_kinds_of_operations_are_summed_up_on_the_way(self, monkeypatch):
        def tally():
            mine = Counting("mine", Promises())
            run_campaign(TargetFactory(OracleTarget), counting=mine)
            return mine.tally()

        at_once = tally()
        monkeypatch.setattr(counting, "_SUM_UP_AT", 10)
        assert tally() == at_once

    def test_it_may_be_asked_in_between(self):
        mine = Counting("mine", modest.promises)
        run_campaign(modest, counting=mine)
        assert mine.tally() == mine.tally()
        before = mine.tally().operations
        run_campaign(modest, counting=mine)
        assert mine.tally().operations > before

    def test_it_may_watch_some_of_the_runs_alone(self):
        all_runs = Counting("mine", Promises())
        run_campaign(TargetFactory(OracleTarget), runs=1, counting=all_runs)
        some = Counting("mine", Promises(), every=3)
        run_campaign(TargetFactory(OracleTarget), runs=3, counting=some)
        assert some.tally() == all_runs.tally()
        run_campaign(TargetFactory(OracleTarget), runs=4, counting=some)
        assert some.tally().runs == 3

    def test_an_interrupted_run_is_counted_as_far_as_it_got(self):
        class Interrupted(OracleTarget):
            def evict(self, size):
                raise KeyboardInterrupt

        mine = Counting("mine", Promises())
        with pytest.raises(KeyboardInterrupt):
            run_campaign(TargetFactory(Interrupted), runs=99, at=2, counting=mine)
        assert mine.tally().operations > 0


class TestTheGenerators:
    def test_without_its_evict_rules_a_generator_is_found_out_by_name(self, monkeypatch):
        for rule in ("evict_some", "evict_exactly", "evict_nothing", "evict_too_much"):
            monkeypatch.setitem(composer._WEIGHTS, rule, 0)
        monkeypatch.setattr("kvref.campaign.drain", lambda judge: iter(()))
        mine = Counting("mine", Promises())
        run_campaign(TargetFactory(OracleTarget), runs=150, counting=mine)
        never = missed(mine.tally())
        evictions = [each.id for each in SITUATIONS.values() if each.group == "evict"]
        misuse = {"evict-of-no-number", "evict-of-less-than-nothing"}
        assert set(evictions) - misuse <= set(never)
        assert "match-finds-all" not in never

    @pytest.mark.parametrize("machine", ["manager", "requests"])
    def test_the_campaign_meets_all_that_is_required(self, machine):
        """At a tenth of what a fuzz may fail for, and of what it does in its 20 seconds.

        What was met stays met, so it ends where that is all.
        """
        mine, totals = Counting("mine", ON_ORACLE[machine].promises), Totals()
        start = start_locally(ON_ORACLE[machine], 10.0)
        runs = campaign(start, ON_ORACLE[machine], 1, totals, counting=mine)
        for run, failure in enumerate(islice(runs, 400), start=1):
            assert failure is None
            if run % 25 == 0 and not missed(mine.tally()):
                break
        assert missed(mine.tally()) == []

    def test_the_shards_of_the_state_machine_meet_all_that_is_required(self):
        """Four of them; those after the one with which everything was met add nothing to that."""
        profiles.register()
        once = settings(
            settings.get_profile("kv-ci"), phases=[Phase.generate], database=None,
            print_blob=False,
        )  # fmt: skip
        tallies = []
        for shard in range(4):
            collector.start()
            case = seed(shard)(manager_machine(RIGHT)).TestCase
            case.settings = once
            case("runTest").debug()
            tallies = collector.merged([*tallies, *collector.stop()])
            if not missed(tallies[0]):
                break
        (tally,) = tallies
        assert missed(tally) == []
