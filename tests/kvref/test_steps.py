"""Steps of a run as data, and how they look on a terminal."""

from __future__ import annotations

import io

import msgspec
from rich.console import Console

from kvref.cli.step_view import StepView
from kvref.configuration import Configuration
from kvref.machine import Program
from kvref.manager_machine import ManagerBench
from kvref.operations import Evict, Insert, Lock, Match
from kvref.oracle import Oracle
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.steps import Change, PoolPage, Step, walk
from kvref.target import TargetFactory
from kvref.targets.kvgpu import naive
from kvref.tree import digest, tree
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.wrong_targets import BusyLoop, ForgetsRecency

CONFIGURATION = Configuration(page_size=2, num_pages=5)
PROGRAM = Program(
    (
        Insert((1, 2, 3, 4), (0, 1, 2, 3), "a"), Insert((7, 8), (8, 9)), Match((1, 2), "a"),
        Lock(2), Evict(7), Lock(9), Evict(2),
    ),
    CONFIGURATION,
)  # fmt: skip


def steps(target=OracleTarget, program: Program = PROGRAM, **promises) -> list[Step]:
    found: list[Step] = []
    bench = ManagerBench(TargetFactory(target, Promises(**promises)), look_every=1, seconds=0.1)
    divergence = walk(bench, program, found.append)
    assert (divergence is None) == all(step.divergence is None for step in found)
    return found


def shown(found: list[Step], **options) -> str:
    stream = io.StringIO()
    view = StepView(Console(file=stream, width=200, **options))
    for step in found:
        view.show(step)
    return stream.getvalue()


class TestSteps:
    def test_one_for_each_operation_with_what_was_said(self):
        found = steps()
        assert [step.index for step in found] == list(range(7))
        assert [step.status for step in found] == [
            "accepted", "accepted", "accepted", "accepted", "refused", "skipped", "accepted",
        ]  # fmt: skip
        assert found[2].call == "h2, indices = cache.match_prefix(ids([1, 2]), namespace='a')"
        assert found[2].expected == found[2].got == "2 cached, slots [0, 1]"
        assert found[4].expected == "refused: not-evictable (needed=7, evictable=4)"
        assert found[4].got.startswith("raised NotEvictable")
        assert found[5].expected is found[5].got is None
        assert found[6].operation == {"do": "evict", "size": 2}

    def test_what_changed(self):
        found = steps()
        assert found[0].changed == (Change("cached", "a", (1, 2, 3, 4), None, 0),)
        assert found[2].changed == (Change("split", "a", (1, 2), None, 0),)
        assert found[3].changed == (Change("locks", "a", (1, 2), 0, 1),)
        assert found[4].changed == found[5].changed == ()
        assert found[6].changed == (Change("evicted", "a", (1, 2, 3, 4), 0, None),)
        again = steps(program=Program((*PROGRAM.operations[:2], Match((7, 8))), CONFIGURATION))
        assert again[2].changed == (Change("used", None, (7, 8), 2, 3),)

    def test_the_tree_after_it(self):
        before, after = steps()[3], steps()[6]
        upper, other = before.tree
        (lower,) = upper.children
        assert (upper.namespace, upper.tokens, upper.slots) == ("a", (1, 2), (0, 1))
        assert (upper.locks, upper.own_locks, upper.recency, upper.created) == (1, 1, 3, 1)
        assert (lower.tokens, lower.recency, lower.created) == ((3, 4), 1, 1)
        assert (upper.evictable, lower.evictable, other.evictable) == (False, True, True)
        assert after.tree[0].children == ()
        assert (after.evictable_size, after.protected_size) == (2, 2)

    def test_the_pool_by_owner(self):
        pool = steps()[3].pool
        assert pool[0] == PoolPage(0, "cached", (1, 2), 1)
        assert pool[1] == PoolPage(1, "cached", (3, 4), 0)
        assert pool[2:4] == (PoolPage(2, "free"), PoolPage(3, "free"))
        large = Program(PROGRAM.operations[:1], Configuration(page_size=2, num_pages=10**6))
        assert [page.number for page in steps(program=large)[0].pool] == [0, 1]

    def test_the_difference_is_in_the_last_one_alone(self):
        operations = (Insert((0, 1), (0, 1)), Insert((2,), (2,)), Match((0,)), Evict(2))
        found = steps(ForgetsRecency, Program(operations, Configuration(num_pages=4)))
        assert [step.divergence is not None for step in found] == [False, False, False, True]
        assert (found[3].expected, found[3].got) == ("slots [1, 2]", "slots [1, 0]")

    def test_nothing_came_back(self):
        found = steps(BusyLoop)
        assert found[-1].index == 4
        assert found[-1].got == "nothing within 0.1 s"

    def test_it_is_data(self):
        for step in steps():
            text = msgspec.json.encode(step)
            assert msgspec.json.decode(text)["call"] == step.call

    def test_no_operation_no_step(self):
        assert steps(program=Program((), CONFIGURATION)) == []

    def test_a_manager_that_keeps_nothing(self):
        found: list[Step] = []
        program = Program((Insert((1, 2), (0, 1)), Match((1, 2)), Evict(0)), CONFIGURATION)
        walk(ManagerBench(naive, look_every=1), program, found.append)
        assert [step.tree for step in found] == [()] * 3
        assert {page.owner for page in found[0].pool} == {"free"}


