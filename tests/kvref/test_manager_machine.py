"""What traces and shrinking know of operations on a bare manager."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvref.campaign import Totals, campaign, start_locally
from kvref.composer import Composer
from kvref.configuration import Configuration
from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.machine import Program, keep, unsuited
from kvref.manager_machine import MANAGER, ManagerBench, rightly_owned
from kvref.operations import FOREIGN, NOT_A_HANDLE, Evict, Insert, Lock, Match, Reset, Unlock
from kvref.oracle import Oracle
from kvref.promises import Promises
from kvref.refusals import Refused
from kvref.registry import UnknownTarget
from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.wrong_targets import ForgetsRecency

PROGRAM = Program(
    (
        Insert((7, 7 + 2**32, -1, 5), (6, 7, 2, 3), "b", "int64-strided"),
        Insert((4, 4, -(2**63), 9, 1), (8, 9, 12, 13, 4), "a"),
        Match((7, 7 + 2**32, 3, 3), "b", "int64-strided"), Lock(2), Match((9,)), Lock(4),
        Lock(FOREIGN), Evict(3), Evict(True), Unlock(2), Reset(),
    ),
    Configuration(page_size=2, num_pages=6, policy="fifo", checked=False),
)  # fmt: skip


def simplified(program: Program, promises: Promises | None = None) -> list[list[Program]]:
    return [list(each(program, promises or Promises())) for each in MANAGER.passes]


def programs(count: int) -> list[Program]:
    """Random programs of the campaign's own."""
    found = []
    for number in range(count):
        configuration = Configuration(page_size=1 + number % 3, num_pages=6, checked=number % 4 > 0)
        executor = LocalExecutor(OracleTarget(configuration), None)
        judge = Judge(executor, configuration, look_every=10**9)
        composer = Composer(Random(number), judge)
        for operation in composer.program():
            judge.apply(operation)
        found.append(Program(tuple(judge.operations), configuration))
    return found


class TestSimplifications:
    def test_each_is_of_a_smaller_size(self):
        for program in (PROGRAM, *programs(3)):
            for each in simplified(program):
                assert all(MANAGER.size(one) < MANAGER.size(program) for one in each)

    def test_each_can_be_written_and_read_again(self):
        for program in (PROGRAM, *programs(1)):
            for one in (one for each in simplified(program) for one in each):
                for operation in one.operations:
                    assert MANAGER.decode(MANAGER.encode(operation)) == operation

    def test_every_pass_finds_something_in_a_rich_program(self):
        assert all(simplified(PROGRAM))

    @pytest.mark.parametrize(
        ("what", "simple"),
        [
            ("a smaller page", lambda p: p.configuration.page_size == 1),
            ("the usual policy", lambda p: p.configuration.policy == "lru"),
            ("checked", lambda p: p.configuration.checked),
            ("a smaller pool", lambda p: p.configuration.num_pages < 6),
            ("no namespace", lambda p: not any(getattr(o, "namespace", 0) for o in p.operations)),
            ("a token in its place", lambda p: p.operations[0].namespace is None
                and p.operations[0].tokens[0] == 0),
            ("carried plainly", lambda p: p.operations[0].carried == "int64"),
            ("shorter", lambda p: len(p.operations[0].tokens) == 2),
            ("empty", lambda p: p.operations[0].tokens == ()),
            ("another handle", lambda p: p.operations[5] == Lock(2)),
            ("a smaller evict", lambda p: Evict(1) in p.operations),
            ("fewer distinct tokens", lambda p: p.operations[0].tokens[:2] in ((7, 7), (0, 0))),
            ("its upper half alone", lambda p: 2**32 in getattr(p.operations[0], "tokens", ())),
            ("smaller slots", lambda p: p.operations[0].slots[:2] == (0, 1)),
            ("an insert and what evicts it", lambda p: Evict(1) in p.operations[:7]),
        ],
    )  # fmt: skip
    def test_what_there_is(self, what, simple):
        assert any(simple(one) for each in simplified(PROGRAM) for one in each), what

    def test_two_evictions_in_one_and_a_handle_after_them(self):
        program = Program(
            (Insert((1, 2), (0, 1)), Evict(1), Evict(1), Match((1,)), Lock(3)), Configuration()
        )
        assert any(
            one.operations == (Insert((1, 2), (0, 1)), Evict(2), Match((1,)), Lock(2))
            for each in simplified(program)
            for one in each
        )

    def test_only_what_the_target_promises(self):
        promises = Promises(page_sizes=(2,), policies=("fifo",), checked_inserts=False)
        for one in simplified(PROGRAM, promises)[0]:
            assert one.configuration.page_size == 2
            assert one.configuration.policy == "fifo"
            assert not one.configuration.checked

    def test_a_part_page_stays_a_part_page_on_smaller_pages(self):
        program = Program(
            (Insert((1, 2, 3, 4, 5), (0, 1, 2, 3, 4)), Match((1, 2, 3)), Evict(3), Evict(-1)),
            Configuration(page_size=3),
        )
        smaller = [one for one in simplified(program)[0] if one.configuration.page_size == 2]
        assert smaller[0].operations[:3] == (
            Insert((1, 2, 4), (0, 1, 2)), Match((1, 2)), Evict(2),
        )  # fmt: skip
        assert smaller[1].operations[:2] == (Insert((2, 3, 5), (0, 1, 2)), Match((2, 3)))

    def test_slots_past_the_end_stay_past_it(self):
        program = Program((Insert((1,), (8,)), Insert((2,), (-1,))), Configuration())
        smaller = simplified(program)[0][0]
        assert smaller.configuration.num_pages == 1
        assert smaller.operations == (Insert((1,), (1,)), Insert((2,), (-1,)))
        canonical = MANAGER.canonical(program)
        assert canonical.operations == (Insert((0,), (8,)), Insert((1,), (-1,)))

    def test_nothing_is_simpler_than_nothing(self):
        assert not any(simplified(Program((), Configuration(num_pages=1))))
        assert not any(
            simplified(Program((Reset(), Lock(NOT_A_HANDLE)), Configuration(num_pages=1)))
        )


