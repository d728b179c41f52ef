"""The judge beside targets with one fault each: it names each fault for what it is."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kvref.configuration import Configuration
from kvref.divergence import DivergenceKind
from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.laws import LAWS
from kvref.naive_oracle import NaiveOracle
from kvref.operations import FOREIGN, NOT_A_HANDLE, Evict, Insert, Lock, Match, Reset, Unlock
from kvref.oracle import Handle, Oracle
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from tests.kvref.oracle_target import NAMED, OracleTarget, judge_of
from tests.kvref.requests import test_request_judge
from tests.kvref.wrong_targets import Accepts, BusyLoop, ForgetsRecency, SysExits

KIND = DivergenceKind
TREE = (Insert((0, 1), (0, 1)), Insert((0, 2), (0, 2)), Match((0, 1)))


def first_difference(target, *operations, **options):
    """Kind, law, index, expected and got; the run must diverge at its last operation."""
    judge = judge_of(target, *operations, **options)
    found = judge.divergence
    assert found is not None, "no divergence"
    assert found.index == len(judge.operations) - 1 == len(operations) - 1
    assert found.operation == operations[-1]
    assert found.law in LAWS
    return found.kind, found.law, found.expected, found.got


def clean(target, *operations, **options) -> Judge:
    """The judge of a run that must not diverge."""
    judge = judge_of(target, *operations, **options)
    assert judge.divergence is None, judge.divergence
    assert judge.operations == list(operations)
    return judge


def changed(method: str, change: Any, base: type[OracleTarget] = OracleTarget) -> OracleTarget:
    """A target whose `method` returns `change(result)`."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return change(getattr(base, method)(self, *args, **kwargs))

    return type("Changed", (base,), {method: call})()


