"""`copy_pages`: whole pages of all layers, K and V, within the pool, in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvgpu._pool import Pool
from kvgpu.kernels._units import INDEX, LANES, WORD, block_of, launch, pointers, tile, unit_bytes


@triton.jit(do_not_specialize=list(range(8)))
def copy_pages_kernel(
    cache: tl.int64,  # addresses in bytes: the buffer, src_pages, dst_pages
    src_pages: tl.int64,
    dst_pages: tl.int64,
    m: tl.int64,  # pairs of pages
    num_pages: tl.int64,
    src_stride: tl.int64,  # in entries
    dst_stride: tl.int64,
    run_stride: tl.int64,  # in units
    PAGE: tl.constexpr,  # units of a page in one run; page p begins at p * PAGE there
    SRC: tl.constexpr,  # the dtypes of src_pages and dst_pages
    DST: tl.constexpr,
    WORD: tl.constexpr,
    LANES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """See the launcher below."""
    pair, unit = tile(PAGE, BLOCK)
    inside = pair < m
    src_entry: tl.constexpr = tl.pointer_type(SRC)
    dst_entry: tl.constexpr = tl.pointer_type(DST)
    src = tl.load(src_pages.to(src_entry) + pair * src_stride, mask=inside, other=-1).to(tl.int64)
    dst = tl.load(dst_pages.to(dst_entry) + pair * dst_stride, mask=inside, other=-1).to(tl.int64)
    kept = (src >= 0) & (src < num_pages) & (dst >= 0) & (dst < num_pages)
    # Padding becomes page 0 before it meets an address; the mask keeps it from being used.
    src = tl.where(kept, src, 0)
    dst = tl.where(kept, dst, 0)
    run = tl.program_id(1).to(tl.int64) * run_stride
    source = pointers(cache, run + src * PAGE + unit, WORD, LANES)
    target = pointers(cache, run + dst * PAGE + unit, WORD, LANES)
    tl.store(target, tl.load(source, mask=kept[:, None]), mask=kept[:, None])


def copy_pages(pool: Pool, src_pages: torch.Tensor, dst_pages: torch.Tensor) -> None:
    """Launch once, on the current stream; at least one pair. Pairs outside are skipped."""
    m = src_pages.shape[0]
    runs, _, page = pool.runs.shape
    address = pool.runs.data_ptr()
    # A run is num_pages pages, so whatever divides a page divides the stride of runs.
    unit = unit_bytes(address | page * pool.itemsize)
    page_units = page * pool.itemsize // unit
    block = block_of(runs * m * page_units)
    launch(
        pool.device,
        copy_pages_kernel,
        (page_units, src_pages.itemsize, dst_pages.itemsize, unit, block),
        (-(-m * page_units // block), runs, 1),
        address,
        src_pages.data_ptr(),
        dst_pages.data_ptr(),
        m,
        pool.num_pages,
        src_pages.stride(0),
        dst_pages.stride(0),
        pool.runs.stride(0) * pool.itemsize // unit,
        page_units,
        INDEX[src_pages.dtype],
        INDEX[dst_pages.dtype],
        WORD[unit],
        LANES[unit],
        block,
    )
