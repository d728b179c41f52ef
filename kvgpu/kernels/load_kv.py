"""`load_kv`: the K and V of slots of one layer, gathered into new tensors in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvgpu._pool import Pool
from kvgpu.kernels._units import (
    INDEX,
    LANES,
    WORD,
    block_of,
    launch,
    pointers,
    slot_offset,
    tile,
    unit_bytes,
)


@triton.jit(do_not_specialize=list(range(9)))
def load_kv_kernel(
    k: tl.int64,  # addresses in bytes: k, v, slots, slot 0 of the layer in K and in V
    v: tl.int64,
    slots: tl.int64,
    k_cache: tl.int64,
    v_cache: tl.int64,
    n: tl.int64,  # rows
    num_slots: tl.int64,
    slots_stride: tl.int64,  # in entries
    group_stride: tl.int64,  # in units
    ROW: tl.constexpr,  # units of a row
    GROUP: tl.constexpr,  # slots that lie together
    LOC: tl.constexpr,  # the dtype of slots
    WORD: tl.constexpr,
    LANES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """See the launcher below."""
    row, unit = tile(ROW, BLOCK)
    inside = row < n
    entry: tl.constexpr = tl.pointer_type(LOC)
    slot = tl.load(slots.to(entry) + row * slots_stride, mask=inside, other=-1).to(tl.int64)
    kept = (slot >= 0) & (slot < num_slots)
    # Padding becomes slot 0 before it meets an address; the mask keeps it from being read.
    slot = tl.where(kept, slot, 0)
    cached = slot_offset(slot, group_stride, ROW, GROUP) + unit
    k_words = tl.load(pointers(k_cache, cached, WORD, LANES), mask=kept[:, None], other=0)
    v_words = tl.load(pointers(v_cache, cached, WORD, LANES), mask=kept[:, None], other=0)
    out = row * ROW + unit
    tl.store(pointers(k, out, WORD, LANES), k_words, mask=inside[:, None])
    tl.store(pointers(v, out, WORD, LANES), v_words, mask=inside[:, None])


def load_kv(pool: Pool, slots: torch.Tensor, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch at most once, on the current stream. Rows of slots outside the pool are zeros."""
    n = slots.shape[0]
    shape = (n, pool.num_heads, pool.head_dim)
    k = torch.empty(shape, dtype=pool.dtype, device=pool.device)
    v = torch.empty(shape, dtype=pool.dtype, device=pool.device)
    if n == 0:
        return k, v
    k_address, v_address = k.data_ptr(), v.data_ptr()
    k_cache, v_cache = pool.k_address[layer_id], pool.v_address[layer_id]
    unit = unit_bytes(
        k_address | v_address | k_cache | v_cache | (pool.row | pool.group_stride) * pool.itemsize
    )
    row_units = pool.row * pool.itemsize // unit
    block = block_of(n * row_units)
    launch(
        pool.device,
        load_kv_kernel,
        (row_units, pool.group, slots.itemsize, unit, block),
        (-(-n * row_units // block), 1, 1),
        k_address,
        v_address,
        slots.data_ptr(),
        k_cache,
        v_cache,
        n,
        pool.num_slots,
        slots.stride(0),
        pool.group_stride * pool.itemsize // unit,
        row_units,
        pool.group,
        INDEX[slots.dtype],
        WORD[unit],
        LANES[unit],
        block,
    )
    return k, v
