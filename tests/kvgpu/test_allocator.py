"""The page allocator; what it refuses is in test_refusals.py."""

from __future__ import annotations

import contextlib
import random
import threading

import numpy as np
import pytest
import torch

from kvgpu import InvalidType, InvalidValue, OutOfPages, PageAllocator


def test_allocated_pages_are_distinct_and_were_free():
    allocator = PageAllocator(10, 4)
    assert (allocator.num_pages, allocator.page_size, allocator.num_free_pages) == (10, 4, 10)
    pages = allocator.allocate(4)
    more = allocator.allocate(6)
    assert pages.dtype == np.int32
    assert sorted([*pages.tolist(), *more.tolist()]) == list(range(10))
    assert allocator.num_free_pages == 0


def test_an_allocate_of_none_gives_none():
    allocator = PageAllocator(1, 1)
    assert allocator.allocate(0).tolist() == []
    allocator.allocate(1)
    assert allocator.allocate(0).tolist() == []


@pytest.mark.parametrize(
    "kind",
    [
        list,
        tuple,
        set,
        iter,
        lambda pages: (page for page in pages),
        np.array,
        lambda pages: list(np.array(pages)),
        lambda pages: np.array(pages, dtype=np.uint8)[::1],
        torch.tensor,
        lambda pages: torch.tensor(pages, dtype=torch.int32),
    ],
)
def test_pages_are_given_back_in_any_form(kind):
    allocator = PageAllocator(4, 1)
    allocator.allocate(4)
    allocator.free(kind([2, 0]))
    assert allocator.num_free_pages == 2
    assert set(allocator.allocate(2).tolist()) == {0, 2}


@pytest.mark.parametrize(
    "nothing", [[], np.empty(0, dtype=np.int32), torch.empty(0, dtype=torch.int32)]
)
def test_nothing_can_be_given_back(nothing):
    allocator = PageAllocator(2, 1)
    allocator.free(nothing)
    assert allocator.num_free_pages == 2


def test_fragments_serve_as_well_as_a_run():
    allocator = PageAllocator(4, 1)
    allocator.allocate(4)
    allocator.free([0, 2])
    assert set(allocator.allocate(2).tolist()) == {0, 2}


def test_a_result_is_the_caller_s_whatever_happens_later():
    allocator = PageAllocator(4, 1)
    kept = allocator.allocate(4)
    before = kept.tolist()
    given = np.array(sorted(before))
    allocator.free(given)
    assert kept.tolist() == before
    kept.fill(3)
    given.fill(3)
    assert sorted(allocator.allocate(4).tolist()) == [0, 1, 2, 3]


def test_random_use_keeps_each_page_in_one_place():
    allocator, chance = PageAllocator(17, 2), random.Random(1)
    used: set[int] = set()
    for _ in range(500):
        if chance.random() < 0.5:
            number = chance.randrange(6)
            if number > 17 - len(used):
                with pytest.raises(OutOfPages):
                    allocator.allocate(number)
                continue
            pages = allocator.allocate(number).tolist()
            assert len(set(pages)) == number
            assert not used & set(pages)
            used |= set(pages)
        else:
            back = chance.sample(sorted(used), chance.randrange(len(used) + 1))
            allocator.free(back)
            used -= set(back)
        assert allocator.num_free_pages == 17 - len(used)


def test_pages_are_not_lost_between_threads():
    allocator = PageAllocator(64, 1)

    def work() -> None:
        for _ in range(200):
            allocator.free(allocator.allocate(8))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(allocator.allocate(64).tolist()) == list(range(64))


def test_pages_in_no_place_are_shown_and_are_the_caller_s():
    allocator = PageAllocator(4, 1)
    taken = allocator.allocate(2).tolist()
    free = allocator.free_pages
    assert free.dtype == np.int32
    assert sorted([*taken, *free.tolist()]) == [0, 1, 2, 3]
    free[:] = 0
    assert sorted([*taken, *allocator.allocate(2).tolist()]) == [0, 1, 2, 3]
    assert allocator.free_pages.tolist() == []


@pytest.mark.parametrize("number", range(5))
def test_an_exchange_gives_back_and_takes_in_one_step(number):
    allocator = PageAllocator(4, 1)
    used = set(allocator.allocate(4).tolist())
    allocator.free([3])
    given = allocator.exchange([0, 2], min(number, 3))
    assert given.dtype == np.int32
    assert len(set(given.tolist())) == min(number, 3)
    assert set(given.tolist()) <= {0, 2, 3}
    assert allocator.num_free_pages == 3 - len(given)
    assert used - {0, 2, 3} == {1}
    assert not np.shares_memory(given, allocator._stack)
    allocator.free([1, *given.tolist()])
    assert sorted(allocator.allocate(4).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("pages", "number", "error"),
    [
        ([0, 1], 4, OutOfPages),
        ([0, 3], 1, InvalidValue),
        ([0, 0], 1, InvalidValue),
        ([4], 1, InvalidValue),
        ([0], -1, InvalidValue),
        ([0], True, InvalidType),
        (None, 1, InvalidType),
    ],
)
def test_a_refused_exchange_has_changed_nothing(pages, number, error):
    allocator = PageAllocator(4, 1)
    allocator.allocate(4)
    allocator.free([3])
    with pytest.raises(error) as caught:
        allocator.exchange(pages, number)
    if error is OutOfPages:
        assert (caught.value.needed, caught.value.free) == (4, 3)
    assert allocator.free_pages.tolist() == [3]
    allocator.free([0, 1, 2])
    assert sorted(allocator.allocate(4).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "step",
    [
        lambda allocator: allocator.free_pages,
        lambda allocator: allocator.allocate(1),
        lambda allocator: allocator.free([0]),
        lambda allocator: allocator.exchange([0], 1),
    ],
)
def test_each_step_takes_the_mutex_once(step):
    taken = []

    class Watched(contextlib.nullcontext):
        def __enter__(self):
            taken.append(self)

    allocator = PageAllocator(2, 1)
    allocator.allocate(1)
    allocator._mutex = Watched()
    step(allocator)
    assert len(taken) == 1


@pytest.mark.parametrize("wrong", [-1, 300])
@pytest.mark.parametrize("count", [1, 200])
def test_of_few_pages_and_of_many_the_one_outside_is_named(wrong, count):
    allocator = PageAllocator(300, 1)
    allocator.allocate(300)
    pages = [*range(count), wrong]
    for given in (pages, np.array(pages), torch.tensor(pages)):
        with pytest.raises(InvalidValue, match=f"page {wrong} at position {count}, outside 0..299"):
            allocator.free(given)
    assert allocator.num_free_pages == 0
