"""The oracle held to the contract by hand: each number here was worked out on paper."""

from __future__ import annotations

import pytest

from kvref.configuration import Configuration
from kvref.oracle import EMPTY, Oracle
from kvref.refusals import Refusal, RefusalKind, Refused
from tests.kvref.oracle_target import picture


def oracle(page_size=1, num_pages=16, policy="lru", checked=True, granularity="node") -> Oracle:
    configuration = Configuration(
        page_size=page_size, num_pages=num_pages, policy=policy, checked=checked
    )
    return Oracle(configuration, granularity=granularity)


def handle_of(cache, *tokens, namespace=None):
    return cache.match_prefix(tokens, namespace)[0]


def slots_of(cache, *tokens, namespace=None) -> list[int]:
    return cache.match_prefix(tokens, namespace)[1]


def sizes(cache) -> tuple[int, int]:
    return cache.evictable_size, cache.protected_size


def runs(cache) -> set[tuple[tuple[int, ...], tuple[int, ...], int]]:
    return {(view.prefix, view.slots, view.lock_count) for view in cache.nodes()}


def refused(cache, call, kind, **fields) -> None:
    """The call is refused so, and leaves no trace."""
    before = picture(cache)
    with pytest.raises(Refused) as caught:
        call()
    assert caught.value.refusal == Refusal(kind, fields)
    assert picture(cache) == before
    cache.recompute()


class TestTheTutorial:
    def tree(self) -> Oracle:
        cache = oracle()
        assert cache.insert_prefix([1, 2], [0, 1]) == 0
        assert cache.insert_prefix([1, 3], [0, 2]) == 1
        assert cache.insert_prefix([1, 2, 4, 5, 6], [0, 1, 3, 4, 5]) == 2
        return cache

    def test_two_prompts_share_what_they_begin_with_and_split_there(self):
        cache = oracle()
        cache.insert_prefix([1, 2], [0, 1])
        assert runs(cache) == {((1, 2), (0, 1), 0)}
        cache.insert_prefix([1, 3], [0, 2])
        assert runs(cache) == {((1,), (0,), 0), ((1, 2), (1,), 0), ((1, 3), (2,), 0)}

    def test_a_longer_prompt_hangs_its_rest_below_what_was_there(self):
        cache = self.tree()
        assert ((1, 2, 4, 5, 6), (3, 4, 5), 0) in runs(cache)
        assert slots_of(cache, 1, 2, 4, 9) == [0, 1, 3]
        assert sizes(cache) == (6, 0)

    def test_locks_on_three_paths_and_two_given_back(self):
        cache = self.tree()
        handles = [
            handle_of(cache, 1, 2), handle_of(cache, 1, 3), handle_of(cache, 1, 2, 4, 5, 6)
        ]  # fmt: skip
        for handle in handles:
            cache.lock_handle(handle)
        assert sizes(cache) == (0, 6)
        cache.lock_handle(handles[0], unlock=True)
        cache.lock_handle(handles[1], unlock=True)
        assert sizes(cache) == (1, 5)
        refused(cache, lambda: cache.evict(2), RefusalKind.NOT_EVICTABLE, needed=2, evictable=1)
        assert cache.evict(1) == [2]

    def test_with_nothing_locked_two_slots_cost_four(self):
        assert self.tree().evict(2) == [2, 3, 4, 5]


