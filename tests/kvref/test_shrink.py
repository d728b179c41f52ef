"""Shrinking: shorter, failing in the same way, and always the same."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from kvref.buffers import overwritten
from kvref.campaign import Totals, campaign, start_locally
from kvref.configuration import Configuration
from kvref.divergence import Divergence, DivergenceKind
from kvref.machine import Program, keep
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.operations import FOREIGN, Evict, Insert, Lock, Match, Reset, Unlock
from kvref.promises import Promises
from kvref.shrink import NotFailing, _Shrinker, same_way, shrink
from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.wrong_targets import ForgetsRecency


class FailsOn(OracleTarget):
    """Says of an evict of 5 that nothing went, once 77 was inserted."""

    def insert_prefix(self, tokens: Any, slots: Any, **keywords: Any) -> Any:
        already = super().insert_prefix(tokens, slots, **keywords)
        self.armed = getattr(self, "armed", False) or 77 in tokens
        return already

    def evict(self, size: Any) -> Any:
        found = super().evict(size)
        return [] if getattr(self, "armed", False) and size == 5 else found


def bench(target: Any = FailsOn, look_every: int = 256, **promises: Any) -> ManagerBench:
    return ManagerBench(TargetFactory(target, Promises(**promises)), look_every=look_every)


def padded(count: int) -> Program:
    """The two that matter among others."""
    operations: list[Any] = []
    for number in range(count):
        operations += [Match((1, number)), Lock(len(operations)), Evict(0)]
    operations.insert(5, Insert((3, 77, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6)))
    operations = [
        Lock(each.handle + 1) if isinstance(each, Lock) and each.handle >= 5 else each
        for each in operations
    ]
    return Program((*operations, Evict(5), Reset(), Evict(0)), Configuration(num_pages=20))


SHORTEST = (Insert((0, 0, 77, 0, 0), (0, 1, 2, 3, 4)), Evict(5))


def failures(target: Any, seed: int, count: int) -> list[Program]:
    factory = TargetFactory(target)
    runs = campaign(start_locally(factory, 10.0), factory, seed, Totals())
    found = islice((failure for failure in runs if failure is not None), count)
    return [Program(failure.operations, failure.configuration) for failure in found]


class TestShrinking:
    def test_to_what_matters(self):
        shrunk = shrink(MANAGER, bench(), padded(20))
        assert len(shrunk.program.operations) == 2
        insert, evict = shrunk.program.operations
        assert sorted(insert.tokens) == [0, 0, 0, 0, 77]
        assert insert.slots == (0, 1, 2, 3, 4)
        assert evict == Evict(5)
        assert shrunk.program.configuration == Configuration(num_pages=5)
        assert shrunk.divergence.index == 1
        assert shrunk.finished
        assert not shrunk.interrupted

    def test_the_end_of_it_fails_in_the_same_way_on_its_own(self):
        for program in failures(ForgetsRecency, 1, 4):
            was = bench(ForgetsRecency).run(program)
            shrunk = shrink(MANAGER, bench(ForgetsRecency), program)
            again = bench(ForgetsRecency).run(shrunk.program)
            assert again == shrunk.divergence
            assert same_way(again) == same_way(was)
            assert again.index == len(shrunk.program.operations) - 1
            assert len(shrunk.program.operations) <= 4
            assert bench(OracleTarget).run(shrunk.program) is None

    def test_it_is_deterministic(self):
        for program in failures(ForgetsRecency, 2, 2):
            one, two = (shrink(MANAGER, bench(ForgetsRecency), program) for _ in range(2))
            assert one == two

    def test_what_is_shrunk_shrinks_no_further(self):
        shrunk = shrink(MANAGER, bench(), padded(20)).program
        assert shrink(MANAGER, bench(), shrunk).program == shrunk

    def test_a_long_run_is_cut_to_its_end_first(self):
        """Beside the run itself and one to see that its names can be made better."""
        ran = []

        class Counts(FailsOn):
            def match_prefix(self, *arguments: Any, **keywords: Any) -> Any:
                ran.append(1)
                return super().match_prefix(*arguments, **keywords)

        program = padded(2000)
        operations = program.operations
        last = (operations[5], *operations[-3:])  # what matters is at the end
        program = Program((*operations[:5], *operations[6:-3], *last), program.configuration)
        shrunk = shrink(MANAGER, bench(Counts), program)
        assert len(shrunk.program.operations) == 2
        assert len(ran) < 2.2 * 2000

    def test_a_long_run_whose_cause_is_at_its_begin(self):
        shrunk = shrink(MANAGER, bench(), padded(1500))
        assert len(shrunk.program.operations) == 2
        assert shrunk.tries < 400

    def test_at_first_one_try_is_all_that_a_part_of_a_very_long_run_gets(self, monkeypatch):
        shrinker = _Shrinker(MANAGER, bench(), same_way, lambda operations, tries: None)
        shrinker.best = Program(tuple(Match((n,)) for n in range(2500)), Configuration())
        tried = []
        monkeypatch.setattr(shrinker, "_fails", tried.append)
        assert not shrinker._only(range(2400))
        assert len(tried) == 1
        shrinker._one_try = False
        assert not shrinker._only(range(2400))
        assert len(tried) == 3

    def test_two_that_need_each_other_go_together(self):
        """An unlock without its lock, or a lock alone, ends the run in another way."""

        class NoLocksLeft(OracleTarget):
            """Cannot reset with something locked, and does not say which way."""

            def reset(self) -> Any:
                return [] if self.oracle.held else super().reset()

        program = Program(
            (Insert((0, 1), (0, 1)), Match((0,)), Lock(1), Match((0,)), Unlock(1), Reset()),
            Configuration(),
        )
        shrunk = shrink(MANAGER, bench(NoLocksLeft), program)
        assert [type(each) for each in shrunk.program.operations] == [Insert, Reset]

    def test_so_do_two_with_one_between_them_that_has_to_stay(self):
        class Even(OracleTarget):
            """Resets wrongly after a match, unless the evicts were odd in number."""

            matched = odd = False

            def match_prefix(self, *arguments: Any, **keywords: Any) -> Any:
                self.matched = True
                return super().match_prefix(*arguments, **keywords)

            def evict(self, size: Any) -> Any:
                self.odd = not self.odd
                return super().evict(size)

            def reset(self) -> Any:
                found = super().reset()
                return [0] if self.matched and not self.odd else found

        program = Program((Evict(0), Match(()), Evict(0), Reset()), Configuration())
        shrunk = shrink(MANAGER, bench(Even), program)
        assert shrunk.program.operations == (Match(()), Reset())

    def test_the_operation_that_fails_stays_the_last(self, monkeypatch):
        tried = []
        runs = bench()
        run = runs.run
        monkeypatch.setattr(
            runs,
            "run",
            lambda program, **options: (tried.append(program), run(program, **options))[1],
        )
        program = Program((*SHORTEST[:1], Match((1,)), *SHORTEST[1:]), Configuration(num_pages=5))
        shrink(MANAGER, runs, program)
        assert tried
        assert all(isinstance(each.operations[-1], Evict) for each in tried)

    def test_a_long_run_that_needs_what_is_wrong_in_it(self):
        """Making it right is no help there, and then it is left as it is."""

        class Misused(OracleTarget):
            """Evicts nothing once it has refused an insert."""

            misused = False

            def insert_prefix(self, *arguments: Any, **keywords: Any) -> Any:
                try:
                    return super().insert_prefix(*arguments, **keywords)
                except ValueError:
                    self.misused = True
                    raise

            def evict(self, size: Any) -> Any:
                found = super().evict(size)
                return [] if self.misused else found

        others = [Match((1, number)) for number in range(2500)]
        operations = (Insert((1,), (0,)), Insert((2,), (0,)), *others, Evict(1))
        shrunk = shrink(MANAGER, bench(Misused), Program(operations, Configuration()))
        assert [type(each) for each in shrunk.program.operations] == [Insert, Insert, Evict]

    def test_what_needs_many_operations_keeps_them(self):
        class Fourteenth(OracleTarget):
            """Returns nonsense from the fourteenth match on."""

            matches = 0

            def match_prefix(self, *arguments: Any, **keywords: Any) -> Any:
                self.matches += 1
                handle, slots = super().match_prefix(*arguments, **keywords)
                return handle, ([7] if self.matches > 13 else slots)

        operations = tuple(Match((number,)) for number in range(60))
        shrunk = shrink(MANAGER, bench(Fourteenth), Program(operations, Configuration()))
        assert shrunk.program.operations == (Match(()),) * 14


class TestTheSameWay:
    def test_kind_law_and_operation(self):
        one = Divergence(DivergenceKind.VICTIMS, "victims", 3, Evict(1), "a", "b")
        assert same_way(one) == same_way(
            Divergence(DivergenceKind.VICTIMS, "victims", 9, Evict(2), "c", "d")
        )
        for other in (
            Divergence(DivergenceKind.SIZES, "victims", 3, Evict(1), "a", "b"),
            Divergence(DivergenceKind.VICTIMS, "legal-victims", 3, Evict(1), "a", "b"),
            Divergence(DivergenceKind.VICTIMS, "victims", 3, Reset(), "a", "b"),
        ):
            assert same_way(one) != same_way(other)

    @pytest.mark.parametrize("kind", [DivergenceKind.STRUCTURE, DivergenceKind.INTEGRITY])
    def test_what_a_look_found_may_be_seen_after_any_operation(self, kind):
        assert same_way(Divergence(kind, "x", 3, Evict(1), "", "")) == same_way(
            Divergence(kind, "x", 8, Reset(), "", "")
        )

    def test_another_failure_on_the_way_is_not_taken_for_this_one(self):
        class Two(FailsOn):
            def match_prefix(self, tokens: Any, **keywords: Any) -> Any:
                handle, slots = super().match_prefix(tokens, **keywords)
                return handle, (slots if getattr(self, "armed", False) else [*slots, 0])

        program = Program(
            (Insert((77, 1, 2, 3, 4), (0, 1, 2, 3, 4)), Match((9,)), Match((9,)), Evict(5)),
            Configuration(),
        )
        shrunk = shrink(MANAGER, bench(Two), program)
        assert shrunk.divergence.kind is DivergenceKind.VICTIMS

    def test_what_is_alike_can_be_said_otherwise(self):
        was = bench().run(padded(5))
        shrunk = shrink(MANAGER, bench(), padded(5))
        assert shrunk.divergence.expected == "[0, 1, 2, 3, 4]" != was.expected
        strict = shrink(MANAGER, bench(), padded(5), alike=lambda found: found.expected)
        assert strict.divergence.expected == was.expected == "[1, 2, 3, 4, 5, 6]"
        assert len(strict.program.operations) == 2

    def test_a_program_that_agrees_is_refused(self):
        with pytest.raises(NotFailing):
            shrink(MANAGER, bench(OracleTarget), padded(3))


class TestLooks:
    class Corrupts(OracleTarget):
        """Its integrity check fails from the third insert on."""

        inserts = 0

        def insert_prefix(self, *arguments: Any, **keywords: Any) -> Any:
            self.inserts += 1
            return super().insert_prefix(*arguments, **keywords)

        def check_integrity(self) -> Any:
            assert self.inserts < 3, "damaged"

    PROGRAM = Program(
        (*(Insert((token,), (token,)) for token in range(5)), Match((0,)), Evict(1)),
        Configuration(),
    )

    def test_it_looks_after_each_operation_to_see_where_the_damage_is_done(self):
        shrunk = shrink(MANAGER, bench(self.Corrupts), self.PROGRAM)
        assert shrunk.look_every == 1
        assert [type(each) for each in shrunk.program.operations] == [Insert] * 3

    def test_unless_that_finds_something_else(self):
        class Other(self.Corrupts):
            """Its structure is wrong as long as there are two nodes."""

            def nodes(self) -> Any:
                found = super().nodes()
                return [] if len(found) == 2 else found

        shrunk = shrink(MANAGER, bench(Other), self.PROGRAM)
        assert shrunk.look_every == 256
        assert shrunk.divergence.kind is DivergenceKind.INTEGRITY
        assert len(shrunk.program.operations) == 3

    def test_at_once_if_it_looked_so_often_anyway(self):
        shrunk = shrink(MANAGER, bench(self.Corrupts, look_every=1), self.PROGRAM)
        assert (shrunk.look_every, len(shrunk.program.operations)) == (1, 3)


class TestStopping:
    def test_when_time_is_up_the_best_so_far_is_kept(self):
        shrunk = shrink(MANAGER, bench(), padded(20), seconds=0.0)
        assert not shrunk.finished
        assert not shrunk.interrupted
        assert shrunk.program.operations == padded(20).operations[:-2]  # cut at the difference

    def test_when_interrupted_the_best_so_far_is_kept(self):
        seen = []

        def progress(operations: int, tries: int) -> None:
            seen.append((operations, tries))
            if operations < 20:
                raise KeyboardInterrupt

        shrunk = shrink(MANAGER, bench(), padded(20), progress=progress)
        assert shrunk.interrupted
        assert not shrunk.finished
        assert len(shrunk.program.operations) == seen[-1][0] < 20
        assert bench().run(shrunk.program) == shrunk.divergence

    def test_when_interrupted_nothing_more_is_run(self, monkeypatch):
        tried = []
        runs = bench()
        run = runs.run

        def interrupted(program: Program, **options: Any) -> Any:
            tried.append(program)
            if len(tried) == 3:
                raise KeyboardInterrupt
            return run(program, **options)

        monkeypatch.setattr(runs, "run", interrupted)
        assert shrink(MANAGER, runs, padded(20)).interrupted
        assert len(tried) == 3

    def test_an_interrupt_of_the_last_run_loses_nothing(self, monkeypatch):
        """That with buffers left alone, when nothing more can be left out."""
        whole = shrink(MANAGER, bench(), padded(5))
        runs = bench()
        run = runs.run

        def interrupted(program: Program, **options: Any) -> Any:
            if not overwritten():
                raise KeyboardInterrupt
            return run(program, **options)

        monkeypatch.setattr(runs, "run", interrupted)
        shrunk = shrink(MANAGER, runs, padded(5))
        assert shrunk.interrupted
        assert shrunk.program == whole.program
        assert overwritten()

    def test_progress_is_told_after_every_try(self):
        seen: list[tuple[int, int]] = []
        shrunk = shrink(MANAGER, bench(), padded(5), progress=lambda *now: seen.append(now))
        assert [tries for _, tries in seen] == list(range(1, shrunk.tries + 1))
        lengths = [operations for operations, _ in seen]
        assert lengths == sorted(lengths, reverse=True)

    def test_a_target_that_cannot_be_built_so_does_not_fail_so(self):
        def build(configuration: Configuration) -> FailsOn:
            if configuration.num_pages < 9:
                raise ValueError("too small")
            return FailsOn(configuration)

        shrunk = shrink(MANAGER, bench(build), padded(5))
        assert shrunk.program.configuration.num_pages == 9
        assert len(shrunk.program.operations) == 2


class TestLeavingOut:
    OPERATIONS = (
        Match((1,)), Lock(0), Match((2,)), Lock(2), Lock(FOREIGN), Unlock(0), Unlock(2), Lock(99),
    )  # fmt: skip

    def test_what_names_what_is_gone_goes_too_and_the_rest_is_renumbered(self):
        assert keep(MANAGER, self.OPERATIONS, range(1, 8)) == (
            Match((2,)), Lock(0), Lock(FOREIGN), Unlock(0),
        )  # fmt: skip

    def test_nothing_is_renumbered_where_nothing_moved(self):
        kept = keep(MANAGER, self.OPERATIONS, range(7))
        assert all(one is other for one, other in zip(kept, self.OPERATIONS, strict=False))

    def test_none_and_all(self):
        assert keep(MANAGER, self.OPERATIONS, ()) == ()
        assert keep(MANAGER, self.OPERATIONS, range(8)) == self.OPERATIONS[:7]
