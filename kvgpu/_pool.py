"""The geometry of a pool, and what an implementation of its operations provides.

Nothing here checks arguments: `MHAKVCache` does that once, for every implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# K and V are copied as integers of their own width: a copy as floats may quieten a NaN, and not
# every operation of torch exists for every 8-bit float.
_INTEGER = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, shape and strides, as integers of the same width."""
    return tensor.view(_INTEGER[tensor.dtype.itemsize])


class Pool:
    """One buffer, seen as `[2, layers, pages, page_size, heads, dim]`, and all derived from it.

    Strides and sizes are in elements of the cache's dtype, unless the name says bytes.

    Args:
        data: that view of the buffer, in either layout. The heads and dims of a slot lie
            together in both; so do the slots of a page within one layer.
    """

    def __init__(self, data: torch.Tensor) -> None:
        _, layers, pages, page_size, heads, dim = data.shape
        self.data = data
        self.device = data.device
        self.dtype = data.dtype
        self.itemsize = data.dtype.itemsize
        self.num_layers = layers
        self.num_pages = pages
        self.page_size = page_size
        self.num_heads = heads
        self.head_dim = dim
        self.num_slots = pages * page_size
        self.row = heads * dim
        """Elements of one slot in one layer, consecutive in memory."""
        page_stride = data.stride(2)
        pages_adjoin = page_stride == page_size * self.row
        self.group = 1 if pages_adjoin else page_size
        self.group_stride = self.row if pages_adjoin else page_stride
        """Slots of a layer lie together in groups; elements from one group to the next. Where
        pages adjoin, all slots are evenly spaced, and each is a group."""
        self.k = data[0].unbind(0)
        self.v = data[1].unbind(0)
        """For each layer `[pages, page_size, heads, dim]`."""
        bits = as_bits(data)
        rows = bits.flatten(2, 3) if self.group == 1 else bits
        self.k_rows = rows[0].unbind(0)
        self.v_rows = rows[1].unbind(0)
        """For each layer, as integers: `[slots, heads, dim]` where groups have one slot, else
        `[pages, page_size, heads, dim]`."""
        self.k_written = _for_numpy(self.k_rows)
        self.v_written = _for_numpy(self.v_rows)
        """The same memory for the torch path to write to: on the CPU as numpy has it."""
        self.k_address = tuple(layer.data_ptr() for layer in self.k)
        self.v_address = tuple(layer.data_ptr() for layer in self.v)
        """Of slot 0 of each layer, in bytes."""
        # What copy_pages moves: PageFirst keeps the layers of a page together, so that a page
        # is two runs of memory (K, V); LayerFirst has two for each layer.
        if pages_adjoin:
            self.runs = bits.view(2 * layers, pages, page_size * self.row)
        else:
            self.runs = bits.transpose(1, 2).view(2, pages, layers * page_size * self.row)
        """`[runs, pages, elements]`, each `runs[:, p]` holding all of page p."""


def _for_numpy(rows: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    return tuple(layer.numpy() if layer.is_cpu else layer for layer in rows)


@dataclass(frozen=True)
class Implementation:
    """The operations on a `Pool`. Arguments were checked before: see `MHAKVCache` for them.

    Each takes the pool first. `store_kv(pool, k, v, out_loc, layer_id)` and
    `copy_pages(pool, src_pages, dst_pages)` write to the pool,
    `load_kv(pool, slots, layer_id)` reads it; nothing is kept.
    """

    name: str
    store_kv: Callable[[Pool, torch.Tensor, torch.Tensor, torch.Tensor, int], None]
    load_kv: Callable[[Pool, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]
    copy_pages: Callable[[Pool, torch.Tensor, torch.Tensor], None]
