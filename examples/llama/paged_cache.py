"""A cache of `transformers` whose K and V live in the pages of a `kvgpu` storage."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from kvgpu import MHAKVCache

__all__ = ["PagedCache"]


class PagedCache(Cache):
    """What one forward of one sequence sees of the storage, for all layers.

    `transformers` hands each layer's new K and V to `update` and attends to what that returns.
    Here they go to the slots `out_loc`, and what comes back is read from `slots`: also the new
    ones, so that attention sees nothing but what the pages hold.

    Args:
        kv_cache: where K and V live.
        slots: `[kv_length]`, int32, the storage's device: the slot of each token that may be
            attended to, in order. Where it is negative, K and V are zeros: padding.
        out_loc: `[query_length]`, int32, the storage's device: the slot of each token of the
            forward. Where it is negative nothing is written: padding.
        past: how many of `slots` come before the first token of the forward.
    """

    def __init__(
        self, kv_cache: MHAKVCache, slots: torch.Tensor, out_loc: torch.Tensor, past: int
    ) -> None:
        super().__init__(
            layers=[
                _PagedLayer(kv_cache, layer, slots, out_loc, past)
                for layer in range(kv_cache.num_layers)
            ]
        )


class _PagedLayer(CacheLayerMixin):
    def __init__(
        self,
        kv_cache: MHAKVCache,
        layer: int,
        slots: torch.Tensor,
        out_loc: torch.Tensor,
        past: int,
    ) -> None:
        super().__init__()
        self._kv_cache = kv_cache
        self._layer = layer
        self._slots = slots
        self._out_loc = out_loc
        self._past = past

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # transformers: [batch, heads, tokens, dim]. The storage: [tokens, heads, dim], any strides.
        self._kv_cache.store_kv(
            key_states[0].transpose(0, 1),
            value_states[0].transpose(0, 1),
            self._out_loc,
            self._layer,
        )
        k, v = self._kv_cache.load_kv(self._slots, self._layer)
        return k.transpose(0, 1)[None], v.transpose(0, 1)[None]

    def get_seq_length(self) -> int:
        return self._past

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._slots.shape[0], 0

    def get_max_length(self) -> int:
        return -1

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the storage was there before."""
