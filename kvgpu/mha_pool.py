"""Paged K/V storage for multi-head attention: one buffer, two layouts, bit-exact copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvgpu._arguments import describe, require_device, require_size, require_tensor
from kvgpu._pool import Implementation, Pool
from kvgpu._torch_path import TORCH
from kvgpu.base import BaseKVCache, KVCacheLayout
from kvgpu.errors import InvalidIndex, InvalidType, InvalidValue
from kvgpu.radix_node import FEW

__all__ = ["MHAKVCache", "TPInfo"]

_DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int8,
    torch.uint8,
)
_INDEX_DTYPES = (torch.int32, torch.int64)
_Indices = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class TPInfo:
    """Which of the ranks of a tensor-parallel group this process is.

    Raises:
        InvalidType, InvalidValue: not ints, or not `0 <= rank < size`.
    """

    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        require_size("tp.size", self.size, minimum=1)
        if require_size("tp.rank", self.rank, minimum=0) >= self.size:
            raise InvalidValue("tp.rank", str(self.rank), f"below tp.size {self.size}")

    def kv_heads(self, num_kv_heads: int) -> range:
        """The K/V heads, of all `num_kv_heads` of the LLM, that this rank keeps.

        A range of `num_kv_heads / size` heads; where there are fewer heads than ranks, of one
        head, which `size / num_kv_heads` neighbouring ranks keep alike.

        Raises:
            InvalidType, InvalidValue: `num_kv_heads` is not a positive int, or neither number
                is a multiple of the other.
        """
        require_size("num_kv_heads", num_kv_heads, minimum=1)
        if num_kv_heads % self.size == 0:
            local = num_kv_heads // self.size
            return range(self.rank * local, (self.rank + 1) * local)
        if self.size % num_kv_heads == 0:
            head = self.rank // (self.size // num_kv_heads)
            return range(head, head + 1)
        raise InvalidValue(
            "tp",
            f"{num_kv_heads} K/V heads over {self.size} ranks",
            "one number to be a multiple of the other",
        )


class MHAKVCache(BaseKVCache):
    """K and V of every layer, in pages, in one buffer that this object owns.

    A new cache's content is undefined: read only what was stored. `k_cache` and `v_cache` share
    memory with the buffer. Not locked: calls that write the same slots need an order, which
    on a GPU is that of the current stream.

    Args:
        num_kv_heads: K/V heads of the LLM, over all ranks.
        num_layers, head_dim, num_pages: at least 1.
        dtype: float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8 or uint8.
        kv_layout: the order of the axes in memory.
        device: where the buffer lives. A GPU needs triton; everything else runs in torch.
        page_size: slots a page, at least 1.
        tp: this rank of a tensor-parallel group; None is a group of one.
        checked: on a GPU, look at the values of slots and pages before each call, which waits
            for the device and so forbids CUDA graphs. Elsewhere they are always looked at.

    Raises:
        InvalidType, InvalidValue: an argument, or heads that the ranks cannot split.
    """

    def __init__(
        self,
        num_kv_heads: int,
        num_layers: int,
        head_dim: int,
        num_pages: int,
        dtype: torch.dtype,
        kv_layout: KVCacheLayout,
        device: torch.device | str,
        *,
        page_size: int = 1,
        tp: TPInfo | None = None,
        checked: bool = False,
    ) -> None:
        require_size("num_layers", num_layers, minimum=1)
        require_size("head_dim", head_dim, minimum=1)
        require_size("num_pages", num_pages, minimum=1)
        require_size("page_size", page_size, minimum=1)
        if tp is not None and not isinstance(tp, TPInfo):
            raise InvalidType("tp", describe(tp), "a TPInfo or None")
        if not isinstance(dtype, torch.dtype):
            raise InvalidType("dtype", describe(dtype), "a torch.dtype")
        if dtype not in _DTYPES:
            raise InvalidValue("dtype", str(dtype), " or ".join(map(str, _DTYPES)))
        if not isinstance(kv_layout, KVCacheLayout):
            raise InvalidValue("kv_layout", describe(kv_layout), "a KVCacheLayout")
        device = require_device(device)
        self._kv_heads = (tp or TPInfo()).kv_heads(num_kv_heads)
        self._kv_layout = kv_layout
        heads = len(self._kv_heads)
        # What was made in inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            if kv_layout is KVCacheLayout.LayerFirst:
                shape = (2, num_layers, num_pages, page_size, heads, head_dim)
                data = self._allocate(shape, dtype, device)
            else:
                shape = (2, num_pages, num_layers, page_size, heads, head_dim)
                data = self._allocate(shape, dtype, device).transpose(1, 2)
            self._pool = Pool(data)
        # A tensor's device has an index where "cuda" has none; they would compare unequal.
        self._device = data.device
        self._devices = (data.device,)
        on_gpu = data.device.type == "cuda"
        self._looks_at_values = checked or not on_gpu
        self._implementation = self._choose_implementation(on_gpu)

    def _allocate(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """A contiguous buffer that nobody else writes to, its content undefined."""
        return torch.empty(shape, dtype=dtype, device=device)

    def _choose_implementation(self, on_gpu: bool) -> Implementation:
        if not on_gpu:
            return TORCH
        # Here, so that who has no GPU needs no triton, and who has one pays for the import now.
        from kvgpu.kernels import TRITON  # pragma: no cover - needs a device

        return TRITON  # pragma: no cover - needs a device

    @property
    def device(self) -> torch.device:
        """Where the buffer lives."""
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        """Of K and V."""
        return self._pool.dtype

    @property
    def num_layers(self) -> int:
        """Layers of the transformer that this cache serves."""
        return self._pool.num_layers

    @property
    def num_pages(self) -> int:
        """Pages of each layer, of K and of V."""
        return self._pool.num_pages

    @property
    def page_size(self) -> int:
        """Slots a page."""
        return self._pool.page_size

    @property
    def num_slots(self) -> int:
        """Tokens that fit: pages times page size."""
        return self._pool.num_slots

    @property
    def kv_heads(self) -> range:
        """The K/V heads of the LLM that this rank keeps; axis 1 of `k` and `v` in order."""
        return self._kv_heads

    @property
    def local_kv_heads(self) -> int:
        """How many K/V heads this rank keeps."""
        return len(self._kv_heads)

    @property
    def head_dim(self) -> int:
        """Elements of one head of one token."""
        return self._pool.head_dim

    @property
    def kv_layout(self) -> KVCacheLayout:
        """The order of the axes in memory."""
        return self._kv_layout

    @property
    def num_bytes(self) -> int:
        """Of the buffer, K and V of all layers on this rank."""
        return self._pool.data.numel() * self._pool.itemsize

    def k_cache(self, index: int) -> torch.Tensor:
        """K of layer `index`: `[pages, page_size, local_kv_heads, head_dim]`, a view.

        Contiguous in LayerFirst; in PageFirst a page's slots are, and the pages lie apart.

        Raises:
            InvalidType, InvalidIndex: not an int, or not `0 <= index < num_layers`.
        """
        self._require_layer("index", index)
        return self._pool.k[index]

    def v_cache(self, index: int) -> torch.Tensor:
        """V of layer `index`: as `k_cache`."""
        self._require_layer("index", index)
        return self._pool.v[index]

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        """Write row i of `k` and `v` to slot `out_loc[i]` of layer `layer_id`, bit for bit.

        Every other byte of the buffer stays as it was. On a GPU: one launch, on the current
        stream; nothing waits for the device, unless checked.

        Args:
            k, v: `[n, local_kv_heads, head_dim]`, the cache's dtype and device, any strides.
                Read only, not kept.
            out_loc: `[n]`, int32 or int64, the cache's device, any stride. A negative entry is
                padding: its row is skipped. Read only, not kept.
            layer_id: 0 .. num_layers - 1.

        Raises:
            InvalidType, InvalidValue: a tensor's type, dtype, shape or device.
            InvalidIndex: `layer_id`; a slot that is not below `num_slots` (*).
            InvalidValue: a slot twice (*).

        (*) On the CPU and when checked. On a GPU, unchecked, a slot outside the pool is
        skipped, and the same slot twice leaves the content of that slot unspecified.
        """
        pool = self._pool
        # All that is right in one expression: this runs once a layer and a step. What fails it
        # goes through the careful checks, which word the refusal.
        if not (
            type(k) is type(v) is type(out_loc) is torch.Tensor
            and type(layer_id) is int
            and 0 <= layer_id < pool.num_layers
            and k.dtype is v.dtype is pool.dtype
            and out_loc.dtype in _INDEX_DTYPES
            and k.dim() == 3
            and k.shape == v.shape == (*out_loc.shape, pool.num_heads, pool.head_dim)
            and k.device == v.device == out_loc.device == self._device
            and k.layout is v.layout is out_loc.layout is torch.strided
            and not (k.is_neg() or v.is_neg())
        ):
            self._require_layer("layer_id", layer_id)
            self._require_indices("out_loc", out_loc)
            shape = (out_loc.shape[0], pool.num_heads, pool.head_dim)
            for argument, rows in (("k", k), ("v", v)):
                require_tensor(
                    argument, rows, dtypes=(pool.dtype,), shape=shape, devices=self._devices
                )
            # The imaginary part of a conjugate: its bits in memory are not its values.
            k, v = k.resolve_neg(), v.resolve_neg()
        if self._looks_at_values:
            _require_in_pool("out_loc", _on_host(out_loc), pool.num_slots, distinct=True)
        if out_loc.shape[0]:
            self._implementation.store_kv(pool, k, v, out_loc, layer_id)

    def load_kv(self, slots: torch.Tensor, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The K and V of `slots` in layer `layer_id`, bit for bit.

        Args:
            slots: `[n]`, int32 or int64, the cache's device, any stride, a slot any number of
                times. A negative entry is padding: its row is zeros. Read only, not kept.
            layer_id: 0 .. num_layers - 1.

        Returns:
            K and V, each `[n, local_kv_heads, head_dim]`, contiguous, of the cache's dtype and
            device; new tensors, the caller's.

        Raises:
            InvalidType, InvalidValue: the tensor's type, dtype, shape or device.
            InvalidIndex: `layer_id`; on the CPU and when checked also a slot that is not below
                `num_slots`. Unchecked on a GPU such a row is zeros, as padding is.
        """
        self._require_layer("layer_id", layer_id)
        self._require_indices("slots", slots)
        if self._looks_at_values:
            _require_in_pool("slots", _on_host(slots), self._pool.num_slots, distinct=False)
        return self._implementation.load_kv(self._pool, slots, layer_id)

    def copy_pages(self, src_pages: torch.Tensor, dst_pages: torch.Tensor) -> None:
        """Copy page `src_pages[i]` to page `dst_pages[i]`: K and V, all layers, bit for bit.

        For defragmentation and copy on write. The pages are copied in no order, so no page may
        be both a source and a destination.

        Args:
            src_pages, dst_pages: `[m]` each, int32 or int64, the cache's device, any stride, in
                pages (not slots). A source may feed several destinations. A pair with a
                negative page is padding. Read only, not kept.

        Raises:
            InvalidType, InvalidValue: a tensor's type, dtype, shape or device.
            InvalidIndex: a page that is not below `num_pages` (*).
            InvalidValue: a destination twice, or one that is also a source (*).

        (*) On the CPU and when checked. On a GPU, unchecked, a pair with a page outside the
        pool is skipped, and the content of such a destination is unspecified.
        """
        pool = self._pool
        self._require_indices("src_pages", src_pages)
        self._require_indices("dst_pages", dst_pages, length=src_pages.shape[0])
        if self._looks_at_values:
            src, dst = _on_host(src_pages), _on_host(dst_pages)
            padding = (src < 0) | (dst < 0)
            src, dst = np.where(padding, -1, src), np.where(padding, -1, dst)
            _require_in_pool("src_pages", src, pool.num_pages, distinct=False)
            _require_in_pool("dst_pages", dst, pool.num_pages, distinct=True)
            _refuse("dst_pages", dst, ~padding & np.isin(dst, src), "no page that is a source too")
        if src_pages.shape[0]:
            self._implementation.copy_pages(pool, src_pages, dst_pages)

    def _require_layer(self, argument: str, layer: int) -> None:
        if isinstance(layer, bool) or not isinstance(layer, int):
            raise InvalidType(argument, describe(layer), "an int")
        if not 0 <= layer < self._pool.num_layers:
            raise InvalidIndex(argument, str(layer), f"0 to {self._pool.num_layers - 1}")

    def _require_indices(
        self, argument: str, value: torch.Tensor, length: int | None = None
    ) -> None:
        require_tensor(
            argument, value, dtypes=_INDEX_DTYPES, shape=(length,), devices=self._devices
        )


def _on_host(indices: torch.Tensor) -> _Indices:
    """The values, int32 or int64; of a GPU's tensor this waits for the device."""
    values: _Indices = indices.cpu().numpy()
    return values


def _require_in_pool(argument: str, values: _Indices, limit: int, *, distinct: bool) -> None:
    """Refuse what is not below `limit`, and then what is there twice; negatives are padding."""
    if len(values) <= FEW:
        few = values.tolist()
        if (not distinct or len(set(few)) == len(few)) and max(few, default=-1) < limit:
            return
    ordered = np.sort(values)
    if ordered.size and ordered[-1] >= limit:
        _refuse(argument, values, values >= limit, f"below {limit}", InvalidIndex)
    if distinct and ((ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)).any():
        again = values >= 0
        again[np.unique(values, return_index=True)[1]] = False
        _refuse(argument, values, again, "each at most once")


def _refuse(
    argument: str,
    values: _Indices,
    bad: npt.NDArray[np.bool_],
    expected: str,
    error: type[InvalidIndex | InvalidValue] = InvalidValue,
) -> None:
    """Raise `error` for the first of `values` that is `bad`, if one is."""
    if bad.any():
        position = int(bad.argmax())
        raise error(argument, f"{values[position]} at position {position}", expected)
