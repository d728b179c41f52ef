"""The operations of the pool in plain torch: what runs on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from kvgpu._pool import Implementation, Pool, as_bits


def _place(pool: Pool, slots: Any) -> tuple[Any, ...]:
    """The index of each slot in `pool.k_rows[layer]`, for torch or numpy as the slots are."""
    if pool.group == 1:
        return (slots,)
    return slots // pool.page_size, slots % pool.page_size


def store_kv(pool: Pool, k: Any, v: Any, out_loc: Any, layer_id: int) -> None:
    """Write row i of `k` and `v` to slot `out_loc[i]`; every slot is below `num_slots`."""
    k, v = as_bits(k), as_bits(v)
    if out_loc.is_cpu:  # pragma: no branch - others need a device
        # As arrays, which index as tensors do: on one core in a fifth of the time for a few rows,
        # and in less for thousands.
        k, v, out_loc = k.numpy(), v.numpy(), out_loc.numpy()
    kept = out_loc >= 0
    if not kept.all():
        k, v, out_loc = k[kept], v[kept], out_loc[kept]
    place = _place(pool, out_loc)
    pool.k_written[layer_id][place] = k
    pool.v_written[layer_id][place] = v


def load_kv(pool: Pool, slots: torch.Tensor, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """New tensors with the K and V of `slots`; zeros where a slot is negative."""
    padding = (slots < 0)[:, None, None]
    place = _place(pool, slots.clamp(min=0))
    k = pool.k_rows[layer_id][place].masked_fill_(padding, 0)
    v = pool.v_rows[layer_id][place].masked_fill_(padding, 0)
    return k.view(pool.dtype), v.view(pool.dtype)


def copy_pages(pool: Pool, src_pages: torch.Tensor, dst_pages: torch.Tensor) -> None:
    """Copy page `src_pages[i]` to `dst_pages[i]`, unless one of the two is negative."""
    kept = (src_pages >= 0) & (dst_pages >= 0)
    pool.runs[:, dst_pages[kept]] = pool.runs[:, src_pages[kept]]


TORCH = Implementation("torch", store_kv, load_kv, copy_pages)
