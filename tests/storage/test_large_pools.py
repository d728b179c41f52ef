"""Pools of more than 2^31 elements, written at both ends: where 32-bit offsets wrap."""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import pytest
import torch

from kvstrategies.tensors import PoolShape, make_indices, random_bits
from tests.storage.suite import bits_of
from tests.storage.targets import Target, as_in_a_large_call, over_targets

# Linux: address space that takes memory only where it is touched, whatever its size.
MAP_NORESERVE = 0x4000

# A row of 1023 bytes is copied byte by byte, so that the kernels' offsets count bytes; one of 1024
# in 16-byte units made of 8-byte words, where the offsets count words. Both are to pass 2^31.
NARROW, WIDE = 1023, 1024
PAST = {NARROW: 1 << 31, WIDE: 1 << 34}


def spacious(base: type) -> type:
    """`base`, its buffer with as much space before it as an offset that wrapped may reach."""

    class Spacious(base):  # type: ignore[valid-type, misc]
        def _allocate(self, shape, dtype, device):
            assert dtype.itemsize == 1
            size = prod(shape)
            before = size // 2 + mmap.PAGESIZE
            before -= before % mmap.PAGESIZE
            if device.type == "cuda":
                memory = torch.empty(before + size, dtype=torch.uint8, device=device)
            else:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
                memory = torch.frombuffer(
                    mmap.mmap(-1, before + size, flags=flags), dtype=torch.uint8
                )
            return memory[before:].view(dtype).view(shape)

    return Spacious


def check_large(target: Target, dim: int, page_first: bool) -> None:
    """Rows at the ends, and on both sides of where offsets pass a power of two, come back."""
    with as_in_a_large_call():
        _check_large(target, dim, page_first)


def _check_large(target: Target, dim: int, page_first: bool) -> None:
    page_size = 16 if page_first else 1
    slots_needed = (PAST[dim] + (1 << 20)) // dim
    shape = PoolShape(
        1, -(-slots_needed // page_size), page_size, 1, dim, torch.float8_e5m2, page_first
    )
    if target.device == "cuda":
        needed = 3 * shape.num_slots * dim + (1 << 30)
        free = torch.cuda.mem_get_info()[0]
        if free < needed:
            pytest.skip(f"{needed >> 30} GiB of the GPU's memory needed, {free >> 30} free")
    large = Target(
        target.name, target.device, target.looks, spacious(target.base), target.implementation
    )
    cache: Any = large.plain_cache(shape)
    last = shape.num_slots - 1
    edges = [edge // dim for edge in (PAST[dim] >> 1, PAST[dim])]
    neighbours = [slot + step for slot in edges for step in (-2, 2)]
    slots = [0, last, *(slot + step for slot in edges for step in (-1, 0, 1)), -1]
    empty = [1, last - 1, *neighbours]
    every = make_indices([*slots[:-1], *empty], torch.int64, 1, target.device)
    zeros = torch.zeros(len(every), 1, dim, dtype=torch.int8).view(shape.dtype).to(target.device)
    cache.store_kv(zeros, zeros, every, 0)

    k, v = (
        random_bits((len(slots), 1, dim), shape.dtype, seed).to(target.device) for seed in (1, 2)
    )
    for dtype in (torch.int32, torch.int64):
        cache.store_kv(k, v, make_indices(slots, dtype, 1, target.device), 0)
        got = cache.load_kv(every, 0)
        for rows, wanted, view in zip(
            got, (k, v), (cache.k_cache(0), cache.v_cache(0)), strict=True
        ):
            assert torch.equal(bits_of(rows[: len(slots) - 1]), bits_of(wanted[:-1]))
            assert not bits_of(rows[len(slots) - 1 :]).any(), "a neighbour was written to"
            for slot, row in zip(slots[:-1], wanted, strict=False):
                stored = view[slot // page_size, slot % page_size]
                assert torch.equal(bits_of(stored), bits_of(row)), f"slot {slot} differs"

    page = shape.num_pages - 1
    before = [bits_of(view[page]).clone() for view in (cache.k_cache(0), cache.v_cache(0))]
    cache.copy_pages(
        make_indices([page], torch.int64, 1, target.device),
        make_indices([1], torch.int32, 1, target.device),
    )
    for view, wanted in zip((cache.k_cache(0), cache.v_cache(0)), before, strict=True):
        assert torch.equal(bits_of(view[1]), wanted), "the copy of the last page differs"


@over_targets
@pytest.mark.parametrize("page_first", [False, True], ids=["LayerFirst", "PageFirst"])
@pytest.mark.parametrize("dim", [NARROW, WIDE], ids=["bytes", "words"])
def test_both_ends_of_a_pool_of_more_than_2_to_the_31_elements(target, dim, page_first):
    check_large(target, dim, page_first)
