"""What a caller's thread takes of one call: copies of its buffers, and what came back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvref.answers import Answer, Raised, Returned
from kvref.listener import answer_in_words
from kvref.operations import Carried, Evict, Insert, Match, Operation
from kvref.recording.trace_file import Taken

__all__ = ["Copy", "RecordedCall", "evict_operation", "insert_operation", "match_operation"]


class Copy:
    """What a tensor held, on its way to the host.

    Args:
        tensor: 1-D, of integers. Read now, or by its device's current stream in its turn; the
            caller may overwrite or free it, which the same stream does later.

    Attributes:
        num_bytes: that wait in it.
        carried: how the tensor would carry tokens; None if it would not.
    """

    __slots__ = ("_data", "_dtype", "_event", "_host", "carried", "num_bytes")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.carried: Carried | None = None
        self._data: bytes | None = None
        if tensor.is_cpu:
            # Through numpy, which takes a third of the time of a clone.
            array = tensor.numpy()
            self._data, self._dtype = array.tobytes(), array.dtype
            self.num_bytes = len(self._data)
            strided = array.strides[0] != array.itemsize and len(array) > 1
            self.carried = _CARRIED.get((array.dtype, strided))
        else:
            # Nothing waits here: the writer waits for the event.
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            with torch.cuda.device(tensor.device):
                self._host.copy_(tensor.detach(), non_blocking=True)
                self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._event.record()
            self._dtype = self._host.numpy().dtype
            self.num_bytes = tensor.numel() * tensor.element_size()

    def values(self) -> list[int]:
        """As ints; waits for the device."""
        values: list[int] = self._array().tolist()
        return values

    def as_bytes(self) -> bytes:
        """As int64 in the machine's byte order; waits for the device."""
        return self._array().astype(np.int64, copy=False).tobytes()

    def _array(self) -> npt.NDArray[Any]:
        if self._data is None:
            self._event.synchronize()
            return self._host.numpy()
        return np.frombuffer(self._data, self._dtype)


_CARRIED: dict[tuple[Any, bool], Carried] = {
    (np.dtype(np.int64), False): "int64",
    (np.dtype(np.int64), True): "int64-strided",
    (np.dtype(np.int32), False): "int32",
    (np.dtype(np.int32), True): "int32-strided",
}


class RecordedCall:
    """One call in the queue, which owns the copies.

    Args:
        operation: without its tokens and slots, which `taken` puts in.
        came_back: None, a number, or the slots; `cached_len` is that of a match's handle.
        error: the class of the exception that came instead.
    """

    __slots__ = ("_cached_len", "_came_back", "_error", "_operation", "_slots", "_tokens")

    def __init__(
        self,
        operation: Operation,
        came_back: Copy | int | None,
        *,
        cached_len: int | None = None,
        error: str | None = None,
        tokens: Copy | None = None,
        slots: Copy | None = None,
    ) -> None:
        self._operation, self._came_back, self._cached_len = operation, came_back, cached_len
        self._error, self._tokens, self._slots = error, tokens, slots

    @property
    def num_bytes(self) -> int:
        """Of the copies."""
        copies: tuple[Any, ...] = (self._tokens, self._slots, self._came_back)
        return sum(each.num_bytes for each in copies if type(each) is Copy)

    def taken(self) -> Taken:
        """Read the copies; waits for those that are on their way from a device."""
        operation = self._operation
        if isinstance(operation, Insert) and self._slots is not None:
            slots = tuple(self._slots.values())
            operation = Insert((), slots, operation.namespace, operation.carried)
        data = b"" if self._tokens is None else self._tokens.as_bytes()
        return Taken(operation, answer_in_words(operation, self._answer()), data)

    def _answer(self) -> Answer:
        if self._error is not None:
            # The class alone: the text of an error may quote what the call was given.
            return Raised(None, [], self._error, "", {})
        value = self._came_back
        return Returned(value.values() if isinstance(value, Copy) else value, self._cached_len)


def match_operation(tokens: Copy | None, keywords: dict[str, Any]) -> Match | None:
    """The operation; None if no trace has words for it."""
    if tokens is None or tokens.carried is None:
        return None
    if not keywords:
        return Match((), None, tokens.carried)
    if not _only_a_namespace(keywords):
        return None
    return Match((), keywords["namespace"], tokens.carried)


def insert_operation(
    tokens: Copy | None, slots: Copy | None, keywords: dict[str, Any]
) -> Insert | None:
    """The operation; None if no trace has words for it."""
    if tokens is None or tokens.carried is None or slots is None:
        return None
    if keywords and not _only_a_namespace(keywords):
        return None
    return Insert((), (), keywords.get("namespace"), tokens.carried)


def _only_a_namespace(keywords: dict[str, Any]) -> bool:
    namespace = keywords.get("namespace", 0)
    return len(keywords) == 1 and (namespace is None or isinstance(namespace, str))


def evict_operation(size: Any) -> Evict | None:
    """The operation; None where JSON has no such number."""
    if size is None or type(size) is bool:
        return Evict(size)
    if type(size) in (int, float) and abs(size) < 2**63:  # and neither NaN nor infinite
        return Evict(size)
    return None