class TestWhereAWrongReadingIsLikely:
    def test_an_insert_of_what_is_cached_splits_so_the_rest_goes_first(self):
        cache = oracle()
        cache.insert_prefix([0, 1], [0, 1])
        cache.insert_prefix([0], [0])
        assert cache.evict(2) == [1, 0]

    def test_an_insert_refreshes_what_it_shares_and_not_the_other_branch(self):
        cache = oracle()
        cache.insert_prefix([1, 1], [0, 1])
        cache.insert_prefix([1, 0], [2, 3])
        assert cache.evict(2) == [1, 3]

    def test_a_parent_that_becomes_a_leaf_competes_with_its_own_recency(self):
        cache = oracle()
        cache.insert_prefix([1, 0], [0, 1])
        cache.insert_prefix([0], [2])
        cache.insert_prefix([1], [0])
        assert cache.evict(3) == [1, 2, 0]

    def test_a_parent_that_becomes_a_leaf_may_be_older_than_another_leaf(self):
        cache = oracle()
        cache.insert_prefix([0, 1], [0, 1])
        cache.insert_prefix([0], [0])
        cache.insert_prefix([1], [2])
        assert cache.evict(3) == [1, 0, 2]

    def test_under_fifo_a_split_keeps_the_creation_time_of_both_halves(self):
        cache = oracle(policy="fifo")
        cache.insert_prefix([1, 0], [0, 1])
        cache.insert_prefix([0], [2])
        cache.match_prefix([1])
        assert cache.evict(2) == [1, 0]

    def test_nobody_unlocks_at_a_prefix_what_was_locked_below_it(self):
        cache = oracle()
        cache.insert_prefix([0, 1], [0, 1])
        cache.lock_handle(handle_of(cache, 0, 1))
        shorter = handle_of(cache, 0)
        refused(
            cache, lambda: cache.lock_handle(shorter, unlock=True),
            RefusalKind.UNBALANCED, cached_len=1,
        )  # fmt: skip

    def test_two_handles_of_one_incarnation_are_interchangeable(self):
        cache = oracle()
        cache.insert_prefix([0], [0])
        one = handle_of(cache, 0)
        cache.lock_handle(one)
        other = handle_of(cache, 0)
        assert one == other
        assert hash(one) == hash(other)
        cache.lock_handle(other, unlock=True)
        assert sizes(cache) == (1, 0)

    def test_the_empty_handle_survives_a_reset(self):
        cache = oracle()
        empty = handle_of(cache)
        cache.insert_prefix([0], [0])
        cache.reset()
        cache.lock_handle(empty)
        cache.lock_handle(empty, unlock=True)
        cache.lock_handle(empty, unlock=True)
        assert sizes(cache) == (0, 0)


class TestMatch:
    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_only_leading_whole_pages_are_found(self, size):
        cache = oracle(size)
        tokens, slots = list(range(3 * size + size - 1)), list(range(3 * size + size - 1))
        assert cache.insert_prefix(tokens, slots) == 0
        assert sizes(cache) == (3 * size, 0)
        for length in range(len(tokens) + 1):
            handle, found = cache.match_prefix(tokens[:length])
            assert handle.cached_len == len(found) == length // size * size
            assert found == slots[: len(found)]

    def test_a_page_that_differs_in_its_last_token_is_another_page(self):
        cache = oracle(2)
        cache.insert_prefix([1, 2], [0, 1])
        assert cache.insert_prefix([1, 3], [2, 3]) == 0
        assert slots_of(cache, 1, 3) == [2, 3]

    def test_the_same_page_after_another_prefix_is_another_page(self):
        cache = oracle()
        cache.insert_prefix([1, 2], [0, 1])
        assert handle_of(cache, 2) == EMPTY
        assert handle_of(cache, 0, 1, 2) == EMPTY

    def test_it_splits_where_it_ends_and_refreshes_only_what_it_found(self):
        cache = oracle()
        cache.insert_prefix([1, 2], [0, 1])
        cache.insert_prefix([3], [2])
        cache.match_prefix([1])
        assert runs(cache) == {((1,), (0,), 0), ((1, 2), (1,), 0), ((3,), (2,), 0)}
        assert cache.evict(3) == [1, 2, 0]

    def test_what_differs_by_more_than_32_bits_does_not_meet(self):
        cache = oracle()
        cache.insert_prefix([7], [0])
        assert slots_of(cache, 7 + 2**32) == []

    def test_looking_up_slots_changes_nothing(self):
        cache = oracle()
        cache.insert_prefix([1, 2], [0, 1])
        before = picture(cache)
        assert cache.cached_slots([1, 5]) == [0]
        assert 1 in cache.held
        assert 2 not in cache.held
        assert picture(cache) == before