class TestCanonical:
    def test_names_are_numbered_as_they_occur(self):
        assert MANAGER.canonical(PROGRAM).operations[:2] == (
            Insert((0, 1, 2, 3), (0, 1, 2, 3), "a", "int64-strided"),
            Insert((4, 4, 5, 6, 7), (4, 5, 12, 13, 6), "b"),
        )

    def test_it_is_its_own_canonical_form(self):
        for program in (PROGRAM, *programs(5)):
            canonical = MANAGER.canonical(program)
            assert MANAGER.canonical(canonical) == canonical

    def test_other_names_give_the_same(self):
        one = Program((Insert((5, 6), (3, 1), "x"), Match((6,), "x")), Configuration())
        two = Program((Insert((9, 2), (0, 7), "y"), Match((2,), "y")), Configuration())
        assert MANAGER.canonical(one) == MANAGER.canonical(two)

    def test_it_runs_alike(self):
        for program in programs(8):
            for target in (OracleTarget, ForgetsRecency):
                bench = ManagerBench(TargetFactory(target), look_every=64)
                one, two = bench.run(program), bench.run(MANAGER.canonical(program))
                assert (one and (one.kind, one.index)) == (two and (two.kind, two.index))


class TestOwnership:
    """An unchecked manager trusts its caller: a program that deceives it says nothing."""

    @given(st.data())
    def test_it_is_what_a_checked_oracle_takes(self, data):
        program = data.draw(st.sampled_from(PROGRAMS))
        oracle = Oracle(Configuration(page_size=program.configuration.page_size, num_pages=6))
        places = st.lists(st.integers(-2, 20), max_size=6)
        for operation in program.operations:
            if not isinstance(operation, Insert):
                continue
            slots = list(operation.slots)
            if slots and data.draw(st.booleans()):
                slots[data.draw(st.integers(0, len(slots) - 1))] = data.draw(st.integers(-1, 20))
            insert = Insert(operation.tokens, tuple(slots) or tuple(data.draw(places)))
            rightly = rightly_owned(oracle, insert)
            try:
                oracle.insert_prefix(insert.tokens, insert.slots)
                assert rightly
            except Refused:
                assert not rightly or len(insert.tokens) != len(insert.slots)

    def test_such_a_program_has_no_difference(self):
        program = Program(
            (Insert((1,), (0,)), Insert((2,), (0,)), Evict(1)), Configuration(checked=False)
        )
        bench = ManagerBench(TargetFactory(ForgetsRecency), look_every=1)
        assert bench.run(program) is None
        assert len(bench.judge.operations) == 1


