"""Strategies for the storage of K and V: shapes, rows of any bits and strides, slots.

They draw plain values; `make_rows` and `make_indices` turn them into tensors. Tests build the
caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

__all__ = [
    "DTYPES",
    "FORMS",
    "PageMoves",
    "PoolShape",
    "RowsToStore",
    "make_indices",
    "make_rows",
    "page_moves",
    "pool_shapes",
    "random_bits",
    "rows_to_store",
    "slot_lists",
]

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int8,
    torch.uint8,
    torch.float64,
)
INDEX_DTYPES = (torch.int32, torch.int64)

# Quiet and signalling NaN with a payload, infinity, minus zero, a denormal: what a copy through
# arithmetic would change. Plain integers stand for themselves.
_SPECIAL_BITS = {
    torch.float64: (0x7FF8_0000_0000_0123, 0x7FF0_0000_0000_0123, 0x7FF0 << 48, -1 << 63, 5),
    torch.float32: (0x7FC0_0123, 0x7F80_0123, 0x7F80_0000, -1 << 31, 5),
    torch.float16: (0x7E12, 0x7C12, 0x7C00, -1 << 15, 5),
    torch.bfloat16: (0x7FD2, 0x7F92, 0x7F80, -1 << 15, 5),
    torch.float8_e4m3fn: (0x7F, -1, 0x7E, -1 << 7, 5),
    torch.float8_e5m2: (0x7E, 0x7D, 0x7C, -1 << 7, 1),
}
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

FORMS = (
    "contiguous",
    "slice of a fused qkv",
    "heads first",
    "dims before heads",
    "every other row",
    "gaps between heads",
    "one element off",
    "one row for all",
    "one head for all",
    "one element for all",
)
"""How rows `[n, heads, dim]` can lie in memory; the last three have a stride of 0."""


def random_bits(shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """A contiguous tensor on the CPU; a quarter of a float's elements are special values."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.Size(shape)
    octets = torch.randint(
        0, 256, (size.numel() * dtype.itemsize,), dtype=torch.uint8, generator=generator
    )
    bits = octets.view(_BITS[dtype.itemsize])
    if dtype in _SPECIAL_BITS:
        special = torch.tensor(_SPECIAL_BITS[dtype], dtype=torch.int64).to(bits.dtype)
        which = torch.randint(0, 4 * len(special), bits.shape, generator=generator)
        bits = torch.where(which < len(special), special[which % len(special)], bits)
    return bits.view(dtype).view(size)


def make_rows(
    form: str, n: int, heads: int, dim: int, dtype: torch.dtype, seed: int, device: str = "cpu"
) -> torch.Tensor:
    """`[n, heads, dim]` in one of `FORMS`, with `random_bits`, on `device`."""

    def bits(*shape: int) -> torch.Tensor:
        return random_bits(shape, dtype, seed).to(device)

    if form == "contiguous":
        return bits(n, heads, dim)
    if form == "slice of a fused qkv":
        row = heads * dim
        return bits(n, 4 * row)[:, 2 * row : 3 * row].view(n, heads, dim)
    if form == "heads first":
        return bits(heads, n, dim).transpose(0, 1)
    if form == "dims before heads":
        return bits(n, dim, heads).transpose(1, 2)
    if form == "every other row":
        return bits(2 * n, heads, dim)[::2]
    if form == "gaps between heads":
        return bits(n, heads, dim + 1)[..., :dim]
    if form == "one element off":
        return bits(n * heads * dim + 1)[1:].view(n, heads, dim)
    if form == "one row for all":
        return bits(1, heads, dim).expand(n, heads, dim)
    if form == "one head for all":
        return bits(n, 1, dim).expand(n, heads, dim)
    if form == "one element for all":
        return bits(n, heads, 1).expand(n, heads, dim)
    raise ValueError(f"form: got {form!r}, expected one of {FORMS}")


def make_indices(
    values: Sequence[int], dtype: torch.dtype, step: int = 1, device: str = "cpu"
) -> torch.Tensor:
    """`[len(values)]` on `device`; with a step above 1, a view with that stride."""
    spread = torch.full((len(values) * step,), 0, dtype=dtype)
    spread[::step] = torch.tensor(values, dtype=dtype)
    return spread.to(device)[::step]


