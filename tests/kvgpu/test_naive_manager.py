"""The manager with no memory, by itself and beside the radix manager."""

from __future__ import annotations

import pytest
import torch

from kvgpu import BaseCacheManager, NaiveCacheManager, RadixCacheManager
from tests.kvgpu.trees import ids, insert, match, slots


def test_nothing_is_ever_found():
    manager = NaiveCacheManager("cpu")
    manager.insert_prefix(ids(1, 2), slots(0, 1))
    handle, indices = manager.match_prefix(ids(1, 2))
    assert handle.cached_len == 0
    assert (indices.dtype, indices.tolist()) == (torch.int32, [])
    assert handle == manager.match_prefix(ids())[0]
    assert manager.size_info == (0, 0)
    manager.check_integrity()


@pytest.mark.parametrize(("page_size", "result"), [(1, 5), (2, 4), (5, 5), (6, 0)])
def test_an_insert_takes_nothing_over_and_says_so_by_its_result(page_size, result):
    manager = NaiveCacheManager("cpu", page_size=page_size)
    assert manager.insert_prefix(ids(1, 2, 3, 4, 5), slots(0, 1, 2, 3, 4)) == result


def test_every_empty_result_is_one_tensor():
    manager = NaiveCacheManager("cpu")
    empty = manager.match_prefix(ids(1))[1]
    assert empty is manager.evict(0) is manager.reset()
    assert empty.device == manager.device


def test_any_handle_is_locked_and_unlocked_without_effect():
    radix = RadixCacheManager("cpu")
    insert(radix, [1], [0])
    manager = NaiveCacheManager("cpu")
    for handle in (match(radix, 1), manager.match_prefix(ids(1))[0]):
        manager.lock_handle(handle)
        manager.lock_handle(handle, unlock=True)
        manager.lock_handle(handle, unlock=True)
    assert radix.size_info == (1, 0)


def computed(manager: BaseCacheManager) -> int:
    """Tokens computed for two requests that begin alike: "Hello world" and five more tokens."""
    prompts = [[1, 2, 3, 4, 5], [1, 2, 6, 7, 8, 9]]
    next_slot = total = 0
    for prompt in prompts:
        _handle, own = manager.match_prefix(ids(*prompt[:-1]))
        missing = len(prompt) - len(own)
        fresh = torch.arange(next_slot, next_slot + missing, dtype=torch.int32)
        next_slot += missing
        total += missing
        manager.insert_prefix(ids(*prompt), torch.cat([own, fresh]))
    return total


def test_two_requests_that_begin_alike_cost_11_tokens_here_and_9_with_a_radix_manager():
    assert computed(NaiveCacheManager("cpu")) == 11
    assert computed(RadixCacheManager("cpu")) == 9
