"""The machine over requests as test classes, and that it fails on wrong lives with a program."""

from __future__ import annotations

import re

import pytest
from hypothesis import find, settings

from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.operations import Finish
from kvref.requests.promises import RequestPromises
from kvref.requests.target import RequestTargetFactory
from kvref.situations import collector
from kvref.traces.reader import read
from kvstrategies import (
    RequestMachine,
    request_configurations,
    request_machine,
    request_shards,
)
from kvstrategies.request_engine import Engine, choices
from kvstrategies.sequences import Recipe
from tests.kvref.requests.wrong_lives import (
    PROMISES,
    Hangs,
    LeaksOnAbort,
    Life,
    LocksTwice,
    PublishesUnknown,
    right,
)
from tests.strategies.running import run_machine


@pytest.fixture(autouse=True)
def failures(tmp_path, monkeypatch):
    """Where failures are written to."""
    folder = tmp_path / "failures"
    monkeypatch.setattr(RequestMachine, "failures", folder)
    return folder


def run(target: RequestTargetFactory | str, *, seconds: float = 10.0, examples: int = 100) -> None:
    run_machine(request_machine(target), seconds=seconds, examples=examples)


class TestShards:
    def test_each_is_a_class_of_its_own_with_its_name_and_module(self):
        found = request_shards(right, name="Mine", shards=2, module="tests.here")
        assert list(found) == ["TestMineShard0", "TestMineShard1"]
        assert len(set(found.values())) == 2
        assert {case.__module__ for case in found.values()} == {"tests.here"}

    def test_a_name_is_found_and_kept_for_the_file_of_a_failure(self):
        machine = request_machine("tests.kvref.requests.wrong_lives:right", "Named")
        assert (machine.__name__, machine.factory) == ("Named", right)
        assert machine.target == "tests.kvref.requests.wrong_lives:right"
        assert request_machine(right).target is None
        assert not hasattr(RequestMachine, "factory")


class TestTheMachine:
    @pytest.mark.parametrize(
        "promises",
        [
            PROMISES,
            RequestPromises(refused_begin="match", namespaces=False, checked_inserts=False),
            RequestPromises(refused_begin="match", policies=("fifo",), page_sizes=(3,)),
        ],
        ids=["all", "no namespaces", "one policy, one page size"],
    )
    def test_on_a_right_life_it_passes(self, promises):
        run(RequestTargetFactory(Life, promises), examples=20)

    def test_on_a_wrong_life_it_fails_with_a_short_program(self, failures):
        with pytest.raises(AssertionError) as caught:
            run("tests.kvref.requests.wrong_lives:leaks")
        text = str(caught.value)
        assert text.startswith("free-pages at operation ")
        assert re.search(r"the program \(from \d+ operations\):\n", text)
        *program, _, last = text.splitlines()
        assert re.fullmatch(r"r0\.(abort|preempt)\(\)", program[-1])
        (path,) = failures.glob("*.jsonl")
        assert last == f"replay it: kvref replay {path} tests.kvref.requests.wrong_lives:leaks"
        trace = read(path)
        assert len(trace.program.operations) == 2
        assert trace.header.target == "tests.kvref.requests.wrong_lives:leaks"

    @pytest.mark.parametrize(
        ("life", "words"),
        [
            (LeaksOnAbort, "free-pages at operation"),
            (LocksTwice, "at operation"),
            (PublishesUnknown, "at operation"),
        ],
    )
    def test_each_of_these_is_found(self, life, words):
        # Hypothesis draws constants of whatever modules are there, so not the same in each session.
        with pytest.raises(AssertionError, match=words):
            run(RequestTargetFactory(life, PROMISES), examples=500)

    def test_a_hang_is_a_failure_too(self):
        with pytest.raises(AssertionError, match="hang at operation"):
            run(RequestTargetFactory(Hangs, PROMISES), seconds=0.05)

    def test_what_no_rule_noticed_shows_at_the_end(self):
        class LosesTheLast(Life):
            """Wrong only where nothing runs any more."""

            def flush(self):
                slots = self.manager.reset()
                self.give_back(slots if self.running else slots[: -self.size])

        with pytest.raises(AssertionError, match="at operation"):
            run(RequestTargetFactory(LosesTheLast, PROMISES))

    def test_before_its_start_it_can_be_torn_down(self):
        request_machine(right)().teardown()

    def test_its_situations_are_counted_where_they_are_collected(self):
        collector.start()
        try:
            run("tests.kvref.requests.wrong_lives:right", examples=30)
        finally:
            (tally,) = collector.stop()
        assert tally.about[:2] == ("requests", "tests.kvref.requests.wrong_lives:right")
        assert tally.runs >= 30
        met = [name for name, each in tally.situations.items() if each.met]
        assert len(met) > len(tally.situations) / 2


def engine(configuration: RequestConfiguration) -> Engine:
    executor = LocalRequestExecutor(right(configuration), None)
    judge = RequestJudge(executor, configuration, right.promises)
    return Engine(judge, (0, 1, 2), (None,), AssertionError)


class TestTheEngine:
    def test_choices_take_a_number_apart(self):
        assert choices(5 + 7 * (2 + 3 * 11), 7, 3) == [5, 2, 11]

    def test_where_two_begins_found_no_room_one_that_runs_is_ended(self):
        hands = engine(RequestConfiguration(num_pages=4))
        first = hands.begin((0, 1, 2, 0), None, 0)
        assert first is not None
        hands.begin((1, 2), None, 0)
        assert first.running
        hands.begin((1, 2), None, 0)
        assert not first.running

    def test_what_was_preempted_or_refused_waits(self):
        hands = engine(RequestConfiguration(num_pages=2))
        hands.begin((0, 1), None, 0)
        hands.begin((1, 2), None, 0)
        assert [begin.tokens for begin in hands.waiting] == [(1, 2)]

    @pytest.mark.parametrize("fit", range(4))
    def test_a_fit_is_a_page_too_much_or_takes_the_cache_in_part_or_whole(self, fit):
        hands = engine(RequestConfiguration(num_pages=8))
        first = hands.begin((0, 1, 2, 0), None, 0)
        assert first is not None
        hands.store_all()
        hands.end(first, Finish)
        assert hands.judge.oracle.room() == (4, 4)
        assert hands.pages_that(fit) == 4 + (5, 4, 2, 1)[fit]

    def test_a_prompt_is_never_empty_and_leaves_room_for_others(self):
        hands = engine(RequestConfiguration(num_pages=12))
        recipe = Recipe(0, 0, pages=0, extra=0, content=2, space=0)
        assert hands.cook(recipe) == ((2,), None)
        recipe = Recipe(0, 0, pages=9, extra=0, content=0, space=0)
        assert len(hands.cook(recipe)[0]) == 4


def test_configurations_are_what_is_promised():
    promises = RequestPromises(page_sizes=(16,), policies=("fifo",), checked_inserts=False)
    found = find(
        request_configurations(promises, max_pages=5),
        lambda each: each.max_requests == 1 and each.num_pages == 5,
        settings=settings(database=None),
    )
    assert (found.page_size, found.policy, found.checked) == (16, "fifo", False)
