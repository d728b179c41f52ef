"""The one place that checks tensor arguments, so that every refusal reads alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeGuard

import torch

from kvgpu.errors import InvalidType, InvalidValue

_CPU = torch.device("cpu")


def describe(value: object) -> str:
    """What an argument was, in a few words: never its content, which may be a user's text."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} tensor of shape {tuple(value.shape)} on {value.device}"
    return f"{type(value).__name__}"


def require_tensor(
    argument: str,
    value: Any,
    *,
    dtypes: Collection[torch.dtype],
    shape: Sequence[int | None],
    devices: Collection[torch.device] = (_CPU,),
) -> TypeGuard[torch.Tensor]:
    """Refuse what is not a tensor of one of `dtypes` and `devices` and of `shape`.

    A None in `shape` fits any length. Raises InvalidType for a wrong type or dtype,
    InvalidValue for a wrong shape or device.
    """
    if not isinstance(value, torch.Tensor):
        raise InvalidType(argument, describe(value), "a torch.Tensor")
    if value.dtype not in dtypes:
        raise InvalidType(argument, describe(value), " or ".join(map(str, dtypes)))
    if len(value.shape) != len(shape) or any(
        want is not None and want != have for want, have in zip(shape, value.shape, strict=True)
    ):
        wanted = ", ".join("n" if want is None else str(want) for want in shape)
        raise InvalidValue(argument, describe(value), f"shape [{wanted}]")
    if value.device not in devices:
        raise InvalidValue(argument, describe(value), " or ".join(map(str, devices)))
    return True


def require_size(argument: str, value: Any, *, minimum: int) -> int:
    """Refuse what is not an int (a bool is not one) of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidType(argument, describe(value), "an int")
    if value < minimum:
        raise InvalidValue(argument, str(value), f"at least {minimum}")
    return value
