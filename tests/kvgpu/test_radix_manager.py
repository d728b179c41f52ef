"""What the radix manager does, by worked examples."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import pytest
import torch

from kvgpu import (
    CacheInUse,
    KVCacheError,
    NotEvictable,
    RadixCacheHandle,
    RadixCacheManager,
    StaleHandle,
    UnbalancedUnlock,
)
from kvgpu.radix_node import Walk
from tests.kvgpu.trees import ids, insert, match, runs, slots


def cache(**options) -> RadixCacheManager:
    return RadixCacheManager("cpu", **{"checked": True, **options})


def matched(manager, *tokens, **options) -> list[int]:
    return manager.match_prefix(ids(*tokens), **options)[1].tolist()


class TestSharing:
    def test_two_prompts_share_what_they_begin_with_and_split_there(self):
        manager = cache()
        assert insert(manager, [1, 2], [0, 1]) == 0
        assert runs(manager) == {((1, 2), (0, 1))}
        assert insert(manager, [1, 3], [0, 2]) == 1
        assert runs(manager) == {((1,), (0,)), ((1, 2), (1,)), ((1, 3), (2,))}
        assert insert(manager, [1, 2, 4, 5, 6], [0, 1, 3, 4, 5]) == 2
        assert runs(manager) == {
            ((1,), (0,)),
            ((1, 2), (1,)),
            ((1, 3), (2,)),
            ((1, 2, 4, 5, 6), (3, 4, 5)),
        }
        assert matched(manager, 1, 2, 4, 9) == [0, 1, 3]
        assert manager.size_info == (6, 0)
        manager.check_integrity()

    def tree(self) -> RadixCacheManager:
        manager = cache()
        insert(manager, [1, 2], [0, 1])
        insert(manager, [1, 3], [0, 2])
        insert(manager, [1, 2, 4, 5, 6], [0, 1, 3, 4, 5])
        return manager

    def test_with_two_of_three_paths_unlocked_only_their_own_leaf_can_go(self):
        manager = self.tree()
        handles = [match(manager, 1, 2), match(manager, 1, 3), match(manager, 1, 2, 4, 5, 6)]
        for handle in handles:
            manager.lock_handle(handle)
        assert manager.size_info == (0, 6)
        manager.lock_handle(handles[0], unlock=True)
        manager.lock_handle(handles[1], unlock=True)
        assert manager.size_info == (1, 5)
        with pytest.raises(NotEvictable):
            manager.evict(2)
        assert manager.size_info == (1, 5)
        assert manager.evict(1).tolist() == [2]
        assert manager.size_info == (0, 5)
        manager.check_integrity()

    def test_with_all_unlocked_an_evict_takes_whole_leaves_least_recent_first(self):
        manager = self.tree()
        assert manager.evict(2).tolist() == [2, 3, 4, 5]
        assert manager.size_info == (2, 0)
        manager.check_integrity()


class TestProgramsThatAreEasilyMisread:
    def test_an_insert_of_what_is_cached_splits_and_refreshes_only_that(self):
        manager = cache()
        insert(manager, [0, 1], [0, 1])
        assert insert(manager, [0], [0]) == 1
        assert manager.evict(2).tolist() == [1, 0]

    def test_a_branch_leaves_the_older_leaf_to_go_first(self):
        manager = cache()
        insert(manager, [1, 1], [0, 1])
        assert insert(manager, [1, 0], [2, 3]) == 1
        assert manager.evict(2).tolist() == [1, 3]

    def test_a_parent_refreshed_last_goes_last(self):
        manager = cache()
        insert(manager, [1, 0], [0, 1])
        insert(manager, [0], [2])
        insert(manager, [1], [0])
        assert manager.evict(3).tolist() == [1, 2, 0]

    def test_a_parent_goes_before_a_leaf_that_is_more_recent(self):
        manager = cache()
        insert(manager, [0, 1], [0, 1])
        insert(manager, [0], [0])
        insert(manager, [1], [2])
        assert manager.evict(3).tolist() == [1, 0, 2]

    def test_under_fifo_both_halves_of_a_split_keep_the_creation_time(self):
        manager = cache(policy="fifo")
        insert(manager, [1, 0], [0, 1])
        insert(manager, [0], [2])
        match(manager, 1)
        assert manager.evict(2).tolist() == [1, 0]

    def test_nobody_unlocks_a_shorter_prefix_by_the_lock_of_a_longer_one(self):
        manager = cache()
        insert(manager, [0, 1], [0, 1])
        manager.lock_handle(match(manager, 0, 1))
        with pytest.raises(UnbalancedUnlock):
            manager.lock_handle(match(manager, 0), unlock=True)

    def test_handles_of_one_prefix_are_interchangeable(self):
        manager = cache()
        insert(manager, [0], [0])
        first = match(manager, 0)
        manager.lock_handle(first)
        manager.lock_handle(match(manager, 0), unlock=True)
        assert manager.size_info == (1, 0)

    def test_the_empty_handle_outlives_a_reset(self):
        manager = cache()
        handle = match(manager)
        manager.reset()
        manager.lock_handle(handle)
        manager.lock_handle(handle, unlock=True)
        manager.lock_handle(handle, unlock=True)


class TestEvictionOrder:
    def test_a_match_refreshes_the_prefix_and_not_the_rest_of_a_node(self):
        manager = cache()
        insert(manager, [0, 1], [0, 1])
        insert(manager, [2], [2])
        match(manager, 0)
        assert manager.evict(2).tolist() == [1, 2]

    def test_a_match_saves_a_leaf_under_lru_and_not_under_fifo(self):
        given = {}
        for policy in ("lru", "fifo"):
            manager = cache(policy=policy)
            insert(manager, [0], [0])
            insert(manager, [1], [1])
            match(manager, 0)
            given[policy] = manager.evict(2).tolist()
        assert given == {"lru": [1, 0], "fifo": [0, 1]}

    def test_a_lock_or_an_unlock_refreshes_nothing(self):
        manager = cache()
        insert(manager, [0], [0])
        handle = match(manager, 0)
        insert(manager, [1], [1])
        manager.lock_handle(handle)
        manager.lock_handle(handle, unlock=True)
        assert manager.evict(1).tolist() == [0]

    def test_an_evict_passes_over_locked_leaves_and_stops_when_it_has_enough(self):
        manager = cache()
        for token in range(4):
            insert(manager, [token, 9], [2 * token, 2 * token + 1])
        manager.lock_handle(match(manager, 0, 9))
        assert manager.evict(3).tolist() == [2, 3, 4, 5]
        assert manager.evict(2).tolist() == [6, 7]
        assert manager.size_info == (0, 2)

    def test_a_parent_with_a_locked_child_is_protected(self):
        manager = cache()
        insert(manager, [0, 1], [0, 1])
        insert(manager, [0, 2], [0, 2])
        manager.lock_handle(match(manager, 0, 1))
        assert manager.size_info == (1, 2)
        assert manager.evict(1).tolist() == [2]

    def test_an_evict_of_nothing_gives_nothing(self):
        manager = cache()
        assert manager.evict(0).tolist() == []
        insert(manager, [0], [0])
        assert manager.evict(0).dtype == torch.int32
        assert manager.size_info == (1, 0)

    def test_a_reset_gives_everything_as_an_evict_of_all_would(self):
        def filled():
            manager = cache()
            insert(manager, [0, 1, 2], [0, 1, 2])
            insert(manager, [0, 1, 3], [0, 1, 3])
            insert(manager, [5, 6], [5, 6], "tenant")
            match(manager, 0)
            return manager

        given = filled().reset().tolist()
        assert given == filled().evict(6).tolist()
        assert given == [2, 3, 1, 5, 6, 0]
        manager = filled()
        manager.reset()
        assert manager.size_info == (0, 0)
        assert manager.reset().tolist() == []
        manager.check_integrity()
        assert matched(manager, 0, 1, 2) == []
        assert insert(manager, [0], [0]) == 0

    def test_a_reset_is_refused_until_the_last_lock_is_given_back(self):
        manager = cache()
        insert(manager, [0], [0])
        handle = match(manager, 0)
        manager.lock_handle(handle)
        with pytest.raises(CacheInUse):
            manager.reset()
        manager.lock_handle(handle, unlock=True)
        assert manager.reset().tolist() == [0]


class TestLocks:
    def test_locks_nest(self):
        manager = cache()
        insert(manager, [0, 1], [0, 1])
        handle = match(manager, 0, 1)
        manager.lock_handle(handle)
        manager.lock_handle(handle)
        manager.lock_handle(handle, unlock=True)
        assert manager.size_info == (0, 2)
        manager.lock_handle(handle, unlock=True)
        assert manager.size_info == (2, 0)
        assert manager.size_info.total_size == 2

    def test_a_split_gives_both_halves_the_count_and_the_handle_the_whole_prefix(self):
        manager = cache()
        insert(manager, [0, 1, 2], [0, 1, 2])
        handle = match(manager, 0, 1, 2)
        manager.lock_handle(handle)
        insert(manager, [0, 3], [0, 3])
        assert manager.size_info == (1, 3)
        short = match(manager, 0, 1)
        manager.lock_handle(short)
        manager.lock_handle(handle, unlock=True)
        assert manager.size_info == (2, 2)
        manager.lock_handle(short, unlock=True)
        assert manager.size_info == (4, 0)
        manager.check_integrity()

    def test_what_is_inserted_below_a_locked_prefix_is_evictable(self):
        manager = cache()
        insert(manager, [0], [0])
        manager.lock_handle(match(manager, 0))
        insert(manager, [0, 1], [0, 1])
        assert manager.size_info == (1, 1)
        assert manager.evict(1).tolist() == [1]
        manager.check_integrity()


@pytest.mark.parametrize("page_size", [1, 2, 3, 4, 16])
class TestPages:
    def fresh(self, *pages: int, page_size: int) -> list[int]:
        return [page * page_size + i for page in pages for i in range(page_size)]

    def test_only_whole_pages_are_cached_and_matched(self, page_size):
        manager = cache(page_size=page_size)
        tokens = list(range(3 * page_size))
        at = self.fresh(7, 3, 5, page_size=page_size)
        part = [99] * (page_size - 1)
        assert insert(manager, tokens + part, at + part) == 0
        assert manager.size_info == (3 * page_size, 0)
        for length in range(len(tokens) + 1):
            whole = length // page_size * page_size
            handle, indices = manager.match_prefix(ids(*tokens[:length]))
            assert handle.cached_len == whole
            assert indices.tolist() == at[:whole]
            assert indices.dtype == torch.int32
            assert manager.match_prefix(ids(*tokens[:length], -1))[0] == handle
        assert insert(manager, tokens, at) == len(tokens)
        manager.check_integrity()

    def test_a_difference_inside_a_page_loses_the_whole_page(self, page_size):
        manager = cache(page_size=page_size)
        tokens = list(range(3 * page_size))
        insert(manager, tokens, self.fresh(0, 1, 2, page_size=page_size))
        for position in range(len(tokens)):
            other = list(tokens)
            other[position] = -7
            assert match(manager, *other).cached_len == position // page_size * page_size

    def test_a_prompt_shorter_than_a_page_is_not_cached(self, page_size):
        manager = cache(page_size=page_size)
        tokens = list(range(page_size - 1))
        assert insert(manager, tokens, tokens) == 0
        assert manager.size_info == (0, 0)
        assert manager.core.roots == {}

    def test_evicted_slots_are_whole_pages_in_token_order(self, page_size):
        manager = cache(page_size=page_size)
        at = self.fresh(4, 2, page_size=page_size)
        insert(manager, list(range(2 * page_size)), at)
        assert manager.evict(1).tolist() == at


class TestNamespaces:
    def test_equal_prompts_of_different_namespaces_never_meet(self):
        manager = cache()
        for number, namespace in enumerate([None, "", "a", "b"]):
            assert insert(manager, [1, 2], [2 * number, 2 * number + 1], namespace) == 0
        assert matched(manager, 1, 2) == [0, 1]
        assert matched(manager, 1, 2, namespace="") == [2, 3]
        assert matched(manager, 1, 2, namespace="b") == [6, 7]
        assert matched(manager, 1, 2, namespace="c") == []
        assert manager.evict(2).tolist() == [4, 5]
        manager.check_integrity()

    def test_a_namespace_leaves_nothing_behind(self):
        manager = cache()
        for number in range(20):
            insert(manager, [1, 2], [0, 1], f"tenant {number}")
            insert(manager, [1, 3], [0, 2], f"tenant {number}")
            match(manager, 9, namespace=f"nobody {number}")
            manager.evict(3)
            assert manager.core.roots == {}
        insert(manager, [1], [0], "last")
        manager.reset()
        assert manager.core.roots == {}


class TestHandles:
    def test_handles_of_one_incarnation_are_equal_also_after_a_split(self):
        manager = cache()
        insert(manager, [1, 2, 3], [0, 1, 2])
        first = match(manager, 1, 2, 3)
        short = match(manager, 1)
        again = match(manager, 1, 2, 3)
        assert first == again
        assert hash(first) == hash(again)
        assert len({first, again, short}) == 2
        assert first != short

    def test_handles_of_two_incarnations_differ(self):
        manager = cache()
        insert(manager, [1], [0])
        first = match(manager, 1)
        manager.evict(1)
        insert(manager, [1], [0])
        assert match(manager, 1) != first

    def test_handles_of_two_managers_differ_but_for_the_empty_one(self):
        one, two = cache(), cache(page_size=2)
        insert(one, [1, 2], [0, 1])
        insert(two, [1, 2], [0, 1])
        assert match(one, 1, 2) != match(two, 1, 2)
        assert match(one, 9) == match(two)
        assert hash(match(one, 9)) == hash(match(two))

    def test_a_handle_does_not_show_a_user_s_tokens(self):
        manager = cache()
        insert(manager, [4711, 4712], [0, 1])
        assert repr(match(manager, 4711, 4712)) == "RadixCacheHandle(cached_len=2)"

    def test_a_prefix_of_a_split_node_stays_alive_while_its_own_node_does(self):
        manager = cache()
        insert(manager, [1, 2], [0, 1])
        whole, upper = match(manager, 1, 2), match(manager, 1)
        manager.evict(1)
        with pytest.raises(StaleHandle):
            manager.lock_handle(whole)
        manager.lock_handle(upper)
        assert manager.size_info == (0, 1)


class TestTensors:
    def test_the_caller_may_overwrite_its_buffers(self):
        manager = cache(page_size=2)
        tokens, at = ids(1, 2, 3, 4), slots(4, 5, 0, 1)
        manager.insert_prefix(tokens, at)
        tokens.fill_(9)
        at.fill_(7)
        handle, indices = manager.match_prefix(tokens.copy_(ids(1, 2, 3, 4)))
        tokens.fill_(9)
        assert indices.tolist() == [4, 5, 0, 1]
        assert match(manager, 1, 2, 3, 4) == handle
        manager.check_integrity()

    @pytest.mark.parametrize("page_size", [1, 2])
    def test_a_result_shares_no_memory_with_the_cache(self, page_size):
        manager = cache(page_size=page_size)
        insert(manager, [1, 2, 3, 4], [0, 1, 2, 3])
        for prompt in ([1, 2, 3, 4], [1, 2, 9]):
            for _ in range(2):
                manager.match_prefix(ids(*prompt))[1].fill_(-5)
        assert matched(manager, 1, 2, 3, 4) == [0, 1, 2, 3]
        manager.match_prefix(ids(9))[1].fill_(-5)
        manager.evict(0).fill_(-5)
        manager.evict(1).fill_(-5)
        assert manager.reset().tolist() == [0, 1]

    @pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
    @pytest.mark.parametrize("other", [torch.int32, torch.int64])
    def test_equal_tokens_match_whatever_the_dtype(self, dtype, other):
        manager = cache()
        tokens = (0, 1, -1, 2**31 - 1, -(2**31))
        manager.insert_prefix(ids(*tokens, dtype=dtype), slots(0, 1, 2, 3, 4))
        assert manager.match_prefix(ids(*tokens, dtype=other))[0].cached_len == 5

    def test_tokens_that_differ_in_the_high_half_alone_do_not_match(self):
        manager = cache()
        insert(manager, [7], [0])
        assert match(manager, 7 + 2**32).cached_len == 0

    @pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
    def test_inputs_of_any_stride_are_read(self, dtype):
        manager = cache()
        tokens = torch.arange(12, dtype=dtype).view(6, 2)[:, 1]
        at = torch.arange(12, dtype=torch.int32).view(2, 6).t()[:, 1]
        assert not tokens.is_contiguous()
        manager.insert_prefix(tokens, at)
        assert matched(manager, 1, 3, 5, 7) == [6, 7, 8, 9]
        assert manager.match_prefix(ids(1).expand(3))[0].cached_len == 1
        manager.check_integrity()

    def test_results_are_int32_and_the_empty_one_is_shared(self):
        manager = cache()
        nothing = manager.match_prefix(ids())[1]
        assert nothing is manager.match_prefix(ids(1))[1] is manager.evict(0) is manager.reset()
        assert (nothing.dtype, tuple(nothing.shape)) == (torch.int32, (0,))
        assert nothing.device == manager.device == torch.device("cpu")

    def test_another_device_gets_its_results_by_one_upload(self):
        manager = RadixCacheManager("meta")
        insert(manager, [1, 2], [0, 1])
        indices = manager.match_prefix(ids(1, 2))[1]
        assert indices.device == manager.device == torch.device("meta")
        assert (indices.dtype, len(indices)) == (torch.int32, 2)

    def test_a_gpu_s_results_are_uploaded_from_pinned_memory(self, monkeypatch):
        manager = RadixCacheManager("cpu")
        insert(manager, [1, 2], [0, 1])
        steps = []

        def pin(tensor):
            steps.append("pin")
            return tensor

        def move(tensor, device, *, non_blocking):
            steps.append((device, non_blocking))
            return tensor

        manager.device = torch.device("cuda:0")
        monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
        monkeypatch.setattr(torch.Tensor, "to", move)
        assert matched(manager, 1, 2) == [0, 1]
        assert steps == ["pin", (torch.device("cuda:0"), True)]


class TestSizeAndDepth:
    DEPTH = 100_000

    def test_a_prompt_of_100_000_one_token_nodes(self):
        manager = RadixCacheManager("cpu")
        tokens = torch.arange(self.DEPTH)
        at = torch.arange(self.DEPTH, dtype=torch.int32)
        manager.insert_prefix(tokens, at)
        core = manager.core
        self.shred(core, core.leaves.peekitem()[1])
        manager.check_integrity()
        handle, indices = manager.match_prefix(tokens)
        assert torch.equal(indices, at)
        manager.lock_handle(handle)
        assert manager.size_info == (0, self.DEPTH)
        manager.check_integrity()
        fork = torch.cat([tokens[:-1], ids(-1)])
        assert manager.insert_prefix(fork, torch.cat([at[:-1], slots(self.DEPTH)])) == len(fork) - 1
        manager.lock_handle(handle, unlock=True)
        assert manager.evict(2).tolist() == [self.DEPTH - 1, self.DEPTH]
        assert torch.equal(manager.evict(self.DEPTH - 1), at[:-1].flip(0))
        assert core.roots == {}
        manager.check_integrity()

    def shred(self, core, leaf):
        """Halve one long node until its parts have one token each, by the core's own splits.

        Cut off one by one, each cut would copy all that is left.
        """
        waiting = [leaf]
        while waiting:
            node = waiting.pop()
            if len(node.pages) > 1:
                cut = core.prepare_cut(Walk([], node, len(node.pages) // 2))
                core.split(cut)
                waiting += [cut.upper, node]

    def test_the_reset_of_a_deep_tree(self):
        manager = RadixCacheManager("cpu")
        tokens = torch.arange(20_000)
        manager.insert_prefix(tokens, tokens.int())
        self.shred(manager.core, manager.core.leaves.peekitem()[1])
        assert torch.equal(manager.reset(), tokens.int().flip(0))
        manager.check_integrity()

    def test_what_was_evicted_holds_no_memory_though_a_handle_is_kept(self):
        manager = cache()
        insert(manager, [1, 2, 3], [0, 1, 2])
        kept = [match(manager, 1, 2, 3), match(manager, 1)]
        pages = [weakref.ref(handle.node.pages) for handle in kept]
        manager.evict(3)
        assert [ref() for ref in pages] == [None, None]
        assert {handle.node.key for handle in kept} == {b""}
        assert all(not handle.node.children for handle in kept)

    def test_a_split_keeps_no_view_of_the_former_arrays(self):
        manager = cache()
        insert(manager, [1, 2, 3], [0, 1, 2])
        former = weakref.ref(match(manager, 1, 2, 3).node.pages)
        match(manager, 1)
        assert former() is None

    def test_a_manager_goes_though_a_stale_handle_is_kept(self):
        manager = cache()
        insert(manager, [1], [0])
        handle = match(manager, 1)
        manager.evict(1)
        gone = weakref.ref(manager.core)
        del manager
        gc.collect()
        assert gone() is None
        assert handle.cached_len == 1


class TestThreads:
    def test_calls_from_many_threads_are_steps(self):
        manager = RadixCacheManager("cpu", checked=True, num_slots=4096)
        errors: list[BaseException] = []

        def work(number: int) -> None:
            chance = random.Random(number)
            mine = list(range(number * 1000, number * 1000 + 1000))
            try:
                for _ in range(60):
                    tokens = [chance.randrange(3) for _ in range(chance.randrange(1, 6))]
                    at = [mine.pop() for _ in tokens]
                    manager.insert_prefix(ids(*tokens), slots(*at))
                    handle = match(manager, *tokens)
                    try:
                        manager.lock_handle(handle)
                    except StaleHandle:
                        continue
                    manager.size_info  # noqa: B018
                    manager.lock_handle(handle, unlock=True)
                    try:
                        manager.evict(chance.randrange(4))
                    except NotEvictable:
                        continue
            except KVCacheError as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        manager.check_integrity()
        assert manager.size_info.protected_size == 0


def test_the_same_calls_give_the_same_results():
    def trace() -> list[list[int]]:
        manager, chance, results = cache(), random.Random(5), []
        for number in range(200):
            tokens = [chance.randrange(3) for _ in range(4)]
            own = manager.match_prefix(ids(*tokens))[1].tolist()
            fresh = [4 * number + i for i in range(len(own), 4)]
            results.append([insert(manager, tokens, own + fresh), *own])
            if number % 3 == 0:
                results.append(manager.evict(min(3, manager.size_info.evictable_size)).tolist())
        return results

    assert trace() == trace()


def test_a_handle_can_be_made_by_hand_only_for_the_empty_prefix():
    manager = cache()
    manager.lock_handle(RadixCacheHandle(0))
    manager.lock_handle(RadixCacheHandle(0), unlock=True)
