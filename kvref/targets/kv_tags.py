"""K and V that name what they are of: rows made of a tag, and read back.

A row of `head_dim` elements holds one number, digit by digit and, where there is room, again
and again. The number is made of the tag, the layer, the head, and whether it is K or V, so that
each row by itself says all of it. Digits are small integers that the dtype holds exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvgpu.base import BaseKVCache

__all__ = ["KVTags"]

_Array = npt.NDArray[Any]

# Bits of the integers that each dtype holds exactly, from 0 on.
_BITS = {
    torch.float64: 24,
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
    torch.float8_e4m3fn: 3,
    torch.float8_e5m2: 3,
    torch.int8: 7,
    torch.uint8: 7,
}
_RAW = {1: np.uint8, 2: np.int16, 4: np.float32, 8: np.float64}


_KEPT = 32
"""Buffers of up to so many rows are used again: to make the tensors costs as much as all else."""


class KVTags:
    """Writes tags as the K and V of one pool, and reads them.

    Args:
        kv_cache: its content is cleared.
    """

    def __init__(self, kv_cache: BaseKVCache) -> None:
        self._views = [
            view(layer)
            for view in (kv_cache.k_cache, kv_cache.v_cache)
            for layer in range(kv_cache.num_layers)
        ]
        _, self._page_size, heads, dim = self._views[0].shape
        dtype, layers = kv_cache.dtype, kv_cache.num_layers
        for view in self._views:
            view.zero_()
        self._dtype, self._layers = dtype, layers
        self._device = self._views[0].device
        bits = _BITS[dtype]
        digits = min(dim, 62 // bits)
        self._per_tag = 2 * layers * heads
        # K of all layers, then V of all layers, and the heads within: as the views and rows lie.
        self._places = np.arange(self._per_tag, dtype=np.int64).reshape(2 * layers, 1, heads)
        # A code of 0 would look like a row that nobody wrote: the first tag begins above.
        self._codes_of_0 = self._places + self._per_tag
        self._shifts = bits * (np.arange(dim, dtype=np.int64) % digits)
        self._digits = digits
        self._weights = 1 << self._shifts[:digits]
        self._mask = (1 << bits) - 1
        self.num_tags = (1 << bits * digits) // self._per_tag - 1
        # How each digit looks in memory, and which digit is meant by what is there.
        self._raw = _RAW[self._views[0].element_size()]
        self._patterns: _Array | None = None
        if self._raw in (np.uint8, np.int16):
            numbers = torch.arange(1 << bits).to(dtype)
            self._patterns = numbers.view(_torch_type(self._raw)).numpy()
            self._meant = np.zeros(1 << 8 * numbers.element_size(), dtype=np.int64)
            self._meant[self._patterns] = np.arange(1 << bits)
        self._on_cpu = (
            [self._numpy(view) for view in self._views] if self._device.type == "cpu" else None
        )
        self._kept: dict[int, tuple[_Array, list[tuple[torch.Tensor, torch.Tensor]]]] = {}

    def rows(self, tags: Sequence[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """K and V of each layer, `[n, heads, dim]`, on the pool's device.

        The next call may write to the same tensors.

        Raises:
            ValueError: a tag that does not fit into a row.
        """
        highest = max(tags, default=0)
        if highest >= self.num_tags:
            raise ValueError(f"tag {highest}: a row of this pool can name {self.num_tags}")
        made = self._rows_of(np.array(tags, dtype=np.int64))
        if self._on_cpu is None or len(tags) > _KEPT:
            return self._tensors(made)
        kept = self._kept.get(len(tags))
        if kept is None:
            buffer = np.empty_like(made)
            kept = self._kept[len(tags)] = (buffer, self._tensors(buffer))
        buffer, tensors = kept
        buffer[...] = made
        return tensors

    def read(self, slots: Sequence[int]) -> list[int | str]:
        """The tag that all rows of a slot name, or in words what is there instead."""
        numbers = np.array(slots, dtype=np.int64)
        pages, places = numbers // self._page_size, numbers % self._page_size
        if self._on_cpu is not None:
            found = np.array([view[pages, places] for view in self._on_cpu])
        else:
            index = (torch.from_numpy(pages), torch.from_numpy(places))
            on_device = tuple(part.to(self._device) for part in index)
            found = self._numpy(torch.stack([view[on_device] for view in self._views]).cpu())
        # Mostly all rows are those of the tag that the first one names, to the bit.
        named = self._digits_of(found[0, :, 0]) @ self._weights // self._per_tag - 1
        if found.tobytes() == self._rows_of(named).tobytes():
            result: list[Any] = named.tolist()
            if min(result, default=0) >= 0:
                return result
        codes, exact = self._codes(found)
        tags, places_found = np.divmod(codes, self._per_tag)
        first = tags[0, :, 0]
        right = exact & (places_found == self._places) & (tags == first[:, None]) & (tags > 0)
        return [
            int(first[at]) - 1 if right[:, at].all() else self._words(codes[:, at], exact[:, at])
            for at in range(len(numbers))
        ]

    def _rows_of(self, tags: _Array) -> _Array:
        """What each view holds of these tags, as it lies in memory: `[views, n, heads, dim]`."""
        return self._in_memory(tags[:, None] * self._per_tag + self._codes_of_0)

    def _tensors(self, rows: _Array) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """K and V of each layer; on the CPU in the same memory."""
        parts = torch.from_numpy(rows).view(self._dtype).to(self._device).unbind(0)
        return list(zip(parts[: self._layers], parts[self._layers :], strict=True))

    def _in_memory(self, codes: _Array) -> _Array:
        """The rows of some codes, as they lie in memory."""
        digits = codes[..., None] >> self._shifts
        digits &= self._mask
        rows: _Array = (
            digits.astype(self._raw) if self._patterns is None else self._patterns[digits]
        )
        return rows

    def _codes(self, found: _Array) -> tuple[_Array, _Array]:
        """The code of each row, and whether the row is exactly that of the code."""
        codes: _Array = self._digits_of(found) @ self._weights
        return codes, (self._in_memory(codes) == found).all(axis=-1)

    def _digits_of(self, found: _Array) -> _Array:
        """The digits of each row, each once, whatever the row holds."""
        digits: _Array = found[..., : self._digits]
        if self._patterns is not None:
            digits = self._meant[digits.view(np.uint16) if self._raw is np.int16 else digits]
        else:
            with np.errstate(invalid="ignore"):  # what is there may be no number
                digits = digits.astype(np.int64) & self._mask
        return digits

    def _words(self, codes: _Array, exact: _Array) -> str:
        """What the rows of one slot hold, of which some are not what they should be."""
        tags: dict[str, list[str]] = {}
        for (kind_and_layer, head), code in np.ndenumerate(codes):
            kind, layer = divmod(kind_and_layer, self._layers)
            tag, place = divmod(int(code), self._per_tag)
            if code == 0 and exact[kind_and_layer, head]:
                what = "nothing was stored"
            elif not exact[kind_and_layer, head] or tag == 0:
                what = "no tag"
            else:
                what = f"tag {tag - 1}"
                if place != self._places[kind_and_layer, 0, head]:
                    what += f" of {self._place(place)}"
            tags.setdefault(what, []).append(f"{'KV'[kind]} of layer {layer}, head {head}")
        if len(tags) == 1:
            return next(iter(tags))
        return "; ".join(f"{what} in {', '.join(where)}" for what, where in tags.items())

    def _place(self, place: int) -> str:
        kind_and_layer, head = divmod(place, self._places.shape[2])
        kind, layer = divmod(kind_and_layer, self._layers)
        return f"{'KV'[kind]}, layer {layer}, head {head}"

    def _numpy(self, view: torch.Tensor) -> _Array:
        array: _Array = view.view(_torch_type(self._raw)).numpy()
        return array


def _torch_type(raw: type[Any]) -> torch.dtype:
    return {
        np.uint8: torch.uint8, np.int16: torch.int16,
        np.float32: torch.float32, np.float64: torch.float64,
    }[raw]  # fmt: skip
