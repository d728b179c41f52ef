"""The properties of the storage: each check builds a cache, does one call, and compares all bytes.

The reference is plain torch indexing, row by row, on a copy of the whole allocation: what must not
change is compared with what must. Used by the tests of every target, and by the tests that
planted faults are caught.
"""

from __future__ import annotations

from typing import Any

import torch

from kvstrategies.tensors import (
    PageMoves,
    PoolShape,
    RowsToStore,
    make_indices,
    make_rows,
)
from tests.storage.targets import Target

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """As integers on the CPU, so that equal means equal bits."""
    return tensor.cpu().view(_BITS[tensor.dtype.itemsize])


class Reference:
    """A copy of a cache's allocation, to which the tests write by plain indexing."""

    def __init__(self, cache: Any, shape: PoolShape) -> None:
        self.cache = cache
        self.shape = shape
        self.memory = cache.memory.cpu().clone()
        size = 2 * shape.num_layers * shape.num_slots * shape.heads * shape.dim
        buffer = self.memory[cache.guard : cache.guard + size * shape.dtype.itemsize]
        buffer = buffer.view(_BITS[shape.dtype.itemsize])
        inner = (shape.page_size, shape.heads, shape.dim)
        if shape.page_first:
            self._buffer = buffer.view(2, shape.num_pages, shape.num_layers, *inner)
        else:
            self._buffer = buffer.view(2, shape.num_layers, shape.num_pages, *inner)

    def page(self, kv: int, layer: int, page: int) -> torch.Tensor:
        """`[page_size, heads, dim]`; kv 0 is K, 1 is V."""
        if self.shape.page_first:
            return self._buffer[kv][page][layer]
        return self._buffer[kv][layer][page]

    def row(self, kv: int, layer: int, slot: int) -> torch.Tensor:
        """`[heads, dim]`."""
        return self.page(kv, layer, slot // self.shape.page_size)[slot % self.shape.page_size]

    def assert_same(self) -> None:
        """The cache's whole allocation holds these bytes."""
        memory = self.cache.memory.cpu()
        if not torch.equal(memory, self.memory):
            wrong = (memory != self.memory).nonzero()[:, 0] - self.cache.guard
            raise AssertionError(
                f"{len(wrong)} bytes differ, the first at {int(wrong[0])} and the last at "
                f"{int(wrong[-1])} of a buffer of {self._buffer.nbytes}"
            )


def check_store(target: Target, shape: PoolShape, rows: RowsToStore, **options: Any) -> None:
    """`store_kv` writes each row to its slot and nothing else; its arguments stay as they were."""
    cache = target.cache(shape, **options)
    n = len(rows.slots)
    k = make_rows(rows.k_form, n, shape.heads, shape.dim, shape.dtype, rows.seed, target.device)
    v = make_rows(rows.v_form, n, shape.heads, shape.dim, shape.dtype, ~rows.seed, target.device)
    out_loc = make_indices(rows.slots, rows.index_dtype, rows.index_step, target.device)
    reference = Reference(cache, shape)
    k_bits, v_bits = bits_of(k), bits_of(v)
    for i, slot in enumerate(rows.slots):
        if 0 <= slot < shape.num_slots:
            reference.row(0, rows.layer, slot).copy_(k_bits[i])
            reference.row(1, rows.layer, slot).copy_(v_bits[i])
    k_before, v_before = k_bits.clone(), v_bits.clone()

    assert cache.store_kv(k, v, out_loc, rows.layer) is None

    reference.assert_same()
    assert torch.equal(bits_of(k), k_before), "k was written to"
    assert torch.equal(bits_of(v), v_before), "v was written to"
    assert out_loc.tolist() == list(rows.slots), "out_loc was written to"


def check_views(target: Target, shape: PoolShape) -> None:
    """`k_cache` and `v_cache` show each page of each layer, and share the buffer's memory."""
    cache = target.cache(shape)
    reference = Reference(cache, shape)
    for kv, view_of in enumerate((cache.k_cache, cache.v_cache)):
        for layer in range(shape.num_layers):
            view = view_of(layer)
            assert view.dtype is shape.dtype
            assert view.device == cache.device
            assert view.shape == (shape.num_pages, shape.page_size, shape.heads, shape.dim)
            for page in range(shape.num_pages):
                assert torch.equal(bits_of(view[page]), reference.page(kv, layer, page))
            view[-1, -1] = 0
            reference.row(kv, layer, shape.num_slots - 1).fill_(0)
    reference.assert_same()


def check_load(
    target: Target,
    shape: PoolShape,
    slots: tuple[int, ...],
    layer: int,
    index_dtype: torch.dtype,
    index_step: int,
    **options: Any,
) -> None:
    """`load_kv` gives each slot's row, zeros for padding, and changes nothing."""
    cache = target.cache(shape, **options)
    reference = Reference(cache, shape)
    indices = make_indices(slots, index_dtype, index_step, target.device)

    got = cache.load_kv(indices, layer)

    assert len(got) == 2
    for kv, rows in enumerate(got):
        assert rows.shape == (len(slots), shape.heads, shape.dim)
        assert rows.dtype is shape.dtype
        assert rows.device == cache.device
        assert rows.is_contiguous()
        for slot, row in zip(slots, bits_of(rows), strict=True):
            wanted = torch.zeros_like(row)
            if 0 <= slot < shape.num_slots:
                wanted = reference.row(kv, layer, slot)
            assert torch.equal(row, wanted), f"{'KV'[kv]} of slot {slot} differs"
    reference.assert_same()
    assert indices.tolist() == list(slots), "slots were written to"


def check_copy(target: Target, shape: PoolShape, moves: PageMoves, **options: Any) -> None:
    """`copy_pages` copies all layers of each pair's K and V, and nothing else."""
    cache = target.cache(shape, **options)
    reference = Reference(cache, shape)
    src, dst = zip(*moves.pairs, strict=True) if moves.pairs else ((), ())
    src_pages = make_indices(src, moves.src_dtype, moves.index_step, target.device)
    dst_pages = make_indices(dst, moves.dst_dtype, moves.index_step, target.device)
    for source, destination in moves.pairs:
        if 0 <= source < shape.num_pages and 0 <= destination < shape.num_pages:
            for kv in (0, 1):
                for layer in range(shape.num_layers):
                    page = reference.page(kv, layer, source)
                    reference.page(kv, layer, destination).copy_(page)

    assert cache.copy_pages(src_pages, dst_pages) is None

    reference.assert_same()
    assert src_pages.tolist() == list(src), "src_pages was written to"
    assert dst_pages.tolist() == list(dst), "dst_pages was written to"