def raising(method: str, error: Exception) -> OracleTarget:
    """A target whose `method` raises."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        raise error

    return type("Raising", (OracleTarget,), {method: call})()


class Opaque:
    """A target that cannot be looked into, over another one."""

    def __init__(self, target: OracleTarget) -> None:
        self._target = target
        for name in (
            "match_prefix", "insert_prefix", "lock_handle", "evict", "reset", "sizes",
            "check_integrity", "foreign_handle", "configuration",
        ):  # fmt: skip
            setattr(self, name, getattr(target, name))


class TestARightTarget:
    def test_a_run_of_all_operations_diverges_nowhere_and_each_law_is_counted(self):
        judge = clean(
            OracleTarget(),
            *TREE, Lock(2), Match((0, 1)), Unlock(4), Evict(1), Evict(9), Lock(2), Reset(),
            Unlock(2), Reset(), Lock(2), Lock(FOREIGN), Lock(NOT_A_HANDLE), Unlock(FOREIGN),
            Evict(True), seconds=5.0,
        )  # fmt: skip
        assert (judge.accepted, len(judge.refused), len(judge.skipped)) == (10, 7, 0)
        assert judge.judged == {
            "accepts": 10, "refusals": 7, "refused-unchanged": 7, "sizes": 17, "structure": 17,
            "integrity": 17, "answers-in-time": 17, "match-length": 2, "match-slots": 2,
            "already-cached": 2, "victims": 1, "reset": 1, "handles": 1,
        }  # fmt: skip

    def test_what_no_time_limit_was_set_for_is_not_said_to_have_kept_it(self):
        assert clean(OracleTarget(), *TREE).judged["answers-in-time"] == 0

    @pytest.mark.parametrize("page_size", [1, 2, 3])
    @pytest.mark.parametrize("policy", ["lru", "fifo"])
    def test_whole_pages_and_part_pages(self, page_size, policy):
        configuration = Configuration(page_size=page_size, policy=policy)
        tokens = tuple(range(2 * page_size)) + (0,) * (page_size - 1)
        clean(
            OracleTarget(configuration),
            Insert(tokens, tuple(range(len(tokens)))), Match(tokens), Match(tokens[:page_size]),
            Lock(2), Evict(1), Unlock(2), Evict(page_size),
        )  # fmt: skip

    def test_a_target_that_cannot_be_looked_into_is_judged_by_the_rest(self):
        judge = clean(Opaque(OracleTarget()), *TREE, Evict(9))
        assert judge.judged["structure"] == judge.judged["refused-unchanged"] == 0
        assert judge.judged["refusals"] == 1

    def test_the_empty_handle_holds_no_lock(self):
        judge = clean(OracleTarget(), Match(()), Lock(0), Unlock(0), Unlock(0))
        assert judge.outstanding() == []
        assert judge.accepted == 4


class TestWhatASourceAsks:
    def test_outstanding_names_one_match_for_each_lock(self):
        judge = judge_of(
            OracleTarget(),
            *TREE, Lock(2), Match((0, 1)), Lock(4), Match((0,)), Lock(6),
        )  # fmt: skip
        assert sorted(judge.outstanding()) == [2, 2, 6]
        judge = judge_of(OracleTarget(), *TREE, Lock(2), Match((0, 1)), Unlock(4))
        assert judge.outstanding() == []

    def test_a_refused_lock_is_not_outstanding(self):
        judge = clean(OracleTarget(), *TREE, Evict(3), Lock(2), Unlock(2))
        assert judge.outstanding() == []

    def test_an_operation_that_names_no_match_is_skipped(self):
        judge = clean(OracleTarget(), *TREE, Lock(0), Unlock(1), Lock(9), Lock(-1))
        assert len(judge.skipped) == 4


class TestAfterADivergence:
    def test_nothing_is_applied(self):
        target = changed("sizes", lambda sizes: (sizes[0] + 1, sizes[1]))
        executor = LocalExecutor(target, None)
        judge = Judge(executor, target.configuration)
        first = judge.apply(Insert((0,), (0,)))
        with pytest.raises(RuntimeError, match="first divergence"):
            judge.apply(Insert((1,), (1,)))
        assert 0 in target.oracle.held
        assert 1 not in target.oracle.held
        assert len(judge.operations) == 1
        assert judge.look() is judge.divergence is first

    def test_the_first_difference_of_an_operation_counts(self):
        """Here sizes, structure and integrity are wrong too."""

        class Wrong(OracleTarget):
            def evict(self, size: Any) -> Any:
                super().evict(size)
                self.oracle.evictable_size += 7
                return []

        found = first_difference(Wrong(), *TREE, Evict(1))
        assert found == (KIND.VICTIMS, "victims", "[2]", "[]")

    def test_it_reads_as_a_sentence_with_the_call(self):
        judge = judge_of(changed("evict", lambda slots: slots[::-1]), *TREE, Evict(3))
        assert str(judge.divergence) == (
            "victims at operation 3, cache.evict(3)\n  expected: [2, 1, 0]\n  got:      [0, 1, 2]"
        )


class TestEveryKind:
    def test_match_length(self):
        longer = changed("match_prefix", lambda found: (found[0], [*found[1], 7]))
        assert first_difference(longer, *TREE) == (
            KIND.MATCH_LENGTH, "match-length",
            "a handle of 2 tokens and 2 slots", "a handle of 2 tokens and 3 slots",
        )  # fmt: skip

    def test_match_length_of_the_handle_alone(self):
        shorter = changed("match_prefix", lambda found: (found[0]._replace(cached_len=1), found[1]))
        assert first_difference(shorter, *TREE) == (
            KIND.MATCH_LENGTH, "match-length",
            "a handle of 2 tokens and 2 slots", "a handle of 1 tokens and 2 slots",
        )  # fmt: skip

    def test_match_slots(self):
        swapped = changed("match_prefix", lambda found: (found[0], found[1][::-1]))
        found = first_difference(swapped, *TREE)
        assert found == (KIND.MATCH_SLOTS, "match-slots", "[0, 1]", "[1, 0]")

    def test_already_cached(self):
        found = first_difference(changed("insert_prefix", lambda n: n + 1), TREE[0])
        assert found == (KIND.ALREADY_CACHED, "already-cached", "0", "1")

    def test_victims(self):
        found = first_difference(
            ForgetsRecency(), Insert((0,), (0,)), Insert((1,), (1,)), Match((0,)), Evict(1),
            look_every=9,
        )  # fmt: skip
        assert found == (KIND.VICTIMS, "victims", "[1]", "[0]")

    def test_victims_that_are_not_a_legal_choice(self):
        found = first_difference(
            changed("evict", lambda _: [0]), *TREE, Evict(1),
            promises=Promises(eviction="legal"),
        )  # fmt: skip
        assert found == (
            KIND.VICTIMS, "legal-victims",
            "a legal choice for 1 slots", "a page whose continuation stays cached: [0]",
        )  # fmt: skip

    def test_reset_slots(self):
        found = first_difference(changed("reset", lambda slots: slots[:2]), *TREE, Reset())
        assert found == (KIND.RESET_SLOTS, "reset", "[2, 1, 0]", "[2, 1]")

    def test_sizes(self):
        found = first_difference(changed("sizes", lambda sizes: sizes[::-1]), TREE[0])
        assert found == (KIND.SIZES, "sizes", "(evictable, protected) (2, 0)", "(0, 2)")

    def test_sizes_that_raise(self):
        found = first_difference(raising("sizes", KeyError("x")), TREE[0])
        assert found == (KIND.SIZES, "sizes", "(evictable, protected) (2, 0)", "KeyError: 'x'")

    def test_handles_that_should_be_equal(self):
        class Fresh:
            def __init__(self, cached_len: int) -> None:
                self.cached_len = cached_len

        fresh = changed("match_prefix", lambda found: (Fresh(found[0].cached_len), found[1]))
        assert first_difference(fresh, *TREE, TREE[2]) == (
            KIND.HANDLES, "handles", "h3 is equal to, with equal hash, h2", "the opposite",
        )  # fmt: skip

    def test_handles_that_should_differ(self):
        class ByLength(Handle):
            def __eq__(self, other: object) -> bool:
                return self.cached_len == other.cached_len

            def __hash__(self) -> int:
                return self.cached_len

        alike = changed("match_prefix", lambda found: (ByLength(*found[0]), found[1]))
        assert first_difference(alike, *TREE, Match((0, 2))) == (
            KIND.HANDLES, "handles", "h3 differs from h2", "the opposite",
        )  # fmt: skip

    def test_equal_handles_of_unequal_hashes(self):
        class Unstable(Handle):
            count = 0

            def __hash__(self) -> int:
                Unstable.count += 1
                return Unstable.count

        unstable = changed("match_prefix", lambda found: (Unstable(*found[0]), found[1]))
        assert first_difference(unstable, *TREE, TREE[2])[0] is KIND.HANDLES

    def test_handles_that_cannot_be_compared(self):
        class Unhashable(Handle):
            __hash__ = None  # type: ignore[assignment]

        handles = changed("match_prefix", lambda found: (Unhashable(*found[0]), found[1]))
        assert first_difference(handles, *TREE, TREE[2]) == (
            KIND.HANDLES, "handles", "handles that compare and hash",
            "TypeError: unhashable type: 'Unhashable'",
        )  # fmt: skip

    def test_a_stale_handle_must_differ_from_the_one_of_equal_tokens(self):
        judge = clean(OracleTarget(), *TREE, Evict(3), TREE[0], Match((0, 1)), look_every=9)
        assert judge.judged["handles"] == 1

    def test_structure(self):
        locked = changed("nodes", lambda nodes: [nodes[0]._replace(lock_count=2)])
        found = first_difference(locked, TREE[0])
        assert found == (
            KIND.STRUCTURE, "structure",
            "a node that ends [0, 1], with slots [0, 1] and 0 locks",
            "a node that ends [0, 1], with slots [0, 1] and 2 locks",
        )  # fmt: skip

    def test_structure_with_a_node_missing(self):
        found = first_difference(
            changed("nodes", lambda nodes: nodes[1:]), Insert((0, 1), (0, 1), "a")
        )
        assert found[2:] == (
            "a node that ends [0, 1] of namespace 'a', with slots [0, 1] and 0 locks",
            "no other node",
        )

    def test_structure_with_a_node_too_many_or_twice(self):
        other = changed("nodes", lambda nodes: [*nodes, nodes[0]._replace(prefix=(9,))])
        found = first_difference(other, TREE[0])
        assert found[2:] == (
            "no other node", "a node that ends [9], with slots [0, 1] and 0 locks"
        )  # fmt: skip
        twice = changed("nodes", lambda nodes: nodes * 2)
        assert first_difference(twice, TREE[0])[0] is KIND.STRUCTURE

    def test_structure_that_cannot_be_shown(self):
        found = first_difference(raising("nodes", KeyError("x")), TREE[0])
        assert found == (KIND.STRUCTURE, "structure", "its nodes", "KeyError: 'x'")

    def test_a_fingerprint_that_cannot_be_taken(self):
        found = first_difference(raising("fingerprint", KeyError("x")), Evict(1))
        assert found == (KIND.STRUCTURE, "structure", "its fingerprint", "KeyError: 'x'")

    def test_integrity(self):
        found = first_difference(raising("check_integrity", AssertionError("odd")), TREE[0])
        assert found == (
            KIND.INTEGRITY, "integrity", "a healthy cache", "AssertionError: odd"
        )  # fmt: skip

    def test_refused_what_is_allowed(self):
        found = first_difference(raising("evict", NAMED[RefusalKind.NOT_EVICTABLE]()), Evict(0))
        assert found == (KIND.REFUSED, "accepts", "accepted", "NotEvictable: {}")

    def test_accepted_what_is_forbidden(self):
        assert first_difference(Accepts(), TREE[0], Evict(3)) == (
            KIND.ACCEPTED, "refusals",
            "refused: not-evictable (needed=3, evictable=2)", "accepted, with [0, 1]",
        )  # fmt: skip

    def test_accepted_what_is_forbidden_with_junk(self):
        found = first_difference(changed("evict", lambda _: None, base=Accepts), Evict(3))
        assert found[0] is KIND.ACCEPTED
        assert found[3] == "accepted, with a NoneType: None"

    def test_refused_with_another_error(self):
        found = first_difference(raising("evict", ValueError("no")), TREE[0], Evict(3))
        assert found == (
            KIND.WRONG_REFUSAL, "refusals",
            "refused: not-evictable (needed=3, evictable=2)", "ValueError: no",
        )  # fmt: skip

    def test_refused_with_wrong_numbers(self):
        error = NAMED[RefusalKind.NOT_EVICTABLE](needed=3, evictable=1)
        found = first_difference(raising("evict", error), TREE[0], Evict(3))
        assert found[0] is KIND.WRONG_REFUSAL

    def test_a_refused_call_that_left_a_trace(self):
        class Hasty(OracleTarget):
            def evict(self, size: Any) -> Any:
                self.oracle._now += 1
                return super().evict(size)

        clean(Hasty(), TREE[0], Evict(1))
        found = first_difference(Hasty(), TREE[0], Evict(3))
        assert found[:3] == (
            KIND.LEFT_A_TRACE, "refused-unchanged", "the state before the call"
        )  # fmt: skip
        assert found[3].startswith("another one, after NotEvictable: ")

    def test_a_refused_call_after_which_the_fingerprint_fails(self):
        class Broken(OracleTarget):
            def evict(self, size: Any) -> Any:
                self.oracle._table.clear()
                self.oracle._leaves = None
                return super().evict(size)

        found = first_difference(Broken(), TREE[0], Evict(3))
        assert found[0] is KIND.LEFT_A_TRACE
        assert found[3] == "TypeError: 'NoneType' object is not iterable"

    @pytest.mark.parametrize(
        ("method", "result", "operations", "law", "words"),
        [
            ("match_prefix", ([], []), TREE, "accepts", "a handle whose cached_len is a NoneType"),
            ("match_prefix", (Handle(None, None, 0), (0,)), TREE, "accepts", "a tuple: (0,)"),
            ("match_prefix", (Handle(None, None, 0), ["0"]), TREE, "accepts", "a list: ['0']"),
            ("insert_prefix", None, TREE[:1], "accepts", "a NoneType: None"),
            ("insert_prefix", False, TREE[:1], "accepts", "a bool: False"),
            ("evict", 3, (Evict(0),), "accepts", "a int: 3"),
            ("reset", [1.0], (Reset(),), "accepts", "a list: [1.0]"),
            ("sizes", (0, 0, 0), (Reset(),), "sizes", "a tuple: (0, 0, 0)"),
            ("sizes", (0, 0.0), (Reset(),), "sizes", "a tuple: (0, 0.0)"),
            ("nodes", (1,), (Reset(),), "structure", "a tuple: (1,)"),
            ("nodes", [1], (Reset(),), "structure", "a list: [1]"),
        ],
    )
    def test_malformed(self, method, result, operations, law, words):
        found = first_difference(changed(method, lambda _: result), *operations)
        assert found[:2] == (KIND.MALFORMED, law)
        assert found[3].startswith(words)

    def test_a_malformed_text_is_cut(self):
        found = first_difference(changed("evict", lambda _: "x" * 10_000), Evict(0))
        assert len(found[3]) < 250

    def test_hang(self):
        found = first_difference(BusyLoop(), *TREE, Evict(1), seconds=0.1)
        assert found == (KIND.HANG, "answers-in-time", "accepted", "nothing within 0.1 s")

    def test_hang_where_a_refusal_is_due(self):
        found = first_difference(BusyLoop(), Evict(1), seconds=0.1)
        assert found[:2] == (KIND.HANG, "answers-in-time")

    def test_crash(self):
        found = first_difference(SysExits(), Evict(0))
        assert found == (
            KIND.CRASH, "answers-in-time", "accepted", "the process ended: sys.exit(0)"
        )  # fmt: skip

    def test_no_kind_was_forgotten(self):
        """By the text of the tests above."""
        shown = inspect.getsource(TestEveryKind)
        of_requests = inspect.getsource(test_request_judge)
        assert [kind.name for kind in KIND if f"KIND.{kind.name}" not in shown + of_requests] == []


class TestPromises:
    def test_what_it_does_not_refuse_is_never_tried(self):
        class Untouchable(OracleTarget):
            def evict(self, size: Any) -> Any:
                raise AssertionError("tried")

        judge = clean(
            Untouchable(), Evict(1), Evict(-1),
            promises=Promises(refuses=frozenset({RefusalKind.TYPE})),
        )  # fmt: skip
        assert len(judge.skipped) == 2
        assert judge.judged["refusals"] == judge.judged["sizes"] == 0

    def test_what_it_refuses_is_still_tried(self):
        promises = Promises(refuses=frozenset({RefusalKind.NOT_EVICTABLE}))
        judge = clean(OracleTarget(), Evict(1), Evict(-1), promises=promises)
        assert (len(judge.refused), len(judge.skipped)) == (1, 1)

    @pytest.mark.parametrize(
        ("errors", "error", "right"),
        [
            ("named", NAMED[RefusalKind.NOT_EVICTABLE](needed=1, evictable=0), True),
            ("named", NAMED[RefusalKind.NOT_EVICTABLE](needed=1, evictable=0, more=1), True),
            ("named", NAMED[RefusalKind.NOT_EVICTABLE](needed=1), False),
            ("named", NAMED[RefusalKind.IN_USE](needed=1, evictable=0), False),
            ("named", RuntimeError("too much"), False),
            ("builtin", RuntimeError("too much"), True),
            ("builtin", NAMED[RefusalKind.IN_USE](), True),
            ("builtin", ValueError("too much"), False),
            ("any", KeyError("too much"), True),
        ],
    )
    def test_how_exactly_it_refuses(self, errors, error, right):
        promises = Promises(refusal_errors=errors)
        judge = judge_of(raising("evict", error), Evict(1), promises=promises)
        assert (judge.divergence is None) is right

    def test_a_class_of_the_right_name_needs_its_builtin_too(self):
        impostor = type("NotEvictable", (Exception,), {"needed": 1, "evictable": 0})
        judge = judge_of(raising("evict", impostor("too much")), Evict(1))
        assert judge.divergence.kind is KIND.WRONG_REFUSAL

    def test_accepting_is_wrong_however_it_refuses(self):
        judge = judge_of(Accepts(), Evict(1), promises=Promises(refusal_errors="any"))
        assert judge.divergence.kind is KIND.ACCEPTED

    def test_traces_of_a_refused_call_may_be_allowed(self):
        class Hasty(OracleTarget):
            def evict(self, size: Any) -> Any:
                self.oracle._now += 1
                return super().evict(size)

        judge = clean(Hasty(), Evict(1), promises=Promises(refused_calls_change_nothing=False))
        assert judge.judged["refused-unchanged"] == 0

    def test_victims_in_any_order(self):
        unordered = Promises(ordered_victims=False)
        for method, operation in (("evict", Evict(3)), ("reset", Reset())):
            clean(changed(method, lambda slots: slots[::-1]), *TREE, operation, promises=unordered)
            less = changed(method, lambda slots: slots[1:])
            assert judge_of(less, *TREE, operation, promises=unordered).divergence is not None

    def test_a_choice_of_its_own_is_followed(self):
        class MostRecent(OracleTarget):
            """Evicts the most recent leaf."""

            def evict(self, size: Any) -> Any:
                size, freed = self.ask(self.oracle.check_evict, size), []
                while len(freed) < size:
                    free = [page for page in self.oracle._leaves if not page.locks]
                    freed += self.oracle._remove_node(max(free, key=lambda page: page.recency))
                return freed

        program = (*TREE, Evict(1), Match((0, 2)), Match((0, 1)), Evict(0), Evict(9), Reset())
        judge = clean(MostRecent(), *program, promises=Promises(eviction="legal"))
        assert judge.judged["legal-victims"] == 2
        assert judge.judged["victims"] == 0
        assert len(judge.refused) == 1
        assert judge_of(MostRecent(), *program).divergence.kind is KIND.VICTIMS

    def test_single_pages(self):
        target = OracleTarget(granularity="page")
        program = (Insert((0, 1, 2), (0, 1, 2)), Evict(1), Match((0, 1, 2)))
        clean(target, *program, promises=Promises(granularity="page"))
        found = judge_of(OracleTarget(granularity="page"), *program).divergence
        assert (found.kind, found.got) == (KIND.VICTIMS, "[2]")

    def test_of_units_of_its_own_neither_amount_nor_structure_is_judged(self):
        promises = Promises(eviction="legal", granularity="any")
        judge = clean(
            changed("nodes", lambda _: []), Insert((0,), (0,)), Insert((1,), (1,)),
            promises=promises,
        )  # fmt: skip
        assert judge.judged["structure"] == 0
        both = changed("evict", lambda _: [0, 1])
        judge = judge_of(both, Insert((0,), (0,)), Insert((1,), (1,)), Evict(1), promises=promises)
        assert judge.divergence.kind is KIND.SIZES  # the amount was legal; this target kept one

    def test_no_namespaces(self):
        promises = Promises(namespaces=False)
        judge = clean(
            OracleTarget(),
            Insert((0,), (0,), "a"), Match((0,), ""), Insert((0,), (0,)), Match((0,)), Lock(1),
            promises=promises,
        )  # fmt: skip
        assert (len(judge.skipped), judge.accepted) == (3, 2)

    def test_no_integrity_check(self):
        target = raising("check_integrity", AssertionError("odd"))
        judge = clean(target, TREE[0], promises=Promises(integrity=False))
        assert judge.judged["integrity"] == 0

    def test_handles_that_are_no_values(self):
        class Fresh:
            __hash__ = None  # type: ignore[assignment]

            def __init__(self, cached_len: int) -> None:
                self.cached_len = cached_len

        fresh = changed("match_prefix", lambda found: (Fresh(found[0].cached_len), found[1]))
        judge = clean(fresh, *TREE, TREE[2], promises=Promises(value_handles=False))
        assert judge.judged["handles"] == 0

    def test_a_manager_that_remembers_nothing(self):
        class Forgetful(OracleTarget):
            def __init__(self) -> None:
                super().__init__()
                self.oracle = NaiveOracle(self.configuration)

            def fingerprint(self) -> Any:
                return 0

        promises = Promises(
            keeps_prefixes=False,
            eviction="legal",  # there is nothing to choose from
            refuses=frozenset({RefusalKind.TYPE, RefusalKind.VALUE, RefusalKind.UNSUPPORTED}),
        )
        judge = clean(
            Forgetful(),
            *TREE, Lock(2), Unlock(2), Unlock(2), Evict(0), Evict(-1), Evict(1), Evict(True),
            Insert((), (1,)), Lock(NOT_A_HANDLE), Reset(), promises=promises,
        )  # fmt: skip
        assert (judge.accepted, len(judge.refused), len(judge.skipped)) == (8, 5, 0)
        assert judge.outstanding() == []
        found = judge_of(OracleTarget(), TREE[0], promises=promises).divergence
        assert (found.kind, found.expected, found.got) == (KIND.ALREADY_CACHED, "2", "0")


class TestHowOftenItLooks:
    def test_structure_and_integrity_after_every_nth_operation_and_when_asked(self):
        judge = clean(OracleTarget(), *[Match(())] * 7, look_every=3)
        assert judge.judged["structure"] == judge.judged["integrity"] == 2
        assert judge.judged["sizes"] == 7
        judge.look()
        assert judge.judged["structure"] == judge.judged["integrity"] == 3

    def test_skipped_and_refused_operations_count_too(self):
        judge = clean(OracleTarget(), Lock(5), Evict(1), look_every=2)
        assert judge.judged["structure"] == 1

    def test_before_the_first_operation_there_is_nothing_to_see(self):
        judge = judge_of(raising("nodes", KeyError("x")))
        assert judge.look() is None

    def test_each_look_recounts_the_oracle(self):
        judge = clean(OracleTarget(), *TREE, look_every=9)
        judge.oracle.evictable_size += 1
        with pytest.raises(AssertionError, match="evictable size"):
            judge.look()


def test_every_law_can_be_judged():
    """Together, the exact and the legal mode leave no law out."""
    program = (*TREE, Match((0, 1)), Evict(1), Evict(9), Reset())
    exact = clean(OracleTarget(), *program, seconds=5.0)
    legal = clean(OracleTarget(), *program, promises=Promises(eviction="legal"))
    assert {law for law in LAWS if exact.judged[law] + legal.judged[law] == 0} == set()


def test_the_oracle_of_a_judge_is_that_of_its_configuration():
    configuration = Configuration(page_size=2, num_pages=3, policy="fifo", checked=False)
    oracle = judge_of(OracleTarget(configuration)).oracle
    assert isinstance(oracle, Oracle)
    assert (oracle.page_size, oracle.num_slots, oracle.policy) == (2, 6, "fifo")
    assert (oracle.checked, oracle.granularity) == (False, "node")
