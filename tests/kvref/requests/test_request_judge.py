"""The judge beside lives with one fault each: it names each fault for what it is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kvref.divergence import DivergenceKind
from kvref.naive_oracle import NaiveOracle
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.judge import Outcome
from kvref.requests.laws import REQUEST_LAWS
from kvref.requests.life import life
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    Store,
)
from kvref.requests.promises import RequestPromises
from kvref.requests.tags import HashedTags
from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.requests import wrong_lives as wrong
from tests.kvref.requests.wrong_lives import Life, judge_of

KIND = DivergenceKind
PAIRS = RequestConfiguration(page_size=2, num_pages=6)
FOUR = RequestConfiguration(num_pages=4)
DONE = (Begin((0, 1, 2)), Store(0), Finish(0))


class NaiveTarget(OracleTarget):
    """Remembers nothing."""

    def __init__(self, configuration: RequestConfiguration) -> None:
        super().__init__(configuration)
        self.oracle = NaiveOracle(configuration)  # type: ignore[assignment]

    def fingerprint(self) -> Any:
        return None


TABLE: list[tuple[Any, RequestConfiguration, tuple[Any, ...], KIND, str, str]] = [
    (wrong.MatchesAll, FOUR, (*DONE, Begin((0, 1))), KIND.NOTHING_LEFT, "token-left", "2 matched"),
    (wrong.MatchesLess, FOUR, (*DONE, Begin((0, 1, 2))), KIND.ADMISSION, "admission-match", "1"),
    (wrong.LeaksOnAbort, FOUR, (Begin((0,)), Abort(0)), KIND.FREE_PAGES, "free-pages", "3"),
    (wrong.FreesTwice, PAIRS, DONE, KIND.FREE_PAGES, "free-pages", "6"),
    (
        wrong.FreesAnothers, FOUR, (Begin((0, 1)), Begin((2,)), Abort(1), Begin((1,))),
        KIND.PAGES, "pages-owned", "page 1, which r0 owns",
    ),
    (wrong.GivesTwice, FOUR, (Begin((0, 1)),), KIND.PAGES, "pages-owned", "page 0 twice"),
    (
        wrong.GivesOutside, FOUR, (Begin((0,)),),
        KIND.PAGES, "pages-owned", "page 4, where the pool has pages 0 to 3",
    ),
    (wrong.GivesFewer, FOUR, (Begin((0, 1)),), KIND.PAGES, "pages-owned", "1 slots"),
    (
        wrong.BreaksPages, PAIRS, (Begin((0, 1)),),
        KIND.PAGES, "pages-owned", "slots [1, 0], which are no page from its beginning on",
    ),
    (
        wrong.BreaksPages, PAIRS, (Begin((0,)), Extend(0, 3, (1, 2, 0))),
        KIND.PAGES, "pages-owned", "slot 3, which does not continue the page of slot 0",
    ),
    (
        wrong.EvictsTheWholeNeed, FOUR,
        (Begin((0,)), Store(0), Finish(0), Begin((1,)), Store(3), Finish(3), Begin((2, 2, 2))),
        KIND.SHORTFALL, "shortfall", "0 left",
    ),
    (
        wrong.EvictsOthers, FOUR,
        (Begin((0,)), Store(0), Finish(0), Begin((1,)), Store(3), Finish(3), Begin((2, 2, 2))),
        KIND.SHORTFALL, "shortfall", "[1]",
    ),
    (
        wrong.KeepsItsRow, FOUR,
        (Begin((0,)), Begin((0,)), Store(0), Store(1), Commit(0), Commit(1)),
        KIND.ROW, "taken-over", "[1]",
    ),
    (
        wrong.LosesItsTail, PAIRS,
        (Begin((0, 1, 2, 3, 4)), Store(0), Extend(0, 1, (5,)), Commit(0)),
        KIND.ROW, "rows-stay", "[5, 4]",
    ),
    (
        wrong.MovesRows, FOUR, (Begin((0, 1)), Begin((2,)), Store(1)),
        KIND.ROW, "rows-stay", "[1, 0]",
    ),
    (
        wrong.PublishesUnstored, FOUR, (Begin((0,)), Commit(0)),
        KIND.LENGTHS, "request-lengths", "1",
    ),
    (
        wrong.PublishesUnstored, FOUR, (Begin((0,)), Finish(0)),
        KIND.SIZES, "request-sizes", "(1, 0)",
    ),
    (
        wrong.PublishesUnknown, FOUR, (Begin((0,)), Extend(0, 1, (1,)), Store(0), Commit(0)),
        KIND.LENGTHS, "request-lengths", "2",
    ),
    (
        wrong.StoresNextToIt, FOUR, (Begin((0, 1)), Store(0)),
        KIND.CONTENT, "content-running", "the token 1 after [0]",
    ),
    (
        wrong.ClearsFreePages, FOUR,
        (
            Begin((0,)), Begin((1, 2)), Store(0), Store(1), Commit(1), Abort(0),
        ),
        KIND.CONTENT, "content-cached", "nothing was stored there",
    ),
    (
        wrong.KeepsLockOnRefusal, FOUR, (*DONE, Begin((3,)), Begin((0, 2, 2, 2))),
        KIND.SIZES, "request-sizes", "(2, 1)",
    ),
    (
        wrong.LocksTwice, FOUR, (*DONE, Begin((0, 1)), Store(3), Commit(3)),
        KIND.STRUCTURE, "request-structure",
        "a node that ends [0], with slots [0] and 2 locks",
    ),
    (
        wrong.SaysMore, FOUR, (Begin((0,)), Store(0), Commit(0)),
        KIND.LENGTHS, "request-lengths", "2",
    ),
    (
        wrong.CountsWrong, FOUR, (Begin((0,)), Append(0, (1,))),
        KIND.LENGTHS, "request-lengths", "(0, 2)",
    ),
    (
        wrong.ForgetsTokens, FOUR, (Begin((0,)), Append(0, (1,)), Preempt(0)),
        KIND.TOKENS, "preempted-tokens", "[0]",
    ),
    (
        wrong.EndsTwice, FOUR, (Begin((0,)), Abort(0), Abort(0)),
        KIND.ACCEPTED, "request-refusals", "accepted",
    ),
    (
        wrong.RaisesKeyError, FOUR, (Begin((0,)), Abort(0), Finish(0)),
        KIND.WRONG_REFUSAL, "request-refusals", "KeyError: 'no such request'",
    ),
    (
        wrong.RefusesChunks, FOUR, (Begin((0, 1), max_tokens=1),),
        KIND.REFUSED, "request-accepts", "ValueError: no chunks here",
    ),
    (
        wrong.TakesBeforeItRefuses, RequestConfiguration(num_pages=6),
        (Begin((0, 1)), Begin((2,)), Extend(0, 4, (0, 0, 0, 0))),
        KIND.LEFT_A_TRACE, "request-refused-unchanged",
        "another one, after NoRoom: 4 pages needed, 3 free, 0 evictable",
    ),
    (
        wrong.FlushesIntoNothing, FOUR, (*DONE, Flush()),
        KIND.NOT_DRAINED, "drained", "Pool(evictable=0, protected=0, free_pages=1)",
    ),
    (
        wrong.FindsFault, FOUR, (Begin((0,)),),
        KIND.INTEGRITY, "ledger", "RuntimeError: page 3 looks odd",
    ),
    (
        wrong.ReadsTuples, FOUR, (Begin((0,)), Store(0)),
        KIND.MALFORMED, "content-running", "a tuple: (0,)",
    ),
    (
        wrong.ReadsLess, FOUR, (Begin((0, 1)), Store(0)),
        KIND.CONTENT, "content-running", "that of 1",
    ),
    (
        wrong.SysExits, FOUR, (Begin((0,)), Store(0), Commit(0)),
        KIND.CRASH, "requests-in-time", "the process ended: sys.exit(0)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("life", "configuration", "operations", "kind", "law", "got"),
    TABLE,
    ids=[f"{row[0].__name__}-{row[4]}" for row in TABLE],
)
def test_each_fault_is_named(life, configuration, operations, kind, law, got):
    found = judge_of(life, *operations, configuration=configuration).divergence
    assert found is not None
    assert (found.kind, found.law) == (kind, law), str(found)
    assert found.index == len(operations) - 1
    assert found.operation == operations[-1]
    assert got in found.got
    assert law in REQUEST_LAWS


@pytest.mark.parametrize("configuration", [PAIRS, RequestConfiguration(num_pages=12)])
def test_the_same_programs_are_clean_on_the_right_life(configuration):
    for _, _, operations, *_ in TABLE:
        judge = judge_of(Life, *operations, configuration=configuration)
        assert judge.divergence is None, str(judge.divergence)


def test_a_hang_is_a_difference():
    judge = judge_of(wrong.Hangs, Begin((0,)), Store(0), Commit(0), seconds=0.1)
    assert judge.divergence is not None
    assert (judge.divergence.kind, judge.divergence.law) == (KIND.HANG, "requests-in-time")


class TestSkipping:
    """A program may lose any of its operations and still mean something."""

    @pytest.mark.parametrize(
        "operation",
        [Extend(7), Append(7, (1,)), Store(7), Commit(7), Finish(7), Abort(7), Preempt(7)],
    )
    def test_what_names_no_request_is_not_issued(self, operation):
        judge = judge_of(Life, Begin((0,)), operation)
        assert (judge.skipped, judge.accepted, judge.divergence) == ([1], 1, None)

    @pytest.mark.parametrize("ahead", [(), (1,), (1, 2, 3)])
    def test_nor_an_extend_that_tells_too_little_or_too_much_ahead(self, ahead):
        judge = judge_of(Life, Begin((0,)), Extend(0, 2, ahead))
        assert judge.skipped == [1]
        assert judge.sequences == {0: [0]}

    def test_values_that_are_known_are_not_told_ahead(self):
        judge = judge_of(Life, Begin((0, 1, 2), max_tokens=1), Extend(0, 1), Extend(0, 2, (5,)))
        assert judge.skipped == []
        assert judge.sequences == {0: [0, 1, 2, 5]}

    def test_nor_an_append_that_contradicts_what_went_ahead(self):
        judge = judge_of(
            Life, Begin((0,)), Extend(0, 2, (1, 2)), Append(0, (1,)), Append(0, (3,)),
            Append(0, (2, 4)), Append(0, ()),
        )  # fmt: skip
        assert judge.skipped == [3]
        assert judge.sequences == {0: [0, 1, 2, 4]}

    def test_an_ended_request_is_not_asked_for_nothing(self):
        judge = judge_of(Life, Begin((0,)), Abort(0), Extend(0, 0), Extend(0, 1))
        assert (judge.skipped, judge.refused) == ([2], [3])

    @pytest.mark.parametrize("extend", [Extend(0, 0, (1,)), Extend(0, 99, ())])
    def test_what_has_to_be_refused_is_asked_whatever_it_tells_ahead(self, extend):
        judge = judge_of(Life, Begin((0,)), extend)
        assert (judge.skipped, judge.refused) == ([], [1])

    def test_a_step_that_is_not_issued_came_to_nothing(self):
        judge = judge_of(Life, Begin((0, 1)), Abort(7))
        assert judge.outcome == Outcome()

    def test_what_it_does_not_promise_to_refuse_is_never_tried(self):
        promises = RequestPromises(refuses=frozenset({RefusalKind.VALUE}))
        judge = judge_of(
            Life, Begin(()), Begin((0,)), Abort(1), Abort(1), Begin((0,), "a"), promises=promises
        )
        assert (judge.refused, judge.skipped) == ([0], [3])
        assert judge.outcome == Outcome(None, 0, 1, 0)

    def test_without_namespaces_none_is_named(self):
        judge = judge_of(Life, Begin((0,), "a"), promises=RequestPromises(namespaces=False))
        assert judge.skipped == [0]


class TestPromises:
    @pytest.mark.parametrize("errors", ["builtin", "any"])
    def test_errors_of_its_own(self, errors):
        class Plain(Life):
            def begin(self, *args: Any, **keywords: Any) -> Any:
                try:
                    return super().begin(*args, **keywords)
                except RuntimeError as error:
                    raise (RuntimeError if errors == "builtin" else OSError)(str(error)) from None

        promises = RequestPromises(refused_begin="match", refusal_errors=errors)
        full = (Begin((0, 1)), Begin((2, 3)), Begin((4,)))
        assert judge_of(Plain, *full, configuration=FOUR, promises=promises).divergence is None
        found = judge_of(Plain, *full, configuration=FOUR).divergence
        assert found is not None
        assert found.kind is KIND.WRONG_REFUSAL

    def test_a_refused_step_may_leave_traces_where_it_says_so(self):
        promises = RequestPromises(refused_calls_change_nothing=False)
        operations = (Begin((0, 1)), Begin((2,)), Extend(0, 4, (0, 0, 0, 0)))
        judge = judge_of(
            wrong.TakesBeforeItRefuses, *operations,
            configuration=RequestConfiguration(num_pages=6), promises=promises,
        )  # fmt: skip
        assert judge.divergence is None
        assert judge.judged["request-refused-unchanged"] == 0

    def test_a_fingerprint_that_fails_is_a_difference(self):
        class Shy(Life):
            def fingerprint(self) -> Any:
                raise RuntimeError("not mine to show")

        found = judge_of(Shy, Begin(())).divergence
        assert (found.kind, found.got) == (KIND.STRUCTURE, "RuntimeError: not mine to show")

    def test_one_that_fails_afterwards_too(self):
        class Moody(Life):
            asked = 0

            def fingerprint(self) -> Any:
                self.asked += 1
                if self.asked == 2:
                    raise RuntimeError("not again")
                return 0

        found = judge_of(Moody, Begin(())).divergence
        assert (found.kind, found.got) == (KIND.LEFT_A_TRACE, "RuntimeError: not again")

    def test_its_choice_of_victims_is_followed_where_it_is_its_own(self):
        class Youngest(wrong.EvictsOthers):
            def nodes(self) -> Any:
                return self.manager.nodes()

        promises = RequestPromises(
            eviction="legal", refused_begin="match", refused_calls_change_nothing=False
        )
        cached = (Begin((0,)), Store(0), Finish(0), Begin((1,)), Store(3), Finish(3))
        operations = (*cached, Begin((2, 2, 2)), Abort(6), Begin((0, 5)))
        judge = judge_of(Youngest, *operations, configuration=FOUR, promises=promises)
        assert judge.divergence is None
        assert judge.outcome.matched == 1  # [1] went, though [0] was the older

    def test_and_has_to_be_told(self):
        promises = RequestPromises(eviction="legal")
        found = judge_of(Life, Begin((0,)), promises=promises).divergence
        assert found.law == "shortfall"
        assert found.got == "a target whose victims are its own choice does not tell them"

    def test_and_legal(self):
        class Tells(Life):
            def victims(self) -> list[int]:  # type: ignore[override]
                return self.evicted * 2

        promises = RequestPromises(eviction="legal", refused_begin="match")
        cached = (Begin((0,)), Store(0), Finish(0))
        found = judge_of(
            Tells, *cached, Begin((1, 1, 1, 1)), configuration=FOUR, promises=promises
        ).divergence
        assert (found.law, found.got) == ("shortfall", "a slot twice")

    def test_nodes_of_its_own_are_not_compared(self):
        promises = RequestPromises(eviction="legal", granularity="any", refused_begin="match")

        class Tells(Life):
            def victims(self) -> list[int]:  # type: ignore[override]
                return self.evicted

        judge = judge_of(Tells, *DONE, promises=promises)
        assert judge.divergence is None
        assert judge.judged["request-structure"] == 0

    def test_what_cannot_be_looked_into_is_judged_by_what_it_does(self):
        closed = {"nodes", "fingerprint"}
        target = Life(FOUR)
        names = {name for name in dir(target) if not name.startswith("__")} - closed
        shown = type("Shown", (), {name: getattr(target, name) for name in names})
        judge = judge_of(shown(), *DONE, Begin(()), configuration=FOUR)
        assert judge.divergence is None
        assert judge.judged["request-structure"] == judge.judged["request-refused-unchanged"] == 0
        assert judge.judged["request-refusals"] == 1

    def test_nodes_that_are_none_are_a_difference(self):
        class Odd(Life):
            def nodes(self) -> Any:
                return "no nodes"

        found = judge_of(Odd, Begin((0,))).divergence
        assert (found.kind, found.law) == (KIND.MALFORMED, "request-structure")

    def test_it_may_keep_the_tokens_of_a_preempted_request_to_itself(self):
        class Silent(Life):
            def preempt(self, request: Any) -> list[int] | None:
                super().preempt(request)
                return None

        judge = judge_of(Silent, Begin((0,)), Preempt(0))
        assert judge.divergence is None
        assert judge.judged["preempted-tokens"] == 0


class TestForAReplay:
    def test_what_each_step_came_to(self):
        judge = judge_of(Life, configuration=FOUR)
        outcomes = []
        for operation in (*DONE, Begin((0, 1, 2)), Begin((3, 3)), Extend(3, 1, (9,)), Flush()):
            judge.apply(operation)
            outcomes.append(judge.outcome)
        assert outcomes[0] == Outcome(None, 0, 3, 0)
        assert outcomes[1] == outcomes[2] == Outcome()
        assert outcomes[3] == Outcome(None, 2, 1, 0)
        # 4 pages: [0, 1] locked, [2] cached, one owned; the second of these needs an evict.
        assert outcomes[4].refused is not None
        assert outcomes[4].refused.kind is RefusalKind.NO_ROOM
        assert outcomes[5] == Outcome(None, 0, 1, 1)
        assert outcomes[6].refused is not None
        assert judge.peak_pages == 4

    def test_what_went_is_counted_in_pages(self):
        cached = (Begin((0, 1)), Store(0), Finish(0))
        judge = judge_of(Life, *cached, Begin((9,) * 11), configuration=PAIRS)
        assert judge.outcome == Outcome(None, 0, 6, 1)

    def test_the_most_pages_in_use_stay_the_most(self):
        judge = judge_of(Life, Begin((0, 1, 2)), Abort(0), Begin((0,)))
        assert judge.peak_pages == 3

    def test_without_a_limit_nothing_is_judged_to_be_in_time(self):
        assert judge_of(Life, *DONE).judged["requests-in-time"] == 0
        assert judge_of(Life, *DONE, seconds=10.0).judged["requests-in-time"] == 3

    def test_a_long_run_is_not_remembered(self):
        judge = judge_of(Life, *DONE, Abort(0), Begin((0, 5)), long_run=True)
        assert judge.count == 5
        assert judge.operations == [Begin((0, 5))]
        assert judge.skipped == [3]  # as an ended request is not
        assert list(judge.oracle.requests) == list(judge._executor._requests) == [4]
        assert judge.divergence is None

    def test_a_difference_has_the_right_number_all_the_same(self):
        operations = (Begin((0,)), Abort(0))
        found = judge_of(wrong.LeaksOnAbort, *operations, long_run=True).divergence
        assert (found.index, found.operation) == (1, Abort(0))

    def test_nor_is_its_whole_tree_compared(self):
        judge = judge_of(Life, *DONE, Begin(()), long_run=True)
        assert judge.divergence is None
        assert judge.judged["request-structure"] == judge.judged["request-refused-unchanged"] == 0
        assert (judge.judged["content-cached"], judge.judged["request-refusals"]) == (2, 1)

    def test_prefixes_may_be_named_by_hashes(self):
        operations = (*DONE, Begin((0, 1, 2)), Extend(3, 1, (5,)), Store(3), Append(3, (5,)))
        assert judge_of(Life, *operations, tags=HashedTags(40)).divergence is None
        found = judge_of(wrong.StoresNextToIt, *operations, tags=HashedTags(40)).divergence
        assert re.fullmatch("a token of the prefix with the hash [0-9a-f]+", found.got)

    def test_looks_come_when_they_are_asked_for(self):
        judge = judge_of(wrong.StoresNextToIt, Begin((0, 1)), Store(0), look_every=10**9)
        assert judge.divergence is None
        assert judge.look() is judge.divergence
        assert judge.divergence.law == "content-running"
        assert judge.look() is judge.divergence
        with pytest.raises(RuntimeError, match="ended"):
            judge.apply(Flush())

    def test_a_look_recounts_the_oracle_itself(self):
        judge = judge_of(Life, Begin((0,)), look_every=9)
        judge.oracle.ledger.num_free = 0
        with pytest.raises(AssertionError, match="free pages"):
            judge.look()

    def test_a_check_that_ends_the_process_is_no_passed_one(self):
        class Exits(Life):
            def check(self) -> None:
                raise SystemExit(0)

        found = judge_of(Exits, Begin((0,))).divergence
        assert (found.kind, found.got) == (KIND.CRASH, "the process ended: sys.exit(0)")

    def test_before_anything_ran_there_is_nothing_to_look_at(self):
        assert judge_of(wrong.FindsFault).look() is None


class TestContent:
    def test_what_is_told_later_continues_the_whole_prefix(self):
        judge = judge_of(
            Life, Begin((5, 0)), Begin((1,)), Extend(0, 1, (1,)), Append(0, (1, 2)), Append(0, ())
        )
        assert judge.tags_of[0] == judge.tags.follow((5, 0, 1, 2))

    def test_a_wrong_begin_is_seen_at_once(self):
        class Swaps(Life):
            def finish(self, request: Any) -> None:
                super().finish(request)
                self.content[0], self.content[1] = self.content[1], self.content[0]

        found = judge_of(Swaps, *DONE, Begin((0, 1, 2)), look_every=9).divergence
        assert (found.kind, found.law, found.index) == (KIND.CONTENT, "content-cached", 3)
        assert found.expected == "in slot 0: the token 0 after []"
        assert found.got == "the token 1 after [0]"

    def test_contents_that_cannot_be_read(self):
        class Blind(Life):
            def read(self, slots: Any) -> Any:
                raise OSError("no such memory")

        found = judge_of(Blind, Begin((0,)), Store(0)).divergence
        assert (found.kind, found.got) == (KIND.CONTENT, "OSError: no such memory")

    def test_a_row_that_cannot_be_read(self):
        class Rowless(Life):
            def row(self, request: Any, start: int, stop: int) -> Any:
                if len(self.running) == 2:
                    raise OSError("no such row")
                return super().row(request, start, stop)

        operations = (Begin((0,)), Begin((1,)))
        found = judge_of(Rowless, *operations).divergence
        assert found.law == "request-accepts"

        class Later(Life):
            def row(self, request: Any, start: int, stop: int) -> Any:
                if request.stored_len:
                    raise OSError("no such row")
                return super().row(request, start, stop)

        found = judge_of(Later, Begin((0,)), Store(0)).divergence
        assert (found.law, found.got) == ("rows-stay", "OSError: no such row")


def test_what_remembers_nothing_is_judged_by_what_it_runs():
    target = life(TargetFactory(NaiveTarget, Promises(keeps_prefixes=False)))
    judge = judge_of(
        target(FOUR), Begin((0, 1)), Store(0), Commit(0), Begin((0, 1)), Finish(0), Flush(),
        Abort(3), Flush(), configuration=FOUR, promises=target.promises,
    )  # fmt: skip
    assert judge.divergence is None
    assert judge.judged["content-cached"] == 0
    assert judge.judged["content-running"] > 0
    assert judge.judged["drained"] == 1


def test_sizes_that_a_flush_leaves_are_not_drained_though_all_pages_are_free():
    class KeepsCounting(Life):
        flushed = False

        def flush(self) -> None:
            super().flush()
            self.flushed = True

        def sizes(self) -> tuple[int, int]:
            return (1, 0) if self.flushed else super().sizes()

    found = judge_of(KeepsCounting, *DONE, Flush()).divergence
    assert (found.kind, found.law) == (KIND.NOT_DRAINED, "drained")


def test_nor_has_it_victims_to_choose_from():
    target = life(TargetFactory(NaiveTarget, Promises(keeps_prefixes=False, eviction="legal")))
    judge = judge_of(
        target(FOUR), Begin((0, 1)), Store(0), Finish(0), Begin((0, 1, 2, 3)),
        configuration=FOUR, promises=target.promises,
    )  # fmt: skip
    assert judge.divergence is None


def test_a_pool_that_cannot_be_read_after_a_refusal():
    class Sizeless(Life):
        def sizes(self) -> Any:
            return 1, "2"

    found = judge_of(Sizeless, Begin(())).divergence
    assert (found.kind, found.law) == (KIND.MALFORMED, "request-sizes")


def test_every_law_is_judged_on_the_right_life():
    judge = judge_of(
        wrong.right(FOUR), *DONE, Begin((0, 1, 2)), Extend(3, 0), Commit(3), Preempt(3), Flush(),
        configuration=FOUR, seconds=10.0,
    )  # fmt: skip
    assert judge.divergence is None
    for law in REQUEST_LAWS:
        assert judge.judged[law], law


def test_the_program_of_a_run_names_what_is_not_to_be_run():
    judge = judge_of(Life, Begin(()), Abort(0), Begin((0,)), Abort(9), Abort(2), Abort(2))
    lines = judge.program().splitlines()[-6:]
    assert lines == [
        "with suppress(Exception): r0 = requests.begin(ids([]))  # has to be refused",
        "# not issued: r0.abort()",
        "r2 = requests.begin(ids([0]))",
        "# not issued: r9.abort()",
        "r2.abort()",
        "with suppress(Exception): r2.abort()  # has to be refused",
    ]
