"""The judge beside lives with one fault each: it names each fault for what it is."""

from __future__ import annotations

from typing import Any

import pytest

from kvref.divergence import DivergenceKind
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.laws import REQUEST_LAWS
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
from tests.kvref.requests import wrong_lives as wrong
from tests.kvref.requests.wrong_lives import Life, judge_of

KIND = DivergenceKind
PAIRS = RequestConfiguration(page_size=2, num_pages=6)
FOUR = RequestConfiguration(num_pages=4)
DONE = (Begin((0, 1, 2)), Store(0), Finish(0))

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
