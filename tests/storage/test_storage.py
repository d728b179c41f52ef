"""The suite of the storage, over every target of this session."""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvstrategies.tensors import (
    DTYPES,
    FORMS,
    INDEX_DTYPES,
    PageMoves,
    PoolShape,
    RowsToStore,
    make_indices,
    make_rows,
    page_moves,
    pool_shapes,
    rows_to_store,
    slot_lists,
)
from tests.storage.properties import examples
from tests.storage.suite import (
    Reference,
    bits_of,
    check_copy,
    check_load,
    check_store,
    check_views,
)
from tests.storage.targets import INTERPRETED, as_in_a_large_call, over_targets

PAGE_SIZES = (1, 2, 3, 16, 64)


@over_targets
@examples(100)
@given(data=st.data())
def test_store_kv_writes_each_row_to_its_slot_and_nothing_else(target, data):
    shape = data.draw(pool_shapes())
    check_store(target, shape, data.draw(rows_to_store(shape, outside=not target.looks)))


@over_targets
@examples(50)
@given(data=st.data())
def test_load_kv_gives_each_slot_its_row_and_changes_nothing(target, data):
    shape = data.draw(pool_shapes())
    check_load(
        target,
        shape,
        data.draw(slot_lists(shape.num_slots, distinct=False, outside=not target.looks)),
        data.draw(st.integers(0, shape.num_layers - 1)),
        data.draw(st.sampled_from(INDEX_DTYPES)),
        data.draw(st.integers(1, 2)),
    )


@over_targets
@examples(50)
@given(data=st.data())
def test_copy_pages_copies_all_layers_and_nothing_else(target, data):
    shape = data.draw(pool_shapes())
    check_copy(target, shape, data.draw(page_moves(shape, outside=not target.looks)))


@over_targets
@examples(20)
@given(shape=pool_shapes())
def test_the_views_show_the_buffer_in_either_layout(target, shape):
    check_views(target, shape)


