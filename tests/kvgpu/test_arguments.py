"""The checks of tensor arguments that the managers do not reach by themselves."""

from __future__ import annotations

import pytest
import torch

from kvgpu import InvalidType, InvalidValue
from kvgpu._arguments import require_tensor

FLOATS = {"dtypes": (torch.float32, torch.float16), "shape": (None, 2)}


def test_a_tensor_of_the_wanted_kind_is_accepted():
    assert require_tensor("k", torch.zeros(3, 2), **FLOATS)
    assert require_tensor("k", torch.zeros(0, 2, dtype=torch.float16), **FLOATS)


@pytest.mark.parametrize(
    ("value", "error", "got", "expected"),
    [
        (None, InvalidType, "NoneType", "a torch.Tensor"),
        (
            torch.zeros(3, 2, dtype=torch.int32),
            InvalidType,
            "torch.int32 tensor of shape (3, 2) on cpu",
            "torch.float32 or torch.float16",
        ),
        (
            torch.zeros(3, 3),
            InvalidValue,
            "torch.float32 tensor of shape (3, 3) on cpu",
            "shape [n, 2]",
        ),
        (
            torch.zeros(3),
            InvalidValue,
            "torch.float32 tensor of shape (3,) on cpu",
            "shape [n, 2]",
        ),
        (
            torch.zeros(3, 2, device="meta"),
            InvalidValue,
            "torch.float32 tensor of shape (3, 2) on meta",
            "cpu",
        ),
    ],
)
def test_any_other_is_refused_in_words_that_do_not_show_its_content(value, error, got, expected):
    with pytest.raises(error) as caught:
        require_tensor("k", value, **FLOATS)
    fields = (caught.value.argument, caught.value.got, caught.value.expected)
    assert fields == ("k", got, expected)
