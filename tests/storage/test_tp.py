"""Tensor parallelism: which heads a rank keeps, and that the ranks together keep all."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from kvgpu import InvalidValue, KVCacheLayout, mha_pool
from kvstrategies.tensors import make_indices, random_bits
from tests.storage.targets import over_targets


def check_heads(module: ModuleType) -> None:
    """Each rank has heads, neighbours in order; all together have each head equally often."""
    for heads in range(1, 17):
        for size in range(1, 17):
            ranks = [module.TPInfo(rank, size) for rank in range(size)]
            if heads % size and size % heads:
                for rank in ranks:
                    with pytest.raises(InvalidValue, match=f"{heads} K/V heads over {size} ranks"):
                        rank.kv_heads(heads)
                continue
            kept = [head for rank in ranks for head in rank.kv_heads(heads)]
            assert kept == sorted(kept)
            assert {kept.count(head) for head in range(heads)} == {max(1, size // heads)}
            assert {len(rank.kv_heads(heads)) for rank in ranks} == {max(1, heads // size)}


def test_every_head_is_kept_and_every_rank_keeps_one():
    check_heads(mha_pool)


@over_targets
@pytest.mark.parametrize(("heads", "size"), [(8, 1), (8, 2), (8, 8), (6, 3), (2, 4), (1, 4)])
def test_the_ranks_together_hold_what_one_cache_holds(target, heads, size):
    pages, page_size, dim = 4, 2, 16
    k = random_bits((3, heads, dim), torch.float16, 1).to(target.device)
    slots = make_indices((5, 0, 7), torch.int32, 1, target.device)
    rebuilt = torch.zeros_like(k)
    for rank in range(size):
        cache = target.base(
            heads,
            1,
            dim,
            pages,
            torch.float16,
            KVCacheLayout.PageFirst,
            target.device,
            page_size=page_size,
            tp=mha_pool.TPInfo(rank, size),
        )
        assert cache.local_kv_heads == max(1, heads // size)
        mine = k[:, cache.kv_heads.start : cache.kv_heads.stop]
        cache.store_kv(mine, mine, slots, 0)
        rebuilt[:, cache.kv_heads.start : cache.kv_heads.stop] = cache.load_kv(slots, 0)[1]
    assert torch.equal(rebuilt.view(torch.int16), k.view(torch.int16))


def test_the_worked_example():
    """32 heads over 4 ranks, 32 layers, dim 128, 1000 pages, bf16: 125 MiB a rank."""
    cache = mha_pool.MHAKVCache(
        32,
        32,
        128,
        1000,
        torch.bfloat16,
        KVCacheLayout.LayerFirst,
        torch.device("cpu"),
        tp=mha_pool.TPInfo(0, 4),
    )
    assert cache.num_bytes == 131_072_000 == 125 * 2**20
    k = cache.k_cache(0)
    assert k.untyped_storage().nbytes() == 131_072_000
    assert cache._pool.data.shape == (2, 32, 1000, 1, 8, 128)
    assert cache.v_cache(31).shape == (1000, 1, 8, 128)
    assert cache.v_cache(0).data_ptr() - k.data_ptr() == 131_072_000 // 2


def test_the_two_layouts_lie_in_memory_as_the_documentation_says():
    """The formulas of docs/storage.md."""
    layers, pages, page_size, heads, dim = 3, 5, 4, 2, 6
    row = heads * dim
    for layout in KVCacheLayout:
        cache = mha_pool.MHAKVCache(
            heads, layers, dim, pages, torch.float32, layout, "cpu", page_size=page_size
        )
        base = cache.k_cache(0).data_ptr()
        for kv, view_of in enumerate((cache.k_cache, cache.v_cache)):
            for layer in range(layers):
                for slot in range(pages * page_size):
                    page, place = divmod(slot, page_size)
                    if layout is KVCacheLayout.LayerFirst:
                        offset = ((kv * layers + layer) * pages + page) * page_size + place
                    else:
                        offset = ((kv * pages + page) * layers + layer) * page_size + place
                    at = view_of(layer)[page, place].data_ptr()
                    assert (at - base) // 4 == offset * row