@over_targets
@pytest.mark.parametrize("page_first", [False, True], ids=["LayerFirst", "PageFirst"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_every_dtype_page_size_and_index_dtype(target, dtype, page_first):
    # Both widths of an index at each page size, over the two layouts.
    for index, page_size in enumerate(PAGE_SIZES):
        index_dtype = INDEX_DTYPES[(index + page_first) % 2]
        shape = PoolShape(2, 3, page_size, 2, 24, dtype, page_first)
        last = shape.num_slots - 1
        slots = (last, -1, 0) if last < 2 else (last, -1, 0, last // 2)
        rows = RowsToStore(slots, 1, "contiguous", "contiguous", index_dtype, 1, page_size)
        check_store(target, shape, rows)
        check_load(target, shape, slots, 1, index_dtype, 1)
        moves = PageMoves(((2, 0), (-1, 1)), index_dtype, index_dtype, 1)
        check_copy(target, shape, moves)


@over_targets
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_k_with_every_form_of_v(target, form):
    for index, other in enumerate(FORMS):
        shape = PoolShape(1, 3, 2, 3, 16, torch.float16, page_first=bool(index % 2))
        for k_form, v_form in ((form, other), (other, form)):
            rows = RowsToStore((4, -2, 0, 5), 0, k_form, v_form, torch.int64, 1, index)
            check_store(target, shape, rows)


@over_targets
@pytest.mark.parametrize("heads", [1, 2, 7, 8, 32])
def test_the_heads_and_dims_of_real_models(target, heads):
    for dim, page_size in itertools.product((33, 64, 80, 96, 128, 256), (1, 16)):
        for dtype in (torch.bfloat16, torch.float8_e4m3fn):
            shape = PoolShape(2, 1, page_size, heads, dim, dtype, page_first=dim % 3 == 0)
            form = "slice of a fused qkv"
            check_store(
                target,
                shape,
                RowsToStore((shape.num_slots - 1,), 1, form, form, torch.int32, 1, dim),
            )


@over_targets
def test_rows_that_lie_next_to_each_other_in_rows_of_no_power_of_two(target):
    """Of slots 4 and 5 in a dim of 80, nothing of 6, nor of V, may be touched (MOJO-266)."""
    for dim in (80, 96):
        shape = PoolShape(1, 8, 1, 1, dim, torch.float16, page_first=False)
        rows = RowsToStore((4, 5), 0, "contiguous", "contiguous", torch.int32, 1, dim)
        check_store(target, shape, rows)


@over_targets
@pytest.mark.parametrize("page_first", [False, True], ids=["LayerFirst", "PageFirst"])
@pytest.mark.parametrize("n", [0, 1, 256, 2048])
def test_any_number_of_rows(target, n, page_first):
    pages, page_size = 160, 16
    shape = PoolShape(1, pages, page_size, 2, 32, torch.bfloat16, page_first)
    order = torch.randperm(pages * page_size, generator=torch.Generator().manual_seed(n))[:n]
    slots = tuple(-1 if i % 7 == 3 else int(slot) for i, slot in enumerate(order))
    form = "slice of a fused qkv"
    with as_in_a_large_call() if n > 256 else nullcontext():
        check_store(target, shape, RowsToStore(slots, 0, form, form, torch.int32, 1, n))
        check_load(target, shape, slots, 0, torch.int64, 1)


@over_targets
def test_no_index_outside_the_pool_makes_an_address(target):
    """Padding is any negative number, the smallest too; so is what is past the end, unchecked."""
    shape = PoolShape(1, 4, 2, 2, 8, torch.float16, page_first=True)
    for dtype in INDEX_DTYPES:
        limits = torch.iinfo(dtype)
        slots = [limits.min, 3, limits.min // 2, -(2**31)]
        if not target.looks:
            slots += [limits.max, limits.max // 2, shape.num_slots]
        slots = tuple(slots)
        check_store(target, shape, RowsToStore(slots, 0, *["contiguous"] * 2, dtype, 1, 1))
        check_load(target, shape, slots, 0, dtype, 1)
        pairs = tuple((slot, 0) for slot in slots if slot != 3)
        pairs += tuple((1, slot) for slot in slots if slot != 3)
        check_copy(target, shape, PageMoves(pairs, dtype, dtype, 1))


@over_targets
def test_a_page_may_be_copied_to_several(target):
    shape = PoolShape(3, 6, 2, 2, 8, torch.float16, page_first=True)
    moves = PageMoves(((4, 0), (4, 5), (1, 2), (-1, 4), (2, -1)), torch.int32, torch.int64, 1)
    check_copy(target, shape, moves)


@over_targets
@pytest.mark.skipif(INTERPRETED, reason="the order of two writes is a matter of real hardware")
def test_a_slot_twice_harms_no_other_slot(target):
    if target.looks:
        pytest.skip("refused here: tests/storage/test_refusals.py")
    shape = PoolShape(1, 40, 1, 2, 64, torch.float16, page_first=False)
    cache = target.cache(shape)
    reference = Reference(cache, shape)
    slots = [7] * 300 + [9]
    k = make_rows("contiguous", len(slots), 2, 64, torch.float16, 1, target.device)
    cache.store_kv(k, k, make_indices(slots, torch.int32, 1, target.device), 0)
    for kv in (0, 1):
        reference.row(kv, 0, 9).copy_(bits_of(k)[-1])
        view = (cache.k_cache, cache.v_cache)[kv](0)
        reference.row(kv, 0, 7).copy_(bits_of(view[7, 0]))
    reference.assert_same()


@over_targets
def test_gradients_and_inference_mode_leave_the_pool_alone(target):
    shape = PoolShape(1, 4, 1, 2, 8, torch.float32, page_first=False)
    cache = target.cache(shape)
    k = torch.randn(1, 2, 8, device=target.device, requires_grad=True)
    slot = torch.tensor([2], device=target.device)
    cache.store_kv(k, torch.nn.Parameter(k.detach()), slot, 0)
    with torch.inference_mode():
        cache.store_kv(k + 1, k + 1, slot + 1, 0)
        cache.copy_pages(slot, slot - 2)
    for slot_number, wanted in ((2, k), (3, k + 1), (0, k)):
        assert torch.equal(cache.k_cache(0)[slot_number, 0], wanted[0])
    assert not cache.k_cache(0).requires_grad
    assert not any(rows.requires_grad for rows in cache.load_kv(slot, 0))