class TestInsert:
    def test_the_part_page_stays_the_callers(self):
        cache = oracle(3)
        assert cache.insert_prefix([1, 2, 3, 4], [0, 1, 2, 9]) == 0
        assert sizes(cache) == (3, 0)
        assert 9 not in cache.held

    def test_a_part_of_a_cached_page_is_not_a_cached_prefix(self):
        cache = oracle(2)
        cache.insert_prefix([1, 2], [0, 1])
        assert cache.insert_prefix([1], [5]) == 0
        assert slots_of(cache, 1, 2) == [0, 1]

    def test_duplicates_stay_the_callers_and_the_cache_keeps_its_own(self):
        cache = oracle()
        cache.insert_prefix([1], [0])
        assert cache.insert_prefix([1, 2], [5, 6]) == 1
        assert slots_of(cache, 1, 2) == [0, 6]
        assert 5 not in cache.held

    def test_it_copies_what_it_keeps(self):
        cache, tokens, slots = oracle(), [1, 2], [0, 1]
        cache.insert_prefix(tokens, slots)
        tokens[:], slots[:] = [9, 9], [9, 9]
        assert slots_of(cache, 1, 2) == [0, 1]

    def test_new_pages_below_a_locked_prefix_are_evictable_at_once(self):
        cache = oracle()
        cache.insert_prefix([1], [0])
        cache.lock_handle(handle_of(cache, 1))
        cache.insert_prefix([1, 2, 3], [0, 1, 2])
        assert sizes(cache) == (2, 1)
        assert cache.evict(1) == [1, 2]

    def test_different_lengths_are_refused(self):
        cache = oracle()
        refused(cache, lambda: cache.insert_prefix([1, 2], [0]), RefusalKind.VALUE)


class TestNamespaces:
    def test_equal_tokens_of_two_namespaces_never_meet(self):
        cache = oracle()
        for slot, namespace in enumerate([None, "", "a"]):
            assert cache.insert_prefix([1], [slot], namespace) == 0
        assert [slots_of(cache, 1, namespace=name) for name in (None, "", "a")] == [[0], [1], [2]]
        assert handle_of(cache, 1, namespace="") != handle_of(cache, 1)
        assert slots_of(cache, 1, namespace="b") == []

    def test_they_share_one_order_of_eviction_and_one_sum(self):
        cache = oracle()
        cache.insert_prefix([1], [0], "a")
        cache.insert_prefix([1], [1], "b")
        cache.match_prefix([1], "a")
        assert sizes(cache) == (2, 0)
        assert cache.evict(1) == [1]

    def test_an_emptied_namespace_can_be_filled_again(self):
        cache = oracle()
        cache.insert_prefix([1], [0], "a")
        stale = handle_of(cache, 1, namespace="a")
        assert cache.evict(1) == [0]
        cache.recompute()
        cache.insert_prefix([1], [0], "a")
        refused(cache, lambda: cache.lock_handle(stale), RefusalKind.STALE, cached_len=1)


