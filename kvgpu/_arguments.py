"""The one place that checks tensor arguments, so that every refusal reads alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import index
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import torch

from kvgpu.base import BaseCacheHandle
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
    InvalidValue for a wrong shape, device or layout.
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
    if value.layout != torch.strided:
        raise InvalidValue(argument, f"{describe(value)}, {value.layout}", "a dense tensor")
    return True


def require_size(argument: str, value: Any, *, minimum: int) -> int:
    """Refuse what is not an int (a bool is not one) of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidType(argument, describe(value), "an int")
    if value < minimum:
        raise InvalidValue(argument, str(value), f"at least {minimum}")
    return value


TOKENS = (torch.int64, torch.int32)
"""The dtypes of `input_ids`."""
INDICES = (torch.int32,)
"""The dtypes of `indices`."""


def require_vector(
    argument: str,
    value: Any,
    dtypes: tuple[torch.dtype, ...],
    devices: tuple[torch.device, ...] = (_CPU,),
) -> None:
    """`require_tensor` for shape [n], at about a microsecond where all is well.

    `devices` always has the CPU, for which torch has a cheaper question.
    """
    if (
        not isinstance(value, torch.Tensor)
        or value.dtype not in dtypes
        or value.dim() != 1
        or not (value.is_cpu or value.device in devices)
        or value.layout != torch.strided
    ):
        require_tensor(argument, value, dtypes=dtypes, shape=(None,), devices=devices)


def require_same_length(
    argument: str, value: torch.Tensor, other_argument: str, other: torch.Tensor
) -> None:
    """Refuse two vectors of different lengths."""
    if value.numel() != other.numel():  # as `len` of a vector, at a sixth of the time
        raise InvalidValue(argument, f"length {len(value)}", f"{len(other)}, as {other_argument}")


def token_bytes(input_ids: torch.Tensor, page_size: int) -> bytes:
    """The whole pages of `input_ids` (checked before) as int64 in the machine's byte order."""
    tokens = input_ids.numpy()
    rest = len(tokens) % page_size
    if rest:
        tokens = tokens[:-rest]
    # Equal values match whatever the dtype that carried them. A copy in any case.
    return tokens.astype(np.int64, copy=False).tobytes()


def token_array(argument: str, value: Any) -> npt.NDArray[np.int64]:
    """Token ids in any form in which a caller has them: `[n]`, int64, read only.

    Args:
        argument: its name, for a refusal.
        value: `[n]`, a tensor on the CPU, int32 or int64, of any stride; an array of signed
            integers; or ints. The result may share its memory.

    Raises:
        InvalidType: something else.
        InvalidValue: not 1-D, not on the CPU, an int that no int64 can hold.
    """
    if isinstance(value, torch.Tensor):
        require_vector(argument, value, TOKENS)
        value = value.numpy()
    elif not isinstance(value, np.ndarray):
        try:
            value = np.array(ints_of(argument, value, "token ids"), dtype=np.int64)
        except OverflowError:
            raise InvalidValue(argument, "an int beyond 64 bits", "token ids") from None
    if value.dtype.kind != "i":
        raise InvalidType(argument, f"an array of {value.dtype}", "signed integers")
    if value.ndim != 1:
        raise InvalidValue(argument, f"an array of shape {value.shape}", "shape [n]")
    tokens: npt.NDArray[np.int64] = value.astype(np.int64, copy=False)
    return tokens


def ints_of(argument: str, value: Any, what: str) -> list[int]:
    """The ints of any iterable, a new list; a bool is none. InvalidType names the place."""
    try:
        items = list(value)
    except TypeError:
        raise InvalidType(argument, describe(value), what) from None
    for position, item in enumerate(items):
        if type(item) is not int:
            try:
                items[position] = index(_no_bool(item))
            except TypeError:
                got = f"{describe(item)} at position {position}"
                raise InvalidType(argument, got, what) from None
    return items


def _no_bool(item: Any) -> Any:
    return None if isinstance(item, bool) else item


def require_namespace(value: Any) -> None:
    """Refuse what is neither a str nor None."""
    if value is not None and not isinstance(value, str):
        raise InvalidType("namespace", describe(value), "a str or None")


def require_handle(value: Any) -> None:
    """Refuse what is not a handle of any manager."""
    if not isinstance(value, BaseCacheHandle):
        raise InvalidType("handle", describe(value), "a BaseCacheHandle")


def require_device(value: Any) -> torch.device:
    """Refuse what does not name a device; whether the machine has it is not asked."""
    if not isinstance(value, (torch.device, str)):
        raise InvalidType("device", describe(value), "a torch.device or its name")
    try:
        return torch.device(value)
    except RuntimeError as error:
        raise InvalidValue("device", repr(value), "the name of a torch.device") from error
