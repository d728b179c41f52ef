"""Detectors see what has happened, and nothing that has not."""

from __future__ import annotations

from itertools import islice

import pytest

from kvref.campaign import Totals, campaign, start_locally
from kvref.configuration import Configuration
from kvref.operations import Evict, Insert, Lock, Match, Operation, Reset, Unlock
from kvref.promises import Promises
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.operations import Begin, Commit, Extend, Finish, RequestOperation, Store
from kvref.situations import memory
from kvref.situations.counting import Counting
from kvref.situations.replay import run
from kvref.situations.witness import Witness
from kvref.target import TargetFactory
from kvref.targets.kvgpu import naive
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.situations.test_witnesses import ON_ORACLE, met
from tests.kvref.wrong_targets import modest


def tally_of(*operations: Operation, promises: Promises | None = None, **configuration):
    promises = promises or Promises()
    factory = TargetFactory(lambda it: OracleTarget(it, promises.granularity), promises)
    judge, tally = run(Witness(Configuration(**configuration), operations), "here", factory)
    assert judge.divergence is None, judge.divergence
    return tally


def found(*operations: Operation, **options) -> set[str]:
    return met(tally_of(*operations, **options).situations)


PAIR = Insert((0, 1), (0, 1))


class TestMatchAndInsert:
    def test_in_an_empty_cache_nothing_is_missed(self):
        assert found(Match((0, 1))) == set()

    def test_a_match_that_ends_where_a_node_ends_splits_nothing(self):
        assert found(PAIR, Match((0, 1))) == {"match-finds-all"}

    def test_a_second_match_of_the_same_prefix_splits_nothing(self):
        once = {"match-finds-all", "match-ends-inside-a-node", "split-of-a-leaf",
                "split-after-the-first-page", "split-before-the-last-page"}  # fmt: skip
        tally = tally_of(PAIR, Match((0,)), Match((0,)))
        assert met(tally.situations) == once
        assert tally.situations["split-of-a-leaf"].met == 1
        assert tally.situations["match-finds-all"].met == 2

    def test_first_and_last_page_of_a_longer_node(self):
        long = Insert((0, 1, 2, 3), (0, 1, 2, 3))
        middle = found(long, Match((0, 1)))
        assert not {"split-after-the-first-page", "split-before-the-last-page"} & middle
        assert "split-after-the-first-page" in found(long, Match((0,)))
        assert "split-before-the-last-page" not in found(long, Match((0,)))
        assert "split-before-the-last-page" in found(long, Match((0, 1, 2)))
        # The second split is of the lower half, whose first page it leaves above.
        twice = tally_of(long, Match((0,)), Match((0, 1))).situations
        assert twice["split-after-the-first-page"].met == 2

    def test_an_insert_at_the_end_of_a_node_branches_off_nowhere_inside(self):
        assert found(PAIR, Insert((0, 1, 2), (0, 1, 2))) == {
            "insert-that-extends", "insert-of-own-slots", "insert-below-a-leaf",
        }  # fmt: skip

    def test_the_page_has_to_agree_in_its_beginning(self):
        page = Insert((0, 0, 1, 1), (0, 1, 2, 3))
        assert "page-agrees-in-part" not in found(page, Match((0, 0, 2, 1)), page_size=2)
        assert "page-agrees-in-part" in found(page, Match((0, 0, 1)), page_size=2)

    def test_a_page_that_comes_back_under_its_own_prefix_is_not_used_again(self):
        assert not {name for name in found(PAIR, Evict(2), PAIR) if name.startswith("page-used")}

    def test_equal_tokens_after_equal_pages_two_levels_up_are_another_prefix(self):
        names = found(Insert((0, 5, 1), (0, 1, 2)), Evict(3), Insert((9, 5, 1), (3, 4, 2)))
        assert {"page-used-again", "page-used-again-for-equal-tokens"} <= names

    @pytest.mark.parametrize(("first", "other"), [(None, "a"), ("", "a"), ("a", None)])
    def test_the_empty_namespace_and_none_are_at_stake_together_alone(self, first, other):
        assert "empty-namespace-beside-none" not in found(
            Insert((0,), (0,), first), Match((0,), other)
        )