class TestLocks:
    def test_they_nest_and_cover_the_whole_path(self):
        cache = oracle()
        cache.insert_prefix([1, 2, 3], [0, 1, 2])
        longer, shorter = handle_of(cache, 1, 2, 3), handle_of(cache, 1)
        cache.lock_handle(longer)
        cache.lock_handle(shorter)
        cache.lock_handle(shorter)
        assert runs(cache) == {((1,), (0,), 3), ((1, 2, 3), (1, 2), 1)}
        cache.lock_handle(longer, unlock=True)
        assert sizes(cache) == (2, 1)
        cache.lock_handle(shorter, unlock=True)
        assert sizes(cache) == (2, 1)
        cache.lock_handle(shorter, unlock=True)
        assert sizes(cache) == (3, 0)

    def test_a_split_gives_both_halves_the_count(self):
        cache = oracle()
        cache.insert_prefix([1, 2], [0, 1])
        cache.lock_handle(handle_of(cache, 1, 2))
        cache.match_prefix([1])
        assert runs(cache) == {((1,), (0,), 1), ((1, 2), (1,), 1)}
        assert sizes(cache) == (0, 2)

    def test_they_touch_no_recency(self):
        cache = oracle()
        cache.insert_prefix([1], [0])
        handle = handle_of(cache, 1)
        cache.insert_prefix([2], [1])
        cache.lock_handle(handle)
        cache.lock_handle(handle, unlock=True)
        assert cache.evict(1) == [0]

    def test_a_handle_is_stale_once_its_prefix_went_even_if_equal_tokens_came_back(self):
        cache = oracle(2)
        cache.insert_prefix([1, 2], [0, 1])
        handle = handle_of(cache, 1, 2)
        cache.evict(1)
        cache.insert_prefix([1, 2], [0, 1])
        assert handle_of(cache, 1, 2) != handle
        for unlock in (False, True):
            refused(
                cache, lambda unlock=unlock: cache.lock_handle(handle, unlock),
                RefusalKind.STALE, cached_len=2,
            )  # fmt: skip

    def test_a_handle_of_another_manager_is_foreign_also_where_tokens_agree(self):
        cache, other = oracle(), oracle()
        for each in (cache, other):
            each.insert_prefix([1], [0])
        handle = handle_of(other, 1)
        other.evict(1)  # and stale there, which is not this manager's to say
        for unlock in (False, True):
            refused(
                cache, lambda unlock=unlock: cache.lock_handle(handle, unlock),
                RefusalKind.FOREIGN, cached_len=1,
            )  # fmt: skip

    def test_the_empty_handle_of_any_manager_is_right(self):
        oracle().lock_handle(handle_of(oracle(), 1))

    def test_an_unlock_without_a_lock_is_refused(self):
        cache = oracle()
        cache.insert_prefix([1], [0])
        handle = handle_of(cache, 1)
        cache.lock_handle(handle)
        cache.lock_handle(handle, unlock=True)
        refused(
            cache, lambda: cache.lock_handle(handle, unlock=True),
            RefusalKind.UNBALANCED, cached_len=1,
        )  # fmt: skip

    @pytest.mark.parametrize("junk", [None, 1, "handle", (None, None, 0)])
    def test_what_is_no_handle_is_refused(self, junk):
        cache = oracle()
        refused(cache, lambda: cache.lock_handle(junk), RefusalKind.TYPE)


