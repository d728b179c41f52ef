"""`store_kv`: rows of K and V to the slots of one layer, in one launch."""

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


@triton.jit(do_not_specialize=list(range(15)))
def store_kv_kernel(
    k: tl.int64,  # addresses in bytes: k, v, out_loc, slot 0 of the layer in K and in V
    v: tl.int64,
    out_loc: tl.int64,
    k_cache: tl.int64,
    v_cache: tl.int64,
    n: tl.int64,  # rows
    num_slots: tl.int64,
    loc_stride: tl.int64,  # in entries
    k_row: tl.int64,  # the other strides are in units
    k_head: tl.int64,
    k_dim: tl.int64,
    v_row: tl.int64,
    v_head: tl.int64,
    v_dim: tl.int64,
    group_stride: tl.int64,
    ROW: tl.constexpr,  # units of a row
    HEAD: tl.constexpr,  # units of what lies together in a row of k and of v
    GROUP: tl.constexpr,  # slots that lie together
    LOC: tl.constexpr,  # the dtype of out_loc
    WORD: tl.constexpr,
    LANES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """See the launcher below."""
    row, unit = tile(ROW, BLOCK)
    inside = row < n
    # k and v do not wait for out_loc: rows of padding are read, and then not written.
    if HEAD == ROW:
        k_unit = row * k_row + unit * k_dim
        v_unit = row * v_row + unit * v_dim
    else:
        head = unit // HEAD
        dim = unit % HEAD
        k_unit = row * k_row + head * k_head + dim * k_dim
        v_unit = row * v_row + head * v_head + dim * v_dim
    k_words = tl.load(pointers(k, k_unit, WORD, LANES), mask=inside[:, None])
    v_words = tl.load(pointers(v, v_unit, WORD, LANES), mask=inside[:, None])

    entry: tl.constexpr = tl.pointer_type(LOC)
    slot = tl.load(out_loc.to(entry) + row * loc_stride, mask=inside, other=-1).to(tl.int64)
    kept = (slot >= 0) & (slot < num_slots)
    # Padding becomes slot 0 before it meets an address; the mask keeps it from being written.
    slot = tl.where(kept, slot, 0)
    cached = slot_offset(slot, group_stride, ROW, GROUP) + unit
    tl.store(pointers(k_cache, cached, WORD, LANES), k_words, mask=kept[:, None])
    tl.store(pointers(v_cache, cached, WORD, LANES), v_words, mask=kept[:, None])


def store_kv(
    pool: Pool, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
) -> None:
    """Launch once, on the current stream; n is at least 1. Slots outside the pool are skipped."""
    size = pool.itemsize
    n = out_loc.shape[0]
    k_address, v_address = k.data_ptr(), v.data_ptr()
    k_cache, v_cache = pool.k_address[layer_id], pool.v_address[layer_id]
    (k_row, k_head, k_dim), (v_row, v_head, v_dim) = k.stride(), v.stride()

    # `together`: elements that lie together in both k and v. The strides that then count must be
    # whole units, as must the addresses and what the cache adds to them.
    if k_dim == v_dim == 1:
        if k_head == v_head == pool.head_dim or pool.num_heads == 1:
            together = pool.row
            strides = k_row | v_row
        else:
            together = pool.head_dim
            strides = k_row | v_row | k_head | v_head
        unit = unit_bytes(
            k_address
            | v_address
            | k_cache
            | v_cache
            | (strides | together | pool.row | pool.group_stride) * size
        )
    else:
        together = pool.head_dim
        unit = size
    # From elements to units. The strides that do not count here may come out wrong; where
    # dims are adjacent elements they are adjacent units too.
    row_units = pool.row * size // unit
    head_units = together * size // unit
    if k_dim == v_dim == 1:
        k_row, v_row = k_row * size // unit, v_row * size // unit
        k_head, v_head = k_head * size // unit, v_head * size // unit
    block = block_of(n * row_units)
    launch(
        pool.device,
        store_kv_kernel,
        (row_units, head_units, pool.group, out_loc.itemsize, unit, block),
        (-(-n * row_units // block), 1, 1),
        k_address,
        v_address,
        out_loc.data_ptr(),
        k_cache,
        v_cache,
        n,
        pool.num_slots,
        out_loc.stride(0),
        k_row,
        k_head,
        k_dim,
        v_row,
        v_head,
        v_dim,
        pool.group_stride * size // unit,
        row_units,
        head_units,
        pool.group,
        INDEX[out_loc.dtype],
        WORD[unit],
        LANES[unit],
        block,
    )
