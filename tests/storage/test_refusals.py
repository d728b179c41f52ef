"""What the storage refuses, in which words, and that a refused call changes nothing."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import kvgpu
from kvgpu import (
    BaseKVCache,
    InvalidIndex,
    InvalidType,
    InvalidValue,
    KVCacheError,
    KVCacheLayout,
    MHAKVCache,
    TPInfo,
)
from kvstrategies.tensors import PoolShape, make_indices, random_bits
from tests.storage.properties import examples
from tests.storage.suite import Reference
from tests.storage.targets import INTERPRETED, over_targets

SHAPE = PoolShape(2, 5, 2, 3, 4, torch.float16, page_first=True)
GOOD = {
    "num_kv_heads": 4,
    "num_layers": 2,
    "head_dim": 8,
    "num_pages": 3,
    "dtype": torch.float16,
    "kv_layout": KVCacheLayout.LayerFirst,
    "device": "cpu",
}


def ints(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize(
    ("changed", "error", "argument"),
    [
        *(
            ({name: bad}, error, name)
            for name in ("num_kv_heads", "num_layers", "head_dim", "num_pages", "page_size")
            for bad, error in (
                (0, InvalidValue),
                (-1, InvalidValue),
                (True, InvalidType),
                (1.0, InvalidType),
                (None, InvalidType),
            )
        ),
        ({"dtype": "float16"}, InvalidType, "dtype"),
        ({"dtype": torch.complex64}, InvalidValue, "dtype"),
        ({"dtype": torch.bool}, InvalidValue, "dtype"),
        ({"kv_layout": "LayerFirst"}, InvalidValue, "kv_layout"),
        ({"kv_layout": 1}, InvalidValue, "kv_layout"),
        ({"device": 0}, InvalidType, "device"),
        ({"device": "nonsense"}, InvalidValue, "device"),
        ({"tp": (0, 1)}, InvalidType, "tp"),
        ({"num_kv_heads": 3, "tp": TPInfo(0, 2)}, InvalidValue, "tp"),
        ({"num_kv_heads": 2, "tp": TPInfo(0, 3)}, InvalidValue, "tp"),
        ({"num_kv_heads": 4, "tp": TPInfo(0, 6)}, InvalidValue, "tp"),
    ],
)
def test_a_constructor_refuses(changed, error, argument):
    with pytest.raises(error) as refusal:
        MHAKVCache(**{**GOOD, **changed})
    assert refusal.value.argument == argument
    assert isinstance(refusal.value, KVCacheError)
    assert isinstance(refusal.value, TypeError if error is InvalidType else ValueError)


def test_a_refused_split_says_the_numbers():
    with pytest.raises(ValueError, match="3 K/V heads over 2 ranks"):
        MHAKVCache(**{**GOOD, "num_kv_heads": 3, "tp": TPInfo(1, 2)})


@pytest.mark.parametrize(
    ("rank", "size", "error"),
    [
        (2, 2, InvalidValue),
        (-1, 2, InvalidValue),
        (0, 0, InvalidValue),
        (0.0, 1, InvalidType),
        (0, "2", InvalidType),
        (False, 2, InvalidType),
    ],
)
def test_a_rank_is_below_its_group_size(rank, size, error):
    with pytest.raises(error, match=r"tp\."):
        TPInfo(rank, size)


def test_a_rank_is_a_plain_value():
    assert TPInfo() == TPInfo(0, 1)
    assert len({TPInfo(1, 2), TPInfo(1, 2)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        TPInfo().rank = 1


def test_the_properties_name_what_was_asked_for():
    cache = MHAKVCache(**GOOD, page_size=5, tp=TPInfo(1, 2))
    assert isinstance(cache, BaseKVCache)
    assert (cache.device, cache.dtype) == (torch.device("cpu"), torch.float16)
    assert (cache.num_layers, cache.num_pages, cache.page_size) == (2, 3, 5)
    assert (cache.num_slots, cache.head_dim) == (15, 8)
    assert (cache.local_kv_heads, cache.kv_heads) == (2, range(2, 4))
    assert cache.kv_layout is KVCacheLayout.LayerFirst
    assert cache.num_bytes == 2 * 2 * 15 * 2 * 8 * 2


ROW = torch.zeros(2, 3, 4, dtype=torch.float16)
STORE = {"k": ROW, "v": ROW, "out_loc": ints(1, 2), "layer_id": 0}


class SubTensor(torch.Tensor):
    pass


def test_a_subclass_of_a_tensor_is_a_tensor():
    cache = MHAKVCache(3, 1, 4, 9, torch.float16, KVCacheLayout.LayerFirst, "cpu")
    k = random_bits((1, 3, 4), torch.int8, 3).to(torch.float16)
    cache.store_kv(k.as_subclass(SubTensor), k, ints(4), 0)
    assert torch.equal(cache.k_cache(0)[4], k)


STORES = [
    *(
        case
        for name in ("k", "v")
        for case in (
            ({name: None}, InvalidType, name),
            ({name: np.zeros((2, 3, 4), np.float16)}, InvalidType, name),
            ({name: ROW.to(torch.bfloat16)}, InvalidType, name),
            ({name: ROW.view(torch.int16)}, InvalidType, name),
            ({name: ROW[:1]}, InvalidValue, name),
            ({name: ROW[:, :2]}, InvalidValue, name),
            ({name: ROW[..., :3]}, InvalidValue, name),
            ({name: ROW[0]}, InvalidValue, name),
            ({name: ROW[None]}, InvalidValue, name),
            ({name: ROW.to("meta")}, InvalidValue, name),
        )
    ),
    # Both wrong alike: neither may vouch for the other.
    ({"k": ROW.to(torch.bfloat16), "v": ROW.to(torch.bfloat16)}, InvalidType, "k"),
    ({"k": ROW[:, :2], "v": ROW[:, :2]}, InvalidValue, "k"),
    ({name: STORE[name].to("meta") for name in ("k", "v", "out_loc")}, InvalidValue, "out_loc"),
    ({"out_loc": [1, 2]}, InvalidType, "out_loc"),
    ({"out_loc": ints(1, 2, dtype=torch.int16)}, InvalidType, "out_loc"),
    ({"out_loc": ints(1, 2).double()}, InvalidType, "out_loc"),
    ({"out_loc": ints(1, 2)[None]}, InvalidValue, "out_loc"),
    ({"out_loc": ints(1, 2)[None], "k": ROW[None], "v": ROW[None]}, InvalidValue, "out_loc"),
    ({"out_loc": torch.tensor(1)}, InvalidValue, "out_loc"),
    ({"out_loc": ints(1, 2, 3)}, InvalidValue, "k"),
    ({"out_loc": ints(1, 2).to("meta")}, InvalidValue, "out_loc"),
    ({"layer_id": -1}, InvalidIndex, "layer_id"),
    ({"layer_id": 2}, InvalidIndex, "layer_id"),
    ({"layer_id": True}, InvalidType, "layer_id"),
    ({"layer_id": 0.0}, InvalidType, "layer_id"),
    ({"layer_id": ints(0)[0]}, InvalidType, "layer_id"),
]


@over_targets
@pytest.mark.parametrize(("changed", "error", "argument"), STORES)
def test_store_kv_refuses_and_changes_nothing(target, changed, error, argument):
    cache = target.cache(SHAPE)
    reference = Reference(cache, SHAPE)
    arguments = {
        name: value.to(target.device)
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and name != "layer_id"
        else value
        for name, value in {**STORE, **changed}.items()
    }
    with pytest.raises(error) as refusal:
        cache.store_kv(**arguments)
    assert refusal.value.argument == argument
    assert refusal.value.expected
    reference.assert_same()


@over_targets
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ([0], InvalidType),
        (ints(0).float(), InvalidType),
        (ints(0)[None], InvalidValue),
        (ints(0).to("meta"), InvalidValue),
    ],
)
def test_reading_and_moving_refuse_what_is_no_index(target, bad, error):
    cache = target.cache(SHAPE)
    reference = Reference(cache, SHAPE)
    good = ints(1).to(target.device)
    if isinstance(bad, torch.Tensor) and bad.device.type == "cpu":
        bad = bad.to(target.device)
    with pytest.raises(error, match=r"^slots: "):
        cache.load_kv(bad, 0)
    with pytest.raises(error, match=r"^src_pages: "):
        cache.copy_pages(bad, good)
    with pytest.raises(error, match=r"^dst_pages: "):
        cache.copy_pages(good, bad)
    with pytest.raises(InvalidValue, match=r"^dst_pages: .*shape \[2\]"):
        cache.copy_pages(good.repeat(2), good)
    for layer in (-1, 2):
        for call in (lambda n: cache.load_kv(good, n), cache.k_cache, cache.v_cache):
            with pytest.raises(InvalidIndex, match="0 to 1"):
                call(layer)
    with pytest.raises(InvalidType, match=r"^index: "):
        cache.k_cache(None)
    reference.assert_same()


CHECKED_STORES = [
    (ints(3, 10), InvalidIndex, "10 at position 1"),
    (ints(-1, 3, 99, 10), InvalidIndex, "99 at position 2"),
    (ints(2**40), InvalidIndex, "1099511627776 at position 0"),
    (ints(10, dtype=torch.int32), InvalidIndex, "10 at position 0"),
    # Outside the pool comes before twice, wherever the two are.
    (ints(3, 3, 10), InvalidIndex, "10 at position 2"),
    (ints(3, -1, -1, 4, 3, 4), InvalidValue, "3 at position 4"),
    (ints(4, 3, 0, 3, 4, dtype=torch.int32), InvalidValue, "3 at position 3"),
]


@over_targets
@pytest.mark.parametrize(("out_loc", "error", "said"), CHECKED_STORES)
def test_a_checked_store_names_the_first_bad_slot(target, out_loc, error, said):
    cache = target.cache(SHAPE, checked=True)
    reference = Reference(cache, SHAPE)
    rows = torch.zeros(len(out_loc), 3, 4, dtype=torch.float16, device=target.device)
    with pytest.raises(error, match=said) as refusal:
        cache.store_kv(rows, rows, out_loc.to(target.device), 1)
    assert refusal.value.argument == "out_loc"
    assert isinstance(refusal.value, IndexError if error is InvalidIndex else ValueError)
    reference.assert_same()


@over_targets
@examples(100)
@given(slots=st.lists(st.integers(-2, 12), max_size=8))
def test_a_checked_store_takes_a_list_or_names_its_first_fault(target, slots):
    cache = target.cache(SHAPE, checked=True)
    rows = torch.zeros(len(slots), 3, 4, dtype=torch.float16, device=target.device)
    wanted = None
    for position, slot in enumerate(slots):
        if slot >= SHAPE.num_slots:
            wanted = (InvalidIndex, f"{slot} at position {position}")
            break
    else:
        for position, slot in enumerate(slots):
            if slot >= 0 and slot in slots[:position]:
                wanted = (InvalidValue, f"{slot} at position {position}")
                break
    out_loc = make_indices(slots, torch.int64, 1, target.device)
    if wanted is None:
        cache.store_kv(rows, rows, out_loc, 0)
    else:
        with pytest.raises(wanted[0]) as refusal:
            cache.store_kv(rows, rows, out_loc, 0)
        assert refusal.value.got == wanted[1]


@over_targets
def test_a_checked_load_refuses_what_is_outside_and_takes_repetitions(target):
    cache = target.cache(SHAPE, checked=True)
    k, v = cache.load_kv(ints(9, 9, -1).to(target.device), 0)
    assert k.shape == v.shape == (3, 3, 4)
    with pytest.raises(InvalidIndex, match=r"^slots: got 10 at position 1, expected below 10"):
        cache.load_kv(ints(0, 10).to(target.device), 0)


CHECKED_COPIES = [
    (ints(0, 5), ints(1, 2), InvalidIndex, r"^src_pages: got 5 at position 1"),
    (ints(0, 1), ints(5, 2), InvalidIndex, r"^dst_pages: got 5 at position 0"),
    (ints(0, 1), ints(2, 2), InvalidValue, r"^dst_pages: got 2 at position 1"),
    (ints(0, 1), ints(2, 0), InvalidValue, r"^dst_pages: got 0 at position 1"),
    (ints(3), ints(3), InvalidValue, r"^dst_pages: got 3 at position 0"),
]


@over_targets
@pytest.mark.parametrize(("src", "dst", "error", "said"), CHECKED_COPIES)
def test_a_checked_copy_names_the_first_bad_page(target, src, dst, error, said):
    cache = target.cache(SHAPE, checked=True)
    reference = Reference(cache, SHAPE)
    with pytest.raises(error, match=said):
        cache.copy_pages(src.to(target.device), dst.to(target.device))
    reference.assert_same()


@over_targets
def test_a_checked_copy_asks_nothing_of_padding(target):
    cache = target.cache(SHAPE, checked=True)
    reference = Reference(cache, SHAPE)
    cache.copy_pages(ints(-1, 7, 2, -1).to(target.device), ints(2, -1, -1, 9).to(target.device))
    reference.assert_same()


@pytest.mark.skipif(INTERPRETED, reason="a process of its own, the same in either session")
def test_neither_the_import_nor_the_cpu_needs_triton():
    program = (
        "import sys, torch, kvgpu\n"
        "layout = kvgpu.KVCacheLayout.PageFirst\n"
        "cache = kvgpu.MHAKVCache(1, 1, 8, 4, torch.float16, layout, 'cpu')\n"
        "rows = torch.zeros(1, 1, 8, dtype=torch.float16)\n"
        "cache.store_kv(rows, rows, torch.tensor([2]), 0)\n"
        "assert 'triton' not in sys.modules\n"
        "assert not any(name.startswith('kvgpu.kernels') for name in sys.modules)\n"
    )
    root = Path(kvgpu.__file__).parents[1]
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True, timeout=120)


@pytest.mark.parametrize("argument", ["k", "v", "out_loc"])
def test_a_sparse_tensor_is_refused_by_name(argument):
    cache = MHAKVCache(2, 1, 4, 3, torch.float32, KVCacheLayout.LayerFirst, "cpu")
    arguments = {"k": torch.zeros(1, 2, 4), "v": torch.zeros(1, 2, 4), "out_loc": ints(1)}
    arguments[argument] = arguments[argument].to_sparse()
    with pytest.raises(InvalidValue, match=argument) as caught:
        cache.store_kv(**arguments, layer_id=0)
    assert caught.value.argument == argument


def test_a_cache_made_in_inference_mode_is_written_outside_of_it():
    with torch.inference_mode():
        cache = MHAKVCache(2, 1, 4, 3, torch.float32, KVCacheLayout.PageFirst, "cpu")
        cache.store_kv(torch.ones(1, 2, 4), torch.ones(1, 2, 4), ints(0), 0)
    cache.store_kv(torch.full((1, 2, 4), 2.0), torch.ones(1, 2, 4), ints(1), 0)
    assert cache.k_cache(0)[:2, 0, 0, 0].tolist() == [1.0, 2.0]


def test_a_negated_view_is_stored_by_its_values():
    cache = MHAKVCache(1, 1, 2, 2, torch.float32, KVCacheLayout.LayerFirst, "cpu")
    k = torch.complex(torch.zeros(1, 1, 2), torch.ones(1, 1, 2)).conj().imag
    assert k.is_neg()
    cache.store_kv(k, -k, ints(1), 0)
    assert cache.k_cache(0)[1].flatten().tolist() == [-1.0, -1.0]
    assert cache.v_cache(0)[1].flatten().tolist() == [1.0, 1.0]
