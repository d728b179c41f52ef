"""Machines as test classes, and that they fail on a wrong target with a program in the text."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

import pytest

from kvref.configuration import Configuration
from kvref.machine import Program
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.operations import Evict, Insert, Match
from kvref.target import TargetFactory
from kvref.traces.reader import read
from kvstrategies import ManagerMachine, manager_machine, manager_shards
from kvstrategies import failures as failing
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.wrong_targets import BusyLoop, ForgetsRecency, lru_only, modest, right
from tests.strategies.running import run_machine

RIGHT = "tests.kvref.wrong_targets:right"


class TestShards:
    def test_each_is_a_class_of_its_own_with_its_name_and_module(self):
        found = manager_shards(RIGHT, name="Mine", shards=3, module="tests.here")
        assert list(found) == ["TestMineShard0", "TestMineShard1", "TestMineShard2"]
        assert len(set(found.values())) == 3
        for name, case in found.items():
            assert (case.__name__, case.__qualname__, case.__module__) == (name, name, "tests.here")
            assert issubclass(case, unittest.TestCase)

    def test_without_a_module_they_stay_where_they_were_made(self):
        (case,) = manager_shards(right, shards=1).values()
        assert case.__module__ != ""

    def test_pytest_collects_each(self, pytester_path):
        names = pytester_path(
            "from kvstrategies import manager_shards\n"
            f"globals().update(manager_shards({RIGHT!r}, shards=2, module=__name__))\n"
        )
        assert names == ["TestManagerShard0::runTest", "TestManagerShard1::runTest"]

    @pytest.fixture
    def pytester_path(self, tmp_path, request):
        """What a module of this source is collected as."""

        def collect(source: str) -> list[str]:
            path = tmp_path / "test_collected_shards.py"
            path.write_text(source)
            module = pytest.Module.from_parent(request.session, path=path)
            return [
                f"{case.name}::{test.name}" for case in module.collect() for test in case.collect()
            ]

        return collect

    def test_two_targets_do_not_share_a_factory(self):
        one, other = manager_machine(right), manager_machine(lru_only)
        assert (one.factory, other.factory) == (right, lru_only)
        assert one.__name__ == "Manager"
        assert not hasattr(ManagerMachine, "factory")


@pytest.fixture(autouse=True)
def failures(tmp_path, monkeypatch):
    """Where failures are written to."""
    folder = tmp_path / "failures"
    monkeypatch.setattr(ManagerMachine, "failures", folder)
    return folder


def run(target: TargetFactory | str, *, seconds: float = 10.0, examples: int = 60) -> None:
    run_machine(manager_machine(target), seconds=seconds, examples=examples)


def said(bench: ManagerBench, text: str, target: str | None, folder: Path) -> str:
    return str(failing.shorter(MANAGER, bench, bench.judge, text, target, folder))


class TestTheMachine:
    @pytest.mark.parametrize("factory", [right, lru_only, modest], ids=["all", "lru", "modest"])
    def test_on_a_right_target_it_passes(self, factory):
        run(factory, examples=20)

    def test_on_a_wrong_target_it_fails_with_a_short_program(self, failures):
        with pytest.raises(AssertionError) as caught:
            run("tests.kvref.wrong_targets:ForgetsRecency", examples=300)
        text = str(caught.value)
        assert text.startswith(("victims at operation", "reset-slots at operation"))
        assert "  expected: [" in text
        assert re.search(r"the program \(from \d+ operations\):\n", text)
        assert "cache = RadixCacheManager(" in text
        *program, _, last = text.splitlines()
        assert program[-1].startswith(("cache.evict(", "cache.reset("))
        (path,) = failures.glob("*.jsonl")
        assert last == f"replay it: kvref replay {path} tests.kvref.wrong_targets:ForgetsRecency"
        trace = read(path)
        assert len(trace.program.operations) <= 4
        assert trace.header.target == "tests.kvref.wrong_targets:ForgetsRecency"
        assert trace.divergence is not None

    def test_a_target_without_a_name_has_to_be_named_to_replay_it(self):
        with pytest.raises(AssertionError, match=r"jsonl module:factory\n"):
            run(TargetFactory(ForgetsRecency), examples=300)

    def test_the_program_of_hypothesis_is_shown_where_it_is_the_shorter(self, failures):
        class NothingToShrink(OracleTarget):
            """Its very first insert fails, and what it inserts is empty in the end."""

            def insert_prefix(self, *_, **__):
                return -1

        program = Program((Insert((), ()),), Configuration(num_pages=1))
        bench = ManagerBench(TargetFactory(NothingToShrink), look_every=1)
        bench.run(program)
        text = said(bench, "its own text", None, failures)
        assert text.startswith(f"its own text\nreplay it: kvref replay {failures}")

    def test_what_does_not_fail_again_is_said(self, failures):
        program = Program((Insert((), ()),), Configuration(num_pages=1))
        bench = ManagerBench(right, look_every=1)
        bench.run(program)
        text = said(bench, "its own text", None, failures)
        assert text == "its own text\n\nkvref: it did not fail when it was run again"

    def test_a_file_that_cannot_be_written_hides_no_failure(self, tmp_path):
        (tmp_path / "file").touch()
        bench = ManagerBench(TargetFactory(ForgetsRecency), look_every=1)
        operations = (Insert((0, 1), (0, 1)), Insert((2,), (2,)), Match((0,)), Evict(2))
        bench.run(Program(operations, Configuration(num_pages=4)))
        text = said(bench, "its own text", None, tmp_path / "file")
        assert "NOT written: " in text

    def test_a_hang_is_a_failure_too(self):
        with pytest.raises(AssertionError, match="hang at operation"):
            run(TargetFactory(BusyLoop), seconds=0.05)

    def test_what_no_rule_noticed_shows_at_the_end(self):
        class LosesTheLast(OracleTarget):
            """Wrong only where everything is evicted."""

            def evict(self, size):
                freed = super().evict(size)
                return freed if self.oracle.nodes() else freed[:-1]

        with pytest.raises(AssertionError, match="victims at operation"):
            run(TargetFactory(LosesTheLast))

    def test_before_its_start_it_can_be_torn_down(self):
        manager_machine(right)().teardown()
