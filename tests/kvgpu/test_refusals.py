"""Every row of the contract's table of refusals that concerns managers and the allocator."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from kvgpu import (
    BaseCacheHandle,
    CacheInUse,
    EvictionUnsupported,
    ForeignHandle,
    InvalidType,
    InvalidValue,
    KVCacheError,
    NaiveCacheManager,
    NotEvictable,
    OutOfPages,
    PageAllocator,
    RadixCacheHandle,
    RadixCacheManager,
    StaleHandle,
    UnbalancedUnlock,
    _slot_checks,
)
from kvgpu._slot_checks import require_slots
from tests.kvgpu.trees import ids, insert, match, picture, slots


def page_manager() -> RadixCacheManager:
    """Pages of two slots, ten of them; [0 0 1 1 2 2] cached at pages 0 to 2, with a branch."""
    manager = RadixCacheManager("cpu", page_size=2, num_slots=20, checked=True)
    insert(manager, [0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 4, 5])
    insert(manager, [0, 0, 1, 1, 3, 3], [0, 1, 2, 3, 6, 7])
    manager.lock_handle(match(manager, 0, 0, 1, 1, 3, 3))
    return manager


def refused(call: Any, error: type[KVCacheError], builtin: type[Exception], **fields: Any) -> Any:
    """Assert the error's two classes and its fields; gives the error."""
    with pytest.raises(KVCacheError) as caught:
        call()
    assert type(caught.value) is error
    assert isinstance(caught.value, builtin)
    assert {name: getattr(caught.value, name) for name in fields} == fields
    return caught.value


OTHER_DEVICE = torch.device("meta")

BAD_TOKENS = [
    pytest.param([1, 2], InvalidType, TypeError, id="a list"),
    pytest.param(None, InvalidType, TypeError, id="None"),
    pytest.param(np.array([1, 2]), InvalidType, TypeError, id="a numpy array"),
    pytest.param(torch.tensor([1.0, 2.0]), InvalidType, TypeError, id="float32"),
    pytest.param(torch.tensor([True, False]), InvalidType, TypeError, id="bool"),
    pytest.param(torch.tensor([1, 2], dtype=torch.int16), InvalidType, TypeError, id="int16"),
    pytest.param(torch.tensor(1), InvalidValue, ValueError, id="0-D"),
    pytest.param(torch.tensor([[1, 2]]), InvalidValue, ValueError, id="2-D"),
    pytest.param(
        torch.empty(2, dtype=torch.int64, device=OTHER_DEVICE), InvalidValue, ValueError, id="meta"
    ),
    pytest.param(ids(1, 2).to_sparse(), InvalidValue, ValueError, id="sparse"),
]

BAD_INDICES = [
    pytest.param([1, 2], InvalidType, TypeError, id="a list"),
    pytest.param(ids(8, 9), InvalidType, TypeError, id="int64"),
    pytest.param(slots(8, 9)[None], InvalidValue, ValueError, id="2-D"),
    pytest.param(slots(8, 9).to(OTHER_DEVICE), InvalidValue, ValueError, id="a third device"),
    pytest.param(slots(8), InvalidValue, ValueError, id="shorter"),
    pytest.param(slots(8, 9, 10), InvalidValue, ValueError, id="longer"),
]

MANAGERS = [page_manager, lambda: NaiveCacheManager("cpu", page_size=2)]


def state(manager: Any) -> Any:
    return picture(manager) if isinstance(manager, RadixCacheManager) else manager.size_info