class TestLocks:
    CHAIN = (PAIR, Match((0, 1)), Lock(1))

    def test_a_lock_over_lock_is_not_one_above_a_lock(self):
        assert "lock-above-a-lock" not in found(*self.CHAIN, Lock(1))
        assert "lock-again" not in found(*self.CHAIN, Match((0,)), Lock(3))

    def test_an_evict_before_the_match_spares_no_handle(self):
        names = found(PAIR, Insert((2,), (2,)), Evict(1), Match((2,)), Lock(3))
        assert "lock-after-an-evict" not in names

    def test_a_split_of_what_is_not_locked_moves_no_boundary(self):
        names = found(PAIR, Match((0, 1)), Match((0,)), Lock(1), Unlock(1))
        assert "unlock-after-a-split" not in names
        assert "split-of-a-locked-node" not in names

    def test_a_lock_given_back_is_forgotten_as_a_boundary(self):
        tally = tally_of(*self.CHAIN, Match((0,)), Unlock(1), Lock(1), Unlock(1))
        assert tally.situations["unlock-after-a-split"].met == 1

    def test_what_evict_took_and_what_reset_took_are_told_apart(self):
        evicted = found(PAIR, Match((0, 1)), Evict(2), PAIR, Reset(), Lock(1))
        assert "stale-after-evict" in evicted
        assert "stale-after-reset" not in evicted


class TestEvict:
    def test_one_node_of_two_pages_is_one_node(self):
        assert found(PAIR, Evict(2)) == {"evict-exactly", "evict-down-to-the-last-page"}

    def test_two_leaves_are_several_and_no_cascade(self):
        names = found(Insert((0,), (0,)), Insert((1,), (1,)), Evict(2))
        assert "evict-of-several-nodes" in names
        assert "evict-cascades" not in names

    def test_a_locked_leaf_that_is_younger_is_not_passed_over(self):
        locked = (Match((1,)), Lock(2))
        names = found(Insert((0,), (0,)), Insert((1,), (1,)), *locked, Evict(1))
        assert "evict-past-a-locked-leaf" not in names

    def test_the_order_of_age_spares_nobody(self):
        assert "evict-spares-what-was-used" not in found(
            Insert((0,), (0,)), Insert((1,), (1,)), Evict(1)
        )
        assert "evict-spares-what-is-new" not in found(
            Insert((0,), (0,)), Insert((1,), (1,)), Evict(1), policy="fifo"
        )

    def test_single_pages_of_a_node_can_be_evicted_and_matched_at(self):
        pages = Promises(granularity="page")
        names = found(
            Insert((0, 1, 2), (0, 1, 2)), Evict(1), Match((0, 1)), Match((0, 1, 2)), Evict(2),
            promises=pages,
        )  # fmt: skip
        assert not {name for name in names if name.startswith("split")}

    def test_a_target_of_its_own_choice_is_followed(self):
        names = found(
            Insert((0,), (0,)), Insert((1,), (1,)), Evict(1), Evict(1),
            promises=Promises(eviction="legal"),
        )  # fmt: skip
        assert {"evict-exactly", "evict-down-to-the-last-page"} <= names


class TestWhereItWas:
    def test_page_size_policy_and_shape_are_those_that_the_operation_came_upon(self):
        trees = (Insert((0, 0), (0, 1)), Insert((1, 1), (2, 3)), Insert((0, 0, 2, 2), (0, 1, 4, 5)),
                 Insert((0, 0, 3, 3), (0, 1, 6, 7)))  # fmt: skip
        every = [each for tree in trees for each in (Match((0, 0)), tree)]
        hits = tally_of(*every, page_size=2, policy="fifo").situations["match-finds-all"]
        assert hits.shapes == {"chain": 1, "fan": 2}
        assert hits.page_sizes == {"page size above 1": 3}
        assert hits.policies == {"fifo": 3}
        after = tally_of(*trees, Match((0, 0)), page_size=2).situations["match-finds-all"]
        assert after.shapes == {"mixed": 1}
        assert after.page_sizes == {"page size above 1": 1}

    def test_the_first_operation_is_named(self):
        hit = tally_of(PAIR, Insert((0,), (0,)), Match((0,)), Match((0, 1, 5)))
        assert hit.situations["split-of-a-leaf"].first == "insert"