@dataclass(frozen=True)
class PoolShape:
    """What a cache is made of; `page_first` names the layout."""

    num_layers: int
    num_pages: int
    page_size: int
    heads: int
    dim: int
    dtype: torch.dtype
    page_first: bool

    @property
    def num_slots(self) -> int:
        """Pages times page size."""
        return self.num_pages * self.page_size


@dataclass(frozen=True)
class RowsToStore:
    """One call of `store_kv`; `slots` has an entry for each row."""

    slots: tuple[int, ...]
    layer: int
    k_form: str
    v_form: str
    index_dtype: torch.dtype
    index_step: int
    seed: int


@dataclass(frozen=True)
class PageMoves:
    """One call of `copy_pages`: pairs of pages, no destination twice or also a source."""

    pairs: tuple[tuple[int, int], ...]
    src_dtype: torch.dtype
    dst_dtype: torch.dtype
    index_step: int


def pool_shapes() -> st.SearchStrategy[PoolShape]:
    """Small and odd; now and then with the heads and dims of real LLMs."""
    return st.builds(
        PoolShape,
        num_layers=st.integers(1, 3),
        num_pages=st.integers(1, 5),
        page_size=st.sampled_from([1, 2, 3, 16]),
        heads=st.sampled_from([1, 2, 3, 4, 8]),
        dim=st.sampled_from([1, 2, 3, 5, 8, 16, 17, 24, 64, 80]),
        dtype=st.sampled_from(DTYPES),
        page_first=st.booleans(),
    )


@st.composite
def slot_lists(
    draw: st.DrawFn,
    num_slots: int,
    *,
    distinct: bool,
    outside: bool,
    max_size: int = 20,
) -> tuple[int, ...]:
    """Slots of `0 .. num_slots - 1`, padding among them (-3 to -1).

    Args:
        distinct: no slot twice (padding any number of times).
        outside: also slots just past the end, where whoever stores skips them.
    """
    inside = st.lists(
        st.integers(0, num_slots - 1), unique=distinct, max_size=min(max_size, num_slots)
    )
    slots = draw(inside)
    skipped = st.integers(-3, -1)
    if outside:
        skipped |= st.integers(num_slots, num_slots + 2)
    for value in draw(st.lists(skipped, max_size=4)):
        slots.insert(draw(st.integers(0, len(slots))), value)
    return tuple(slots)


@st.composite
def rows_to_store(draw: st.DrawFn, shape: PoolShape, *, outside: bool = False) -> RowsToStore:
    """Rows for a pool of this shape, no slot twice."""
    return RowsToStore(
        slots=draw(slot_lists(shape.num_slots, distinct=True, outside=outside)),
        layer=draw(st.integers(0, shape.num_layers - 1)),
        k_form=draw(st.sampled_from(FORMS)),
        v_form=draw(st.sampled_from(FORMS)),
        index_dtype=draw(st.sampled_from(INDEX_DTYPES)),
        index_step=draw(st.integers(1, 2)),
        seed=draw(st.integers(0, 2**16)),
    )


@st.composite
def page_moves(draw: st.DrawFn, shape: PoolShape, *, outside: bool = False) -> PageMoves:
    """Moves for a pool of this shape; some pairs are padding."""
    order = draw(st.permutations(range(shape.num_pages)))
    cut = draw(st.integers(0, shape.num_pages))
    sources, targets = order[:cut], order[cut:]
    pairs = [(draw(st.sampled_from(sources)), target) for target in targets if sources]
    skipped = st.integers(-3, -1)
    if outside:
        skipped |= st.integers(shape.num_pages, shape.num_pages + 2)
    for value in draw(st.lists(skipped, max_size=3)):
        # The other half of such a pair is a page that nothing else touches, or none.
        other = draw(st.integers(0, shape.num_pages - 1))
        pair = draw(st.sampled_from([(value, other), (other, value), (value, value)]))
        pairs.insert(draw(st.integers(0, len(pairs))), pair)
    return PageMoves(
        pairs=tuple(pairs),
        src_dtype=draw(st.sampled_from(INDEX_DTYPES)),
        dst_dtype=draw(st.sampled_from(INDEX_DTYPES)),
        index_step=draw(st.integers(1, 2)),
    )
