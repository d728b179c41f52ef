"""What the launchers hand to the kernels: how many launches, how wide, how aligned."""

from __future__ import annotations

import importlib
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvstrategies.tensors import (
    FORMS,
    PageMoves,
    PoolShape,
    RowsToStore,
    make_indices,
    make_rows,
    pool_shapes,
)
from tests.storage.properties import examples
from tests.storage.suite import check_copy, check_load, check_store
from tests.storage.targets import INTERPRETED, Target

pytestmark = pytest.mark.skipif(
    not INTERPRETED, reason="in the session of tests/storage/test_interpreter.py"
)


def launches_of(call, operation):
    """The launches that `call()` makes: for each, the kernel's arguments by name."""
    module = importlib.import_module(f"kvgpu.kernels.{operation}")
    kernel = getattr(module, f"{operation}_kernel")
    launches = []

    def record(device, launched, variant, grid, *arguments):
        assert launched is kernel
        named = dict(zip(kernel.arg_names, arguments, strict=True))
        launches.append({**named, "grid": grid, "variant": variant})
        original(device, launched, variant, grid, *arguments)

    original, module.launch = module.launch, record
    try:
        call()
    finally:
        module.launch = original
    return launches


def interpreter():
    from kvgpu.kernels import TRITON

    return Target("interpreter", "cpu", False, implementation=TRITON)


def unit_of(launch):
    return launch["WORD"].primitive_bitwidth // 8 * launch["LANES"]


def store(shape, k_form, v_form, n=2):
    cache = interpreter().cache(shape)
    k = make_rows(k_form, n, shape.heads, shape.dim, shape.dtype, 1)
    v = make_rows(v_form, n, shape.heads, shape.dim, shape.dtype, 2)
    out_loc = make_indices(range(n), torch.int32)
    return launches_of(lambda: cache.store_kv(k, v, out_loc, 0), "store_kv")


@examples(60)
@given(
    shape=pool_shapes().filter(lambda shape: shape.num_slots > 1),
    k_form=st.sampled_from(FORMS),
    v_form=st.sampled_from(FORMS),
)
def test_what_a_unit_must_divide_it_divides(shape, k_form, v_form):
    """The interpreter forgives an access that is not aligned; a GPU does not."""
    (launch,) = store(shape, k_form, v_form)
    unit, size = unit_of(launch), shape.dtype.itemsize
    assert unit in (1, 2, 4, 8, 16)
    assert unit >= size
    for address in ("k", "v", "k_cache", "v_cache"):
        assert launch[address] % unit == 0, address
    row = shape.heads * shape.dim
    assert launch["ROW"] * unit == row * size
    k = make_rows(k_form, 2, shape.heads, shape.dim, shape.dtype, 1)
    v = make_rows(v_form, 2, shape.heads, shape.dim, shape.dtype, 2)
    for name, tensor in (("k", k), ("v", v)):
        assert launch[f"{name}_row"] * unit == tensor.stride(0) * size
        if launch["HEAD"] != launch["ROW"]:
            assert launch[f"{name}_head"] * unit == tensor.stride(1) * size
        assert launch[f"{name}_dim"] == tensor.stride(2)
        assert tensor.stride(2) == 1 or unit == size
    in_group = shape.page_size if launch["GROUP"] == shape.page_size else 1
    assert launch["group_stride"] >= in_group * launch["ROW"]


@pytest.mark.parametrize(
    ("heads", "dim", "dtype", "form", "unit"),
    [
        (8, 128, torch.bfloat16, "contiguous", 16),
        (8, 128, torch.bfloat16, "slice of a fused qkv", 16),
        (8, 128, torch.bfloat16, "heads first", 16),
        (8, 128, torch.bfloat16, "every other row", 16),
        (8, 128, torch.bfloat16, "one row for all", 16),
        (1, 80, torch.float8_e4m3fn, "contiguous", 16),
        (2, 96, torch.float16, "heads first", 16),
        (1, 4, torch.float16, "contiguous", 8),
        (3, 4, torch.float16, "contiguous", 8),
        (1, 33, torch.float32, "contiguous", 4),
        (1, 33, torch.float16, "contiguous", 2),
        (1, 33, torch.int8, "contiguous", 1),
        (8, 128, torch.bfloat16, "gaps between heads", 2),
        (8, 128, torch.bfloat16, "one element off", 2),
        (8, 128, torch.bfloat16, "dims before heads", 2),
        (8, 128, torch.float64, "one element for all", 8),
    ],
)
@pytest.mark.parametrize("page_first", [False, True])
def test_a_unit_is_as_wide_as_rows_allow(heads, dim, dtype, form, unit, page_first):
    shape = PoolShape(2, 4, 2, heads, dim, dtype, page_first)
    (launch,) = store(shape, form, form)
    assert unit_of(launch) == unit
    (launch,) = store(shape, "contiguous", form)
    assert unit_of(launch) == unit


@pytest.mark.parametrize("page_first", [False, True])
def test_every_operation_is_one_launch(page_first):
    shape = PoolShape(3, 5, 2, 2, 8, torch.float16, page_first)
    cache = interpreter().cache(shape)
    slots = make_indices(range(7), torch.int64)
    assert len(store(shape, "contiguous", "heads first", n=7)) == 1
    assert len(launches_of(lambda: cache.load_kv(slots, 1), "load_kv")) == 1
    pages = slots[:2], slots[2:4]
    (launch,) = launches_of(lambda: cache.copy_pages(*pages), "copy_pages")
    # PageFirst: K and V; LayerFirst: each layer's as well.
    assert launch["grid"][1] == (2 if page_first else 6)
    nothing = slots[:0]
    assert launches_of(lambda: cache.load_kv(nothing, 1), "load_kv") == []
    assert launches_of(lambda: cache.copy_pages(nothing, nothing), "copy_pages") == []
    assert store(shape, "contiguous", "contiguous", n=0) == []


def test_a_large_call_gives_each_thread_more_to_do(monkeypatch):
    from kvgpu.kernels import _units

    assert _units.block_of(_units.SMALL_UNITS) == _units.SMALL_BLOCK
    assert _units.block_of(_units.SMALL_UNITS + 1) == _units.LARGE_BLOCK > _units.SMALL_BLOCK
    # The same rows must come out whatever a program's share is; a really large call is slow here.
    monkeypatch.setattr(_units, "SMALL_UNITS", 0)
    slots = tuple(range(0, 90, 3))
    for page_first, dtype in itertools.product((False, True), (torch.int8, torch.float16)):
        shape = PoolShape(2, 31, 3, 3, 24, dtype, page_first)
        rows = RowsToStore(slots, 1, "contiguous", "heads first", torch.int32, 1, 5)
        (launch,) = store(shape, "contiguous", "heads first", n=31)
        assert launch["BLOCK"] == _units.LARGE_BLOCK
        check_store(interpreter(), shape, rows)
        check_load(interpreter(), shape, slots, 1, torch.int64, 1)
        check_copy(interpreter(), shape, PageMoves(((1, 0), (30, 2)), *[torch.int32] * 2, 1))
