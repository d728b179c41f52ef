"""What the tensor strategies draw is what the suite means."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvstrategies.tensors import (
    DTYPES,
    FORMS,
    make_indices,
    make_rows,
    page_moves,
    pool_shapes,
    random_bits,
    rows_to_store,
)
from tests.storage.properties import examples
from tests.storage.targets import INTERPRETED

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing of this is a kernel")


@pytest.mark.parametrize("form", FORMS)
def test_a_form_has_its_strides(form):
    strides = {
        "contiguous": (10, 5, 1),
        "slice of a fused qkv": (40, 5, 1),
        "heads first": (5, 15, 1),
        "dims before heads": (10, 1, 2),
        "every other row": (20, 5, 1),
        "gaps between heads": (12, 6, 1),
        "one element off": (10, 5, 1),
        "one row for all": (0, 5, 1),
        "one head for all": (5, 0, 1),
        "one element for all": (2, 1, 0),
    }
    rows = make_rows(form, 3, 2, 5, torch.float16, 1)
    assert rows.shape == (3, 2, 5)
    assert rows.stride() == strides[form]
    assert (rows.storage_offset() % 2 == 1) == (form == "one element off")


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="'diagonal'"):
        make_rows("diagonal", 1, 1, 1, torch.int8, 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_hold_what_arithmetic_would_change(dtype):
    values = random_bits((2000,), dtype, 3)
    assert torch.equal(values.view(torch.uint8), random_bits((2000,), dtype, 3).view(torch.uint8))
    if dtype.is_floating_point:
        wide = values.to(torch.float64)
        assert wide.isnan().any()
        assert (wide == 0).any()
        assert dtype is torch.float8_e4m3fn or wide.isinf().any()
        tiny = torch.finfo(dtype).smallest_normal
        assert ((wide != 0) & (wide.abs() < tiny)).any(), "no denormal"


def test_indices_keep_their_values_at_any_stride():
    assert make_indices((), torch.int32, 2).shape == (0,)
    indices = make_indices((3, -1, 5), torch.int32, 2)
    assert indices.tolist() == [3, -1, 5]
    assert indices.stride() == (2,)


@examples(100)
@given(data=st.data())
def test_no_draw_asks_for_what_is_undefined(data):
    """No slot is stored to twice; no page is moved twice, or is a source and a destination."""
    shape = data.draw(pool_shapes())
    rows = data.draw(rows_to_store(shape, outside=True))
    inside = [slot for slot in rows.slots if 0 <= slot < shape.num_slots]
    assert len(set(inside)) == len(inside)
    assert 0 <= rows.layer < shape.num_layers
    pages = range(shape.num_pages)
    moved = [
        (src, dst)
        for src, dst in data.draw(page_moves(shape, outside=True)).pairs
        if src in pages and dst in pages
    ]
    targets = [dst for _, dst in moved]
    assert len(set(targets)) == len(targets)
    assert not {src for src, _ in moved} & set(targets)
