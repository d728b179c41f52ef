"""K and V that name their token: exact in each dtype, and each row by itself."""

from __future__ import annotations

import pytest
import torch

from kvgpu import KVCacheLayout, MHAKVCache
from kvref.targets.kv_tags import KVTags

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int8, torch.uint8,
]  # fmt: skip


def pool(dtype=torch.float32, layout=KVCacheLayout.LayerFirst, dim=8):
    kv_cache = MHAKVCache(2, 2, dim, 5, dtype, layout, "cpu", page_size=2)
    return kv_cache, KVTags(kv_cache)


def store(kv_cache, tags, slots, numbers):
    for layer, (k, v) in enumerate(tags.rows(numbers)):
        kv_cache.store_kv(k, v, torch.tensor(slots, dtype=torch.int32), layer)


@pytest.mark.parametrize("layout", list(KVCacheLayout))
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_was_stored_is_read(dtype, layout):
    kv_cache, tags = pool(dtype, layout)
    numbers = [0, 1, 2, tags.num_tags // 2, tags.num_tags - 1, 77]
    store(kv_cache, tags, [9, 0, 3, 4, 5, 1], numbers)
    assert tags.read([9, 0, 3, 4, 5, 1]) == numbers
    assert tags.read([1, 1, 2, 9]) == [77, 77, "nothing was stored", 0]
    assert tags.read([]) == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_is_made_of_numbers_that_the_dtype_holds(dtype):
    _, tags = pool(dtype)
    for k, v in tags.rows([tags.num_tags - 1]):
        for rows in (k, v):
            assert rows.dtype == dtype
            assert torch.equal(
                rows.to(torch.float64).to(dtype).view(torch.uint8), rows.view(torch.uint8)
            )


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_rows_differ(dtype):
    _, tags = pool(dtype)
    rows = torch.cat([part.reshape(-1, 8) for pair in tags.rows([5, 6]) for part in pair])
    assert (
        len({bytes(row.tolist()) if dtype is torch.uint8 else str(row.tolist()) for row in rows})
        == 16
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_row_of_another_is_seen(dtype):
    kv_cache, tags = pool(dtype)
    store(kv_cache, tags, [2, 3], [40, 41])
    for layer in range(2):
        for kind, view in (("K", kv_cache.k_cache(layer)), ("V", kv_cache.v_cache(layer))):
            for head in range(2):
                kept = view.clone()
                view[1, 0, head] = view[1, 1, head]
                (words,) = tags.read([2])
                assert f"tag 41 in {kind} of layer {layer}, head {head}" in words
                assert "tag 40 in " in words
                view.copy_(kept)
    assert tags.read([2, 3]) == [40, 41]


def test_k_and_v_exchanged_are_seen():
    kv_cache, tags = pool()
    store(kv_cache, tags, [0], [3])
    kv_cache.v_cache(1)[0, 0] = kv_cache.k_cache(1)[0, 0]
    (words,) = tags.read([0])
    assert "tag 3 of K, layer 1, head 0 in V of layer 1, head 0" in words


def test_layers_exchanged_everywhere_are_seen():
    kv_cache, tags = pool()
    (k, v), _ = tags.rows([3])
    for layer in range(2):
        kv_cache.store_kv(k, v, torch.tensor([0]), layer)
    (words,) = tags.read([0])
    assert "tag 3 of K, layer 0, head 1 in K of layer 1, head 1" in words


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("dtype", DTYPES[:6])
def test_one_wrong_element_is_seen(dtype, value):
    kv_cache, tags = pool(dtype)
    store(kv_cache, tags, [0, 1], [3, 4])
    kv_cache.k_cache(0)[0, 0, 1, 7] = value
    words, right = tags.read([0, 1])
    assert "no tag in K of layer 0, head 1" in words
    assert right == 4


def test_what_is_the_same_everywhere_is_said_once():
    kv_cache, tags = pool()
    for layer in range(2):
        kv_cache.k_cache(layer).fill_(0.5)
        kv_cache.v_cache(layer).fill_(0.5)
    assert tags.read([4]) == ["no tag"]


def test_a_tag_that_does_not_fit_is_refused():
    _, tags = pool(torch.float8_e4m3fn, dim=2)
    assert tags.num_tags == 2**6 // 8 - 1
    with pytest.raises(ValueError, match="tag 7: a row of this pool can name 7"):
        tags.rows([7])