class TestRepair:
    def test_slots_are_chosen_anew_where_they_are_taken(self):
        program = Program(
            (Insert((1, 2), (0, 1)), Insert((3, 4), (1, 2)), Insert((1, 2, 5), (3, 0, 4))),
            Configuration(num_pages=8),
        )
        assert MANAGER.repaired(program, Promises()).operations == (
            Insert((1, 2), (0, 1)), Insert((3, 4), (3, 2)), Insert((1, 2, 5), (0, 1, 4)),
        )  # fmt: skip

    def test_where_the_pool_is_full_it_stays_as_it_is(self):
        program = Program((Insert((1, 2), (0, 1)), Insert((3,), (0,))), Configuration(num_pages=2))
        assert MANAGER.repaired(program, Promises()) == program

    def test_part_pages_and_wrong_lengths_and_what_is_right_stay(self):
        program = Program(
            (Insert((1, 2, 3), (0, 1, 2)), Insert((4, 5, 6), (0, 1, 4)), Insert((1,), ()),
             Evict(True), Evict(99), Lock(FOREIGN), Reset()),
            Configuration(page_size=2, num_pages=3),
        )  # fmt: skip
        assert MANAGER.repaired(program, Promises()).operations == (
            program.operations[0], Insert((4, 5, 6), (2, 3, 4)), *program.operations[2:],
        )  # fmt: skip

    def test_evictions_are_cut_to_what_there_is(self):
        program = Program((Insert((1, 2), (0, 1)), Evict(5)), Configuration())
        assert MANAGER.repaired(program, Promises()).operations[1] == Evict(2)

    def test_a_manager_that_keeps_nothing_needs_none(self):
        assert MANAGER.repaired(PROGRAM, Promises(keeps_prefixes=False)) is PROGRAM

    def test_less_is_refused_after_it(self):
        """Of what is left when a quarter is left out, as the shrinker does it."""

        def refused(indices: list[int], program: Program) -> int:
            bench = ManagerBench(TargetFactory(OracleTarget), look_every=10**9)
            operations = keep(MANAGER, program.operations, indices)
            rest = Program(operations, program.configuration)
            assert bench.run(rest) is None
            plain = len(bench.judge.refused)
            assert bench.run(MANAGER.repaired(rest, Promises())) is None
            return plain - len(bench.judge.refused)

        fewer = 0
        for program in programs(24):
            program = MANAGER.untangled(program, Promises())
            if program.configuration.checked:
                quarter = len(program.operations) // 4
                kept = [*range(quarter), *range(2 * quarter, len(program.operations))]
                partners = MANAGER.partners(program)
                fewer += refused([i for i in kept if partners.get(i, i) in kept], program)
        assert fewer > 0


class TestPartners:
    OPERATIONS = (
        Insert((1, 2), (0, 1)), Match((1,)), Lock(1), Match((1,)), Lock(3), Unlock(1),
        Unlock(1), Unlock(1), Lock(1), Lock(FOREIGN), Unlock(FOREIGN), Match((9,)), Lock(11),
        Unlock(3),
    )  # fmt: skip

    def test_an_unlock_is_made_to_name_what_its_lock_named(self):
        program = Program(self.OPERATIONS, Configuration())
        untangled = MANAGER.untangled(program, Promises()).operations
        assert untangled[:5] == self.OPERATIONS[:5]
        assert untangled[5:8] == (Unlock(3), Unlock(1), Unlock(1))  # the last one is refused
        assert untangled[8:] == (*self.OPERATIONS[8:13], Unlock(1))

    def test_it_runs_alike(self):
        for program in programs(12):
            bench = ManagerBench(TargetFactory(OracleTarget), look_every=10**9)
            bench.run(program)
            refused = bench.judge.refused
            bench.run(MANAGER.untangled(program, Promises()))
            assert bench.judge.refused == refused

    def test_a_lock_goes_with_the_unlock_of_the_same_handle(self):
        program = Program(self.OPERATIONS, Configuration())
        untangled = MANAGER.untangled(program, Promises())
        assert MANAGER.partners(untangled) == {
            2: 6, 6: 2, 4: 5, 5: 4, 8: 13, 13: 8, 9: 10, 10: 9,
        }  # fmt: skip

    def test_a_manager_that_keeps_nothing_has_nothing_to_untangle(self):
        assert MANAGER.untangled(PROGRAM, Promises(keeps_prefixes=False)) is PROGRAM


class TestBench:
    def test_in_this_process_and_in_one_of_its_own_alike(self):
        factory = TargetFactory(ForgetsRecency)
        runs = campaign(start_locally(factory, 10.0), factory, 1, Totals())
        failure = next(failure for failure in islice(runs, 99) if failure is not None)
        program = Program(failure.operations, failure.configuration)
        name = "tests.kvref.wrong_targets:ForgetsRecency"
        for isolate in (False, True):
            with MANAGER.bench(name, seconds=10.0, isolate=isolate, look_every=256) as bench:
                assert bench.run(program) == failure.divergence

    def test_an_unknown_target(self):
        with (
            pytest.raises(UnknownTarget),
            MANAGER.bench("nothing", seconds=1.0, isolate=False, look_every=1),
        ):
            pass

    @pytest.mark.parametrize(
        ("promises", "why"),
        [
            ({}, None),
            ({"page_sizes": (1, 2)}, None),
            ({"page_sizes": (1,)}, "a page size of 2"),
            ({"policies": ("lru",)}, "policy fifo"),
        ],
    )
    def test_a_target_that_does_not_suit(self, promises: dict[str, Any], why):
        found = unsuited(PROGRAM.configuration, Promises(**promises))
        assert (found is None) if why is None else found.startswith(why)


PROGRAMS = programs(8)