class TestEvict:
    def test_it_stops_as_soon_as_there_is_enough(self):
        cache = oracle()
        for token in range(4):
            cache.insert_prefix([token], [token])
        assert cache.evict(0) == []
        assert cache.evict(2) == [0, 1]
        assert cache.evict(2) == [2, 3]

    def test_under_fifo_no_match_and_no_insert_saves_a_node(self):
        cache = oracle(policy="fifo")
        for token in range(3):
            cache.insert_prefix([token], [token])
        cache.match_prefix([0])
        cache.insert_prefix([0], [9])
        assert cache.evict(2) == [0, 1]

    def test_nodes_come_in_the_order_in_which_they_went_and_slots_in_token_order(self):
        cache = oracle(2)
        cache.insert_prefix([1, 1, 2, 2], [6, 7, 0, 1])
        cache.insert_prefix([1, 1, 3, 3, 4, 4], [6, 7, 4, 5, 2, 3])
        assert cache.evict(6) == [0, 1, 4, 5, 2, 3]

    def test_a_locked_leaf_is_passed_over_and_protects_what_is_above_it(self):
        cache = oracle()
        cache.insert_prefix([1, 2], [0, 1])
        cache.insert_prefix([3], [2])
        cache.lock_handle(handle_of(cache, 1, 2))
        cache.match_prefix([3])
        assert cache.evict(1) == [2]
        refused(cache, lambda: cache.evict(1), RefusalKind.NOT_EVICTABLE, needed=1, evictable=0)

    def test_by_pages_it_takes_no_more_than_it_needs(self):
        cache = oracle(2, granularity="page")
        cache.insert_prefix([1, 1, 2, 2, 3, 3], [0, 1, 2, 3, 4, 5])
        assert cache.evict(3) == [4, 5, 2, 3]
        assert runs(cache) == {((1, 1), (0, 1), 0)}
        cache.recompute()

    @pytest.mark.parametrize("junk", [True, False, 1.0, None, "1"])
    def test_a_size_that_is_no_int_is_refused(self, junk):
        cache = oracle()
        cache.insert_prefix([1], [0])
        refused(cache, lambda: cache.evict(junk), RefusalKind.TYPE)

    def test_a_negative_size_is_refused(self):
        cache = oracle()
        refused(cache, lambda: cache.evict(-1), RefusalKind.VALUE)


class TestReset:
    def test_it_gives_up_everything_as_an_evict_of_all_would(self):
        cache = oracle()
        cache.insert_prefix([1, 2], [0, 1])
        cache.insert_prefix([1], [0])
        cache.insert_prefix([3], [2], "a")
        assert cache.reset() == [1, 0, 2]
        assert sizes(cache) == (0, 0)
        assert cache.reset() == []
        cache.recompute()

    def test_while_something_is_locked_it_is_refused(self):
        cache = oracle(2)
        cache.insert_prefix([1, 1, 2, 2], [0, 1, 2, 3])
        cache.lock_handle(handle_of(cache, 1, 1))
        refused(cache, cache.reset, RefusalKind.IN_USE, protected_size=2)


class TestCheckedSlots:
    def cache(self) -> Oracle:
        """Pages of two: 1 1 at page 0, 2 2 after it at page 1; eight pages."""
        cache = oracle(2, num_pages=8)
        cache.insert_prefix([1, 1, 2, 2], [0, 1, 2, 3])
        return cache

    @pytest.mark.parametrize(
        ("tokens", "slots"),
        [
            pytest.param([3, 3], [5, 6], id="misaligned"),
            pytest.param([3, 3], [5, 4], id="not in order"),
            pytest.param([3, 3], [4, 6], id="of two pages"),
            pytest.param([3, 3], [16, 17], id="past the end"),
            pytest.param([3, 3], [-2, -1], id="negative"),
            pytest.param([3, 3, 3, 3], [4, 5, 4, 5], id="twice"),
            pytest.param([3, 3], [2, 3], id="held by the cache"),
            pytest.param([1, 1, 3, 3], [0, 1, 0, 1], id="held by the cache at this position"),
            pytest.param([1, 1, 2, 2], [0, 1, 0, 1], id="of another position"),
            pytest.param([1, 1, 2, 2], [1, 0, 2, 3], id="of another place in the page"),
            pytest.param([1, 1], [3, 8], id="one of another position"),
            pytest.param([1, 1, 3, 3], [4, 5, 4, 5], id="a duplicate that is given away"),
        ],
    )
    def test_slots_that_the_cache_cannot_take_are_refused(self, tokens, slots):
        cache = self.cache()
        refused(cache, lambda: cache.insert_prefix(tokens, slots), RefusalKind.VALUE)

    @pytest.mark.parametrize(
        ("tokens", "slots", "already"),
        [
            pytest.param([1, 1, 3, 3], [0, 1, 14, 15], 2, id="own, and the last page"),
            pytest.param([1, 1, 3, 3], [4, 5, 6, 7], 2, id="a duplicate"),
            pytest.param([1, 1, 3, 3], [0, 9, 6, 7], 2, id="half own, half a duplicate"),
            pytest.param([1, 1, 3], [0, 1, 99], 2, id="a part page is not looked at"),
            pytest.param([1, 1], [-1, 99], 2, id="duplicates are the caller's, wherever they lie"),
        ],
    )
    def test_slots_that_are_right_are_taken(self, tokens, slots, already):
        cache = self.cache()
        assert cache.insert_prefix(tokens, slots) == already
        cache.recompute()

    def test_unchecked_the_caller_is_believed(self):
        cache = oracle(num_pages=2, checked=False)
        assert cache.insert_prefix([1], [99]) == 0
        assert slots_of(cache, 1) == [99]


