"""How requests, their manager and the pool of K and V are built for one run."""

from __future__ import annotations

from typing import Literal

from kvref.configuration import Configuration

__all__ = ["DType", "Layout", "RequestConfiguration"]

DType = Literal["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8"]
Layout = Literal["LayerFirst", "PageFirst"]


class RequestConfiguration(Configuration, frozen=True, kw_only=True):
    """The arguments that a factory of requests is called with: those of the manager, and these.

    `max_requests` may run at a time, none of more than `max_len` tokens (the pool's slots by
    default). The rest says what K and V look like; a target that keeps none ignores it.
    """

    max_requests: int = 4
    max_len: int | None = None
    layers: int = 1
    kv_heads: int = 1
    head_dim: int = 8
    dtype: DType = "float32"
    layout: Layout = "LayerFirst"

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = {
            "max_requests": self.max_requests,
            "max_len": self.longest,
            "layers": self.layers,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")

    @property
    def digit_bits(self) -> int:
        """The bits of the integers that the dtype holds exactly, from 0 on."""
        exact = {"float32": 24, "float16": 11, "bfloat16": 8, "int8": 7, "uint8": 7}
        return exact.get(self.dtype, 3)  # fp8

    @property
    def digits(self) -> int:
        """How many such integers of a row of K or V make a number, which the row repeats."""
        return min(self.head_dim, 62 // self.digit_bits)

    @property
    def tag_bits(self) -> int:
        """The bits of the tags that a row of K or V can name, beside whose row it is."""
        rows = 2 * self.layers * self.kv_heads
        return self.digit_bits * self.digits - rows.bit_length() - 1

    @property
    def longest(self) -> int:
        """The longest request, in tokens."""
        return self.num_slots if self.max_len is None else self.max_len