class TestDigest:
    def test_it_differs_where_anything_does(self):
        oracle = Oracle(CONFIGURATION)
        seen = [digest(oracle)]
        oracle.insert_prefix((1, 2, 3, 4), (0, 1, 2, 3))
        seen.append(digest(oracle))
        handle, _ = oracle.match_prefix((1, 2, 3, 4))
        seen.append(digest(oracle))  # used
        oracle.match_prefix((1, 2))
        seen.append(digest(oracle))  # split
        oracle.lock_handle(handle)
        seen.append(digest(oracle))
        oracle.lock_handle(handle, unlock=True)
        oracle.evict(1)
        seen.append(digest(oracle))
        assert len(set(seen)) == len(seen)
        assert all(len(each) == 16 for each in seen)

    def test_a_deep_tree_needs_no_recursion(self):
        oracle = Oracle(Configuration(num_pages=1200))
        for length in range(1, 1200):
            oracle.insert_prefix(range(length), range(length))
        (node,) = tree(oracle)
        depth = 0
        while node is not None:
            depth += 1
            node = node.children[0] if node.children else None
        assert depth == 1199


class TestOnATerminal:
    def test_plain_text_where_there_is_none(self):
        text = shown(steps())
        assert "\x1b[" not in text
        assert "   0  cache.insert_prefix(ids([1, 2, 3, 4]), slots([0, 1, 2, 3])" in text
        assert "      oracle  2 cached, slots [0, 1]\n      target  2 cached, slots [0, 1]" in text
        assert "      + [1, 2, 3, 4] of 'a'" in text
        assert "      / a node ends at [1, 2] of 'a' now" in text
        assert "      * [1, 2] of 'a': locks 0 -> 1" in text
        assert "      - [1, 2, 3, 4] of 'a'" in text
        assert "not issued: " in text
        assert "'a' [1, 2] in slots [0, 1]  locks 1 (1 its own)  used 3  created 1\n" in text
        assert "  [3, 4] in slots [2, 3]  locks 0  used 1  created 1  evictable" in text
        assert "pool  cached: 1, 4; cached and locked: 0; free: 2-3" in text
        assert "DIFFERENCE" not in text

    def test_the_difference_stands_out(self):
        operations = (Insert((0, 1), (0, 1)), Insert((2,), (2,)), Match((0,)), Evict(2))
        found = steps(ForgetsRecency, Program(operations, Configuration(num_pages=4)))
        text = shown(found)
        assert text.count("DIFFERENCE victims at operation 3, cache.evict(2)") == 1
        assert "=" * 60 in text
        assert "\x1b[1;31m" in shown(found, force_terminal=True)

    def test_the_empty_tree_and_long_sequences(self):
        long = tuple(range(40))
        found = steps(program=Program((Evict(0), Insert(long, long)), Configuration(num_pages=40)))
        text = shown(found)
        assert "(nothing is cached)" in text
        assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 16 more ..., 28, " in text

    def test_nothing_was_said(self):
        class NoPrint(OracleTarget):
            """Cannot be looked into while it refuses."""

            def fingerprint(self):
                raise RuntimeError("broken")

        found = steps(NoPrint, refuses=frozenset(RefusalKind))
        assert found[-1].got is None
        assert "target  nothing was said" in shown(found)

    def test_what_was_used(self):
        program = Program((*PROGRAM.operations[:2], Match((7, 8))), CONFIGURATION)
        assert "* [7, 8]: used 2 -> 3" in shown(steps(program=program))