class TestRecompute:
    """A checker must be checked: one damage each, and its name in the error."""

    def cache(self) -> Oracle:
        cache = oracle()
        cache.insert_prefix([1, 2, 3], [0, 1, 2])
        cache.insert_prefix([1, 4], [0, 3])
        cache.lock_handle(handle_of(cache, 1, 4))
        cache.recompute()
        return cache

    def page(self, cache, slot):
        return cache._holder[slot]

    def test_a_page_above_which_nothing_is(self):
        cache = self.cache()
        self.page(cache, 3).parent = None
        with pytest.raises(AssertionError, match="without a parent"):
            cache.recompute()

    def test_an_evicted_page_in_the_table(self):
        cache = self.cache()
        self.page(cache, 3).cached = False
        with pytest.raises(AssertionError, match="an evicted page"):
            cache.recompute()

    def test_a_wrong_number_of_children(self):
        cache = self.cache()
        self.page(cache, 0).children += 1
        with pytest.raises(AssertionError, match="children"):
            cache.recompute()

    @pytest.mark.parametrize("slot", [0, 2, 3])
    def test_a_lock_count_that_is_not_a_sum(self, slot):
        cache = self.cache()
        self.page(cache, slot).locks += 1
        with pytest.raises(AssertionError, match="locks"):
            cache.recompute()

    def test_a_lock_of_its_own_that_nobody_counted(self):
        cache = self.cache()
        self.page(cache, 2).own_locks += 1
        with pytest.raises(AssertionError, match="locks"):
            cache.recompute()

    @pytest.mark.parametrize("slot", [0, 2])
    def test_a_cut_that_is_missing(self, slot):
        cache = self.cache()
        self.page(cache, slot).node_ends = False
        with pytest.raises(AssertionError, match="without a cut"):
            cache.recompute()

    @pytest.mark.parametrize("damage", ["one too many", "one missing"])
    def test_wrong_leaves(self, damage):
        cache = self.cache()
        if damage == "one missing":
            del cache._leaves[self.page(cache, 2)]
        else:
            cache._leaves[self.page(cache, 1)] = None
        with pytest.raises(AssertionError, match="leaves"):
            cache.recompute()

    @pytest.mark.parametrize("damage", ["another's", "missing"])
    def test_a_wrong_holder_of_a_slot(self, damage):
        cache = self.cache()
        if damage == "missing":
            del cache._holder[2]
        else:
            cache._holder[2] = self.page(cache, 3)
        with pytest.raises(AssertionError, match="slots"):
            cache.recompute()

    def test_a_wrong_protected_size(self):
        cache = self.cache()
        cache.protected_size -= 1
        with pytest.raises(AssertionError, match="protected size"):
            cache.recompute()

    def test_a_wrong_evictable_size(self):
        cache = self.cache()
        cache.evictable_size += 1
        with pytest.raises(AssertionError, match="evictable size"):
            cache.recompute()

    def test_a_namespace_left_without_pages(self):
        cache = self.cache()
        cache._root("a")
        with pytest.raises(AssertionError, match="an empty namespace"):
            cache.recompute()
