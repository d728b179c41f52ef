"""Bridges any manager of the torch interface: tensors in and out, handles, `size_info`.

A fork's manager is put under test by a factory that wraps it:

    def mine(configuration):
        return TorchTarget(lambda: MyRadixCache("cpu", page_size=configuration.page_size))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvref.buffers import overwritten
from kvref.operations import Carried

__all__ = ["JUNK", "TorchTarget", "carry"]

JUNK = -(2**31) + 7
"""What buffers are overwritten with once they were passed: no token or slot of any program."""


_CARRIED: dict[Carried, tuple[type[np.signedinteger[Any]], bool]] = {
    "int64": (np.int64, False),
    "int32": (np.int32, False),
    "int64-strided": (np.int64, True),
    "int32-strided": (np.int32, True),
}


class TorchTarget:
    """A manager of the torch interface as a `kvref.target.Target`.

    Args:
        make: builds the manager, and a second one when a foreign handle is called for.
        page_size: of the manager.
        namespaces: whether its methods take the keyword `namespace`.
        index_dtype: of the index tensors, those passed to an insert and those that come back.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        page_size: int = 1,
        namespaces: bool = True,
        index_dtype: torch.dtype = torch.int32,
    ) -> None:
        self.manager = make()
        self._make = make
        self._page_size = page_size
        self._namespaces = namespaces
        self._index_dtype = index_dtype
        self._numpy_dtype = np.int64 if index_dtype == torch.int64 else np.int32
        self._other: Any = None
        self._overwrites = overwritten()

    def match_prefix(
        self,
        tokens: Sequence[int],
        *,
        namespace: str | None = None,
        carried: Carried = "int64",
    ) -> tuple[Any, list[int]]:
        """The handle, and the slots as a list; the tensors are overwritten afterwards."""
        buffer, input_ids = carry(tokens, carried)
        if self._namespaces:
            handle, indices = self.manager.match_prefix(input_ids, namespace=namespace)
        else:
            handle, indices = self.manager.match_prefix(input_ids)
        if self._overwrites:
            buffer.fill(JUNK)
        return handle, self._read(indices)

    def insert_prefix(
        self,
        tokens: Sequence[int],
        slots: Sequence[int],
        *,
        namespace: str | None = None,
        carried: Carried = "int64",
    ) -> int:
        """How much was cached already; the tensors are overwritten afterwards."""
        buffer, input_ids = carry(tokens, carried)
        places = np.array(slots, dtype=self._numpy_dtype)
        indices = torch.from_numpy(places)
        already: int
        if self._namespaces:
            already = self.manager.insert_prefix(input_ids, indices, namespace=namespace)
        else:
            already = self.manager.insert_prefix(input_ids, indices)
        if self._overwrites:
            buffer.fill(JUNK)
            places.fill(JUNK)
        return already

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        """Lock, or give a lock back."""
        self.manager.lock_handle(handle, unlock=unlock)

    def evict(self, size: Any) -> list[int]:
        """The victims' slots."""
        return self._read(self.manager.evict(size))

    def reset(self) -> list[int]:
        """All slots."""
        return self._read(self.manager.reset())

    def sizes(self) -> tuple[int, int]:
        """Evictable and protected size."""
        evictable, protected = self.manager.size_info
        return evictable, protected

    def check_integrity(self) -> None:
        """The manager's own check."""
        self.manager.check_integrity()

    def foreign_handle(self) -> Any:
        """A handle of one page cached in a second manager."""
        if self._other is None:
            self._other = self._make()
            page = torch.arange(self._page_size)
            self._other.insert_prefix(page, page.to(self._index_dtype))
        return self._other.match_prefix(torch.arange(self._page_size))[0]

    def _read(self, indices: torch.Tensor) -> list[int]:
        """The values, and then others in the caller's tensor: it must be the caller's own."""
        dtype = self._index_dtype
        if indices.dtype != dtype or indices.dim() != 1:
            raise WrongTensor(
                f"a {indices.dtype} tensor of {indices.dim()} dimensions came back, where {dtype} "
                "and one dimension are due"
            )
        if not indices.numel():
            return []
        values: list[int]
        if indices.is_cpu:  # through numpy, which is the faster side
            array = indices.numpy()
            values = array.tolist()
            if self._overwrites:
                array.fill(JUNK)
        else:
            values = indices.tolist()
            if self._overwrites:
                indices.fill_(JUNK)
        return values


def carry(tokens: Sequence[int], carried: Carried) -> tuple[npt.NDArray[Any], torch.Tensor]:
    """The tokens as a tensor, and the buffer that it is a view of (numpy is the faster side)."""
    dtype, strided = _CARRIED[carried]
    if not strided:
        buffer = np.array(tokens, dtype=dtype)
        return buffer, torch.from_numpy(buffer)
    buffer = np.empty(2 * len(tokens), dtype=dtype)
    buffer.fill(JUNK)  # half the time of `np.full`
    buffer[::2] = tokens
    return buffer, torch.from_numpy(buffer[::2])


class WrongTensor(Exception):
    """What came back is no index tensor as the interface has it."""