@pytest.mark.parametrize("make", MANAGERS, ids=["radix", "naive"])
class TestArgumentsOfMatchAndInsert:
    @pytest.mark.parametrize(("tokens", "error", "builtin"), BAD_TOKENS)
    def test_what_is_no_vector_of_tokens_is_refused(self, make, tokens, error, builtin):
        manager = make()
        before = state(manager)
        got = refused(lambda: manager.match_prefix(tokens), error, builtin, argument="input_ids")
        assert got.got
        assert got.expected
        assert str(got) == f"input_ids: got {got.got}, expected {got.expected}"
        refused(
            lambda: manager.insert_prefix(tokens, slots(8, 9)), error, builtin, argument="input_ids"
        )
        assert state(manager) == before

    @pytest.mark.parametrize(("indices", "error", "builtin"), BAD_INDICES)
    def test_what_is_no_vector_of_as_many_slots_is_refused(self, make, indices, error, builtin):
        manager = make()
        before = state(manager)
        refused(
            lambda: manager.insert_prefix(ids(7, 7), indices), error, builtin, argument="indices"
        )
        assert state(manager) == before

    @pytest.mark.parametrize("namespace", [0, b"a", ("a",)])
    def test_a_namespace_that_is_neither_text_nor_none_is_refused(self, make, namespace):
        manager = make()
        before = state(manager)
        for call in (
            lambda: manager.match_prefix(ids(0, 0), namespace=namespace),
            lambda: manager.insert_prefix(ids(7, 7), slots(8, 9), namespace=namespace),
        ):
            refused(call, InvalidType, TypeError, argument="namespace", expected="a str or None")
        assert state(manager) == before

    def test_what_is_no_handle_is_refused(self, make):
        manager = make()
        before = state(manager)
        for value in (None, 3, (2, slots(0, 1))):
            for unlock in (False, True):
                refused(
                    lambda value=value, unlock=unlock: manager.lock_handle(value, unlock),
                    InvalidType,
                    TypeError,
                    argument="handle",
                )
        assert state(manager) == before

    def test_an_evict_of_what_is_no_size_is_refused(self, make):
        manager = make()
        before = state(manager)
        for size in (True, False, 1.0, "1", None, np.int64(1)):
            call = lambda size=size: manager.evict(size)  # noqa: E731
            refused(call, InvalidType, TypeError, argument="size", expected="an int")
        refused(
            lambda: manager.evict(-1),
            InvalidValue,
            ValueError,
            argument="size",
            got="-1",
            expected="at least 0",
        )
        assert state(manager) == before


OWN = "the cache's own slot there, or one that the cache holds nowhere"
RANGE = "a slot in 0..19"
WHOLE = "whole aligned pages of 2 slots"

BAD_SLOTS = [
    # The prefix [0 0 1 1] is cached at slots 0 to 3, what follows is new.
    pytest.param([0, 1, 2, 3, 9, 10], 4, WHOLE, id="misaligned"),
    pytest.param([0, 1, 2, 3, 8, 10], 5, WHOLE, id="not consecutive"),
    pytest.param([0, 1, 2, 3, 9, 8], 4, WHOLE, id="reversed"),
    pytest.param([0, 1, 2, 3, 8, 8], 5, WHOLE, id="one slot twice in a page"),
    pytest.param([0, 1, 2, 3, 20, 21], 4, RANGE, id="just outside"),
    pytest.param([0, 1, 2, 3, 2147483646, 2147483647], 4, RANGE, id="far outside"),
    pytest.param([0, 1, 2, 3, -2, -1], 4, RANGE, id="negative"),
    pytest.param([0, 1, 2, 3, 8, 9, 8, 9], 6, "each page once", id="a page twice"),
    pytest.param([0, 1, 2, 3, 8, 9, 4, 5], 6, "a page that the cache does not hold", id="held"),
    pytest.param([0, 1, 2, 3, 0, 1], 4, "a page that the cache does not hold", id="held above"),
    pytest.param([2, 3, 2, 3, 8, 9], 0, OWN, id="own page of a later position"),
    pytest.param([0, 1, 2, 2, 8, 9], 3, OWN, id="own slot of another position"),
    pytest.param([0, 1, 10, 7, 8, 9], 3, OWN, id="own slot of another node"),
    pytest.param(
        [0, 1, 9, 8, 8, 9], 2, "a duplicate whose page is not handed over further on", id="both"
    ),
    pytest.param([0, 1, 7, 3, -2, 30], 2, OWN, id="the first of several"),
]