class TestLaws:
    def test_a_law_of_locked_pages_counts_only_while_something_is_locked(self):
        free = tally_of(PAIR, Evict(2)).laws["locked-stay"]
        assert (free.judged, free.counted) == (1, 0)
        lock = (Match((0, 1)), Lock(1), Insert((2,), (2,)), Evict(1))
        held = tally_of(PAIR, *lock).laws["locked-stay"]
        assert (held.judged, held.counted) == (1, 1)

    def test_the_looks_at_an_empty_cache_do_not_count(self):
        laws = tally_of(Match(()), PAIR, Evict(2)).laws
        assert (laws["integrity"].judged, laws["integrity"].counted) == (3, 1)
        assert (laws["structure"].judged, laws["structure"].counted) == (3, 1)

    def test_a_law_of_which_each_judgement_counts(self):
        laws = tally_of(PAIR, Evict(True)).laws
        assert (laws["accepts"].judged, laws["accepts"].counted) == (1, 1)
        assert (laws["wrong-types"].judged, laws["wrong-types"].counted) == (1, 1)
        assert (laws["refused-unchanged"].judged, laws["refused-unchanged"].counted) == (1, 1)

    def test_no_law_counts_more_often_than_it_was_judged(self):
        for factory in (TargetFactory(OracleTarget), modest, naive):
            counting = Counting("here", factory.promises)
            runs = campaign(start_locally(factory, 10.0), factory, 1, Totals(), counting=counting)
            list(islice(runs, 20))
            for law in counting.tally().laws.values():
                assert 0 <= law.counted <= law.judged


class TestRequests:
    def found(self, *operations: RequestOperation, **configuration) -> set[str]:
        witness = Witness(RequestConfiguration(**configuration), operations)
        judge, tally = run(witness, "here", ON_ORACLE["requests"])
        assert judge.divergence is None, judge.divergence
        return met(tally.situations)

    def test_a_begin_in_an_empty_cache_misses_nothing(self):
        assert self.found(Begin((0, 1))) == set()

    def test_enough_room_is_not_the_last_room(self):
        assert "begin-fills-the-room" not in self.found(Begin((0, 1)), num_pages=3)

    def test_an_equal_prompt_that_shares_all_but_the_last_page_is_no_twin(self):
        shared = (Begin((0, 1)), Store(0), Commit(0), Begin((0, 1)))
        assert "begin-with-an-equal-prompt" not in self.found(*shared)

    def test_a_commit_of_all_that_there_is_leaves_nothing_out(self):
        names = self.found(Begin((0, 1)), Store(0), Commit(0))
        assert names == {"commit-of-the-first"}

    def test_a_part_page_is_no_page_that_was_left_out(self):
        names = self.found(Begin((0, 1, 2)), Extend(0, 1, (3,)), Commit(0), page_size=4)
        assert "publish-of-the-stored-alone" not in names

    def test_a_finish_of_what_was_committed_brings_no_news(self):
        names = self.found(Begin((0, 1)), Store(0), Commit(0), Finish(0))
        assert "finish-with-news" not in names
        assert "finish-with-duplicates" not in names


def test_pages_that_are_gone_are_forgotten_and_nothing_is_seen_otherwise(monkeypatch):
    def tally(forget_at: int):
        monkeypatch.setattr(memory, "_FORGET_AT", forget_at)
        counting = Counting("here", Promises())
        factory = TargetFactory(OracleTarget)
        runs = campaign(start_locally(factory, 10.0), factory, 3, Totals(), counting=counting)
        list(islice(runs, 30))
        return counting.tally()

    assert tally(0) == tally(10**9)