class TestSlotsInCheckedMode:
    @pytest.mark.parametrize(("at", "position", "expected"), BAD_SLOTS)
    def test_slots_that_cannot_be_handed_over_are_refused(self, at, position, expected):
        manager = page_manager()
        before = picture(manager)
        tokens = [0, 0, 1, 1, 7, 7, 8, 8][: len(at)]
        refused(
            lambda: insert(manager, tokens, at),
            InvalidValue,
            ValueError,
            argument="indices",
            got=f"slot {at[position]} at position {position}",
            expected=expected,
        )
        assert picture(manager) == before

    def test_without_a_pool_size_only_negative_slots_are_out_of_range(self):
        manager = RadixCacheManager("cpu", checked=True)
        expected = "a slot from 0 on"
        refused(lambda: insert(manager, [1], [-1]), InvalidValue, ValueError, expected=expected)
        assert insert(manager, [1], [2**31 - 1]) == 0
        manager.check_integrity()

    def test_a_page_beyond_what_an_int32_holds_is_refused_in_any_pool(self):
        last = 2**31 // 3 * 3
        for num_slots in (None, 2**31, 2**32):
            manager = RadixCacheManager("cpu", page_size=3, num_slots=num_slots, checked=True)
            at = [last, last + 1, -(2**31)]  # as if the third had overflown
            refused(lambda m=manager, at=at: insert(m, [1] * 3, at), InvalidValue, ValueError)
            assert insert(manager, [1] * 3, [last - 3, last - 2, last - 1]) == 0

    def test_the_short_way_to_yes_never_says_yes_where_there_is_a_complaint(self, monkeypatch):
        random, said = Random(0), Counter[bool]()
        for _ in range(2000):
            size, num_slots = random.choice((1, 2, 3)), random.choice((None, 7, 12))
            page = lambda: random.randint(-1, 5)  # noqa: E731
            at = [page() * size + i for _ in range(random.randint(0, 3)) for i in range(size)]
            own = at[: random.randint(0, len(at) // size) * size]
            if at and random.random() < 0.3:
                at[random.randrange(len(at))] += 1
            places, mine = np.array(at, np.int32), np.array(own, np.int32)
            held = {slot // size for slot in own} | {random.randint(0, 5)}
            short = _slot_checks._all_well(places, mine, size, num_slots, held)
            with monkeypatch.context() as without:
                without.setattr(_slot_checks, "_all_well", lambda *_: False)
                try:
                    require_slots(places, mine, page_size=size, num_slots=num_slots, held=held)
                    well = True
                except InvalidValue:
                    well = False
            # And it says yes to all that is right, duplicates apart.
            assert short == (well and at[: len(own)] == own)
            said[short] += 1
        assert min(said[True], said[False]) > 200

    def test_a_pool_that_ends_inside_a_page_has_no_room_for_that_page(self):
        manager = RadixCacheManager("cpu", page_size=3, num_slots=5, checked=True)
        got = "slot 5 at position 2"
        refused(lambda: insert(manager, [1] * 3, [3, 4, 5]), InvalidValue, ValueError, got=got)
        assert insert(manager, [1] * 3, [0, 1, 2]) == 0
        manager.check_integrity()

    def test_duplicates_and_any_part_page_are_accepted(self):
        manager = page_manager()
        assert insert(manager, [0, 0, 1, 1, 7, 7, 8], [14, 17, 2, 3, 8, 9, 5]) == 4
        manager.check_integrity()
        assert manager.match_prefix(ids(0, 0, 1, 1, 7, 7))[1].tolist() == [0, 1, 2, 3, 8, 9]

    def test_a_page_that_was_given_up_can_be_handed_over_again(self):
        manager = RadixCacheManager("cpu", num_slots=2, checked=True)
        insert(manager, [1], [0])
        manager.evict(1)
        insert(manager, [2], [0])
        manager.reset()
        assert insert(manager, [3], [0]) == 0

    def test_unchecked_slots_are_taken_as_they_are(self):
        manager = RadixCacheManager("cpu", num_slots=4)
        assert insert(manager, [1, 2], [9, 9]) == 0


class TestHandles:
    @pytest.mark.parametrize("unlock", [False, True])
    def test_a_handle_of_an_evicted_prefix_is_stale_also_if_it_was_inserted_again(self, unlock):
        manager = RadixCacheManager("cpu")
        insert(manager, [1, 2], [0, 1])
        handle = match(manager, 1, 2)
        manager.evict(2)
        insert(manager, [1, 2], [0, 1])
        before = picture(manager)
        call = lambda: manager.lock_handle(handle, unlock)  # noqa: E731
        refused(call, StaleHandle, RuntimeError, cached_len=2)
        assert picture(manager) == before

    @pytest.mark.parametrize("unlock", [False, True])
    def test_a_handle_from_before_a_reset_is_stale(self, unlock):
        manager = RadixCacheManager("cpu")
        insert(manager, [1, 2], [0, 1])
        insert(manager, [1, 3], [0, 2])
        handles = [match(manager, 1), match(manager, 1, 3)]
        manager.reset()
        for handle in handles:
            call = lambda handle=handle: manager.lock_handle(handle, unlock)  # noqa: E731
            refused(call, StaleHandle, RuntimeError, cached_len=handle.cached_len)

    @pytest.mark.parametrize("unlock", [False, True])
    def test_a_handle_of_another_manager_or_of_another_kind_is_foreign(self, unlock):
        class OtherHandle(BaseCacheHandle):
            pass

        manager, other = page_manager(), page_manager()
        before = picture(manager)
        for handle in (match(other, 0, 0), OtherHandle(2), RadixCacheHandle(2)):
            call = lambda handle=handle: manager.lock_handle(handle, unlock)  # noqa: E731
            refused(call, ForeignHandle, RuntimeError, cached_len=2)
        assert picture(manager) == before

    def test_a_stale_handle_of_another_manager_is_foreign(self):
        manager, other = RadixCacheManager("cpu"), RadixCacheManager("cpu")
        insert(other, [1], [0])
        handle = match(other, 1)
        other.reset()
        refused(lambda: manager.lock_handle(handle), ForeignHandle, RuntimeError, cached_len=1)

    def test_an_unlock_without_a_lock_at_that_prefix_is_refused(self):
        manager = RadixCacheManager("cpu")
        insert(manager, [0, 1], [0, 1])
        long, short = match(manager, 0, 1), match(manager, 0)
        manager.lock_handle(long)
        before = picture(manager)
        call = lambda: manager.lock_handle(short, unlock=True)  # noqa: E731
        refused(call, UnbalancedUnlock, RuntimeError, cached_len=1)
        assert picture(manager) == before
        manager.lock_handle(long, unlock=True)
        call = lambda: manager.lock_handle(long, unlock=True)  # noqa: E731
        refused(call, UnbalancedUnlock, RuntimeError, cached_len=2)


class TestEvictAndReset:
    def test_more_than_the_evictable_size_is_refused(self):
        manager = page_manager()
        before = picture(manager)
        refused(lambda: manager.evict(3), NotEvictable, RuntimeError, needed=3, evictable=2)
        assert picture(manager) == before

    def test_a_reset_while_something_is_locked_is_refused(self):
        manager = page_manager()
        before = picture(manager)
        refused(manager.reset, CacheInUse, RuntimeError, protected_size=6)
        assert picture(manager) == before

    def test_the_naive_manager_refuses_any_evict_above_nothing(self):
        manager = NaiveCacheManager("cpu")
        refused(lambda: manager.evict(1), EvictionUnsupported, NotImplementedError, needed=1)


class TestNoRoomForTheResult:
    @pytest.mark.parametrize(
        "call",
        [
            lambda manager: manager.match_prefix(ids(0, 0, 1, 1)),
            lambda manager: manager.match_prefix(ids(0, 0)),
            lambda manager: manager.evict(1),
            lambda manager: manager.evict(6),
            lambda manager: manager.reset(),
        ],
        ids=["match", "match that splits", "evict", "evict of parents", "reset"],
    )
    def test_a_result_that_cannot_be_made_leaves_no_trace(self, monkeypatch, call):
        manager = page_manager()
        manager.lock_handle(match(manager, 0, 0, 1, 1, 3, 3), unlock=True)
        before = picture(manager)

        def full(_slots: Any) -> torch.Tensor:
            raise torch.OutOfMemoryError("no memory on the device")

        with monkeypatch.context() as patch:
            patch.setattr(manager, "upload", full)
            with pytest.raises(torch.OutOfMemoryError):
                call(manager)
        assert picture(manager) == before
        manager.check_integrity()
        call(manager)
        assert picture(manager) != before
        manager.check_integrity()


class TestConstructors:
    @pytest.mark.parametrize(
        ("arguments", "error", "builtin", "argument", "got"),
        [
            ({"page_size": 0}, InvalidValue, ValueError, "page_size", "0"),
            ({"page_size": -4}, InvalidValue, ValueError, "page_size", "-4"),
            ({"page_size": True}, InvalidType, TypeError, "page_size", "bool"),
            ({"page_size": 1.0}, InvalidType, TypeError, "page_size", "float"),
            ({"num_slots": 0}, InvalidValue, ValueError, "num_slots", "0"),
            ({"num_slots": "8"}, InvalidType, TypeError, "num_slots", "str"),
            ({"policy": "mru"}, InvalidValue, ValueError, "policy", "'mru'"),
            ({"policy": None}, InvalidValue, ValueError, "policy", "None"),
            ({"device": 0}, InvalidType, TypeError, "device", "int"),
            ({"device": "nowhere"}, InvalidValue, ValueError, "device", "'nowhere'"),
        ],
    )
    def test_a_radix_manager_of_a_wrong_kind_is_refused(
        self, arguments, error, builtin, argument, got
    ):
        call = lambda: RadixCacheManager(**{"device": "cpu", **arguments})  # noqa: E731
        refused(call, error, builtin, argument=argument, got=got)

    def test_a_naive_manager_of_a_wrong_kind_is_refused(self):
        call = lambda: NaiveCacheManager("cpu", page_size=0)  # noqa: E731
        refused(call, InvalidValue, ValueError, argument="page_size", got="0")
        call = lambda: NaiveCacheManager(None)  # noqa: E731
        refused(call, InvalidType, TypeError, argument="device")

    @pytest.mark.parametrize("argument", ["num_pages", "page_size"])
    def test_an_allocator_of_a_wrong_kind_is_refused(self, argument):
        sizes = {"num_pages": 4, "page_size": 2}
        call = lambda: PageAllocator(**{**sizes, argument: 0})  # noqa: E731
        refused(call, InvalidValue, ValueError, argument=argument, got="0")
        call = lambda: PageAllocator(**{**sizes, argument: False})  # noqa: E731
        refused(call, InvalidType, TypeError, argument=argument, got="bool")


def free_pages(allocator: PageAllocator) -> list[int]:
    return allocator._stack[: allocator._num_free].tolist()


class TestAllocator:
    @pytest.mark.parametrize(
        ("number", "error", "builtin", "fields"),
        [
            (-1, InvalidValue, ValueError, {"argument": "num_pages", "got": "-1"}),
            (True, InvalidType, TypeError, {"argument": "num_pages", "got": "bool"}),
            (1.0, InvalidType, TypeError, {"argument": "num_pages", "got": "float"}),
            (4, OutOfPages, RuntimeError, {"needed": 4, "free": 3}),
        ],
    )
    def test_an_allocate_that_cannot_be_is_refused(self, number, error, builtin, fields):
        allocator = PageAllocator(5, 2)
        allocator.allocate(2)
        before = free_pages(allocator)
        refused(lambda: allocator.allocate(number), error, builtin, **fields)
        assert free_pages(allocator) == before

    @pytest.mark.parametrize("kind", [list, iter, np.array, torch.tensor])
    @pytest.mark.parametrize(
        ("pages", "got"),
        [
            ([0, 1, 3], "page 3 at position 2, free already"),
            ([4], "page 4 at position 0, free already"),
            ([0, 5], "page 5 at position 1, outside 0..4"),
            ([0, -1], "page -1 at position 1, outside 0..4"),
            ([0, 1, 1, 0], "page 1 at position 2, twice in this call"),
        ],
    )
    def test_a_free_that_cannot_be_is_refused_as_a_whole(self, pages, got, kind):
        allocator = PageAllocator(5, 2)
        assert set(allocator.allocate(3).tolist()) == {0, 1, 2}
        before = free_pages(allocator)
        call = lambda: allocator.free(kind(pages))  # noqa: E731
        refused(call, InvalidValue, ValueError, argument="pages", got=got, expected="a page in use")
        assert free_pages(allocator) == before
        allocator.free([0, 1, 2])
        assert allocator.num_free_pages == 5

    @pytest.mark.parametrize(
        ("pages", "error", "builtin", "got"),
        [
            (3, InvalidType, TypeError, "int"),
            (None, InvalidType, TypeError, "NoneType"),
            ([0, "1"], InvalidType, TypeError, "str at position 1"),
            ([0, True], InvalidType, TypeError, "bool at position 1"),
            ([0.0], InvalidType, TypeError, "float at position 0"),
            ([2**70], InvalidValue, ValueError, f"page {2**70} at position 0, outside 0..4"),
            (np.array([0.0]), InvalidType, TypeError, "an array of float64"),
            (np.array([True]), InvalidType, TypeError, "an array of bool"),
            (torch.tensor([0.0]), InvalidType, TypeError, "an array of float32"),
            (np.array([[0]]), InvalidValue, ValueError, "shape (1, 1)"),
            (torch.tensor(0), InvalidValue, ValueError, "shape ()"),
            (
                torch.empty(1, dtype=torch.int32, device="meta"),
                InvalidValue,
                ValueError,
                "torch.int32 tensor of shape (1,) on meta",
            ),
        ],
    )
    def test_what_are_no_page_numbers_is_refused(self, pages, error, builtin, got):
        allocator = PageAllocator(5, 2)
        allocator.allocate(1)
        before = free_pages(allocator)
        refused(lambda: allocator.free(pages), error, builtin, argument="pages", got=got)
        assert free_pages(allocator) == before
