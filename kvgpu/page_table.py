"""Which pages each running request has: on the host, and a copy of it on the device.

The host's rows are the truth. What changed in them since the last step goes to the device with
the other input of a step, in one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kvgpu._arguments import require_device, require_size
from kvgpu.errors import InvalidValue
from kvgpu.radix_node import IntArray

__all__ = ["PageTable", "StepInput"]

_MAX_ENTRIES = 2**31 - 1  # an entry is named by one int32


class StepInput(NamedTuple):
    """What the kernels of one step need to know of its batch; int32, on the table's device.

    All but the table are views of one buffer of this step, which is the caller's.
    """

    page_table: torch.Tensor
    """`[max_requests, max_pages]`: page numbers, a row for each request; the persistent table,
    the same tensor at each step. Read only. Entries beyond a request's pages, and whole rows of
    nobody, hold anything that was a page number once, or 0."""
    rows: torch.Tensor
    """`[b]`: the row of each request of the batch."""
    seq_lens: torch.Tensor
    """`[b]`: tokens of each that have slots."""
    out_loc: torch.Tensor
    """`[n]`: the slots that `store_kv` has to write, one request's after the other's."""


class PageTable:
    """Rows of page numbers, and what of them the device has not seen yet.

    Not locked: whoever owns it calls one method at a time.

    Attributes:
        host: `[max_requests, max_pages]`, int32, on the host.
        device_table: the same on the device, as it was at the last upload.
    """

    def __init__(
        self, max_requests: int, max_len: int, page_size: int, device: torch.device | str
    ) -> None:
        """Make a table of free rows.

        Args:
            max_requests: rows.
            max_len: tokens of a row, rounded up to whole pages.
            page_size: slots of a page.
            device: where the copy lives.

        Raises:
            InvalidType, InvalidValue: sizes below 1, not a device, or more entries than an
                int32 can name.
        """
        self.max_requests = require_size("max_requests", max_requests, minimum=1)
        self.page_size = require_size("page_size", page_size, minimum=1)
        self.max_pages = -(-require_size("max_len", max_len, minimum=1) // page_size)
        if max_requests * self.max_pages > _MAX_ENTRIES:
            got = f"{max_requests} rows of {self.max_pages} pages"
            raise InvalidValue("max_requests", got, f"at most {_MAX_ENTRIES} entries")
        self.host: IntArray = np.zeros((max_requests, self.max_pages), dtype=np.int32)
        # What was made in inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            self.device_table = torch.zeros(
                self.host.shape, dtype=torch.int32, device=require_device(device)
            )
        self._offsets = np.arange(page_size, dtype=np.int32)
        self._flat_host = self.host.reshape(-1)
        self._flat_device = self.device_table.view(-1)
        self._pins = self.device_table.device.type == "cuda"
        self._free_rows = list(range(max_requests - 1, -1, -1))
        # For each row that changed, the range of its entries from the first change to the last.
        # So no entry is named twice, and who never uploads keeps no growing list.
        self._changed: dict[int, tuple[int, int]] = {}

    @property
    def free_rows(self) -> list[int]:
        """The rows of nobody, in no promised order; a new list."""
        return self._free_rows.copy()

    @property
    def num_free_rows(self) -> int:
        """How many requests more it can hold."""
        return len(self._free_rows)

    def take_row(self) -> int:
        """A free row, the caller's until it is given back. There is one: ask first."""
        return self._free_rows.pop()

    def give_back_row(self, row: int) -> None:
        """Nobody's from now on; what it holds need not reach the device any more."""
        self._changed.pop(row, None)
        self._free_rows.append(row)

    def write(self, row: int, start: int, pages: IntArray) -> None:
        """Put `pages` (`[n]`, int32, copied) into a row from entry `start` on. Cannot fail."""
        stop = start + len(pages)
        if stop == start:
            return
        self.host[row, start:stop] = pages
        first, last = self._changed.get(row, (start, stop))
        self._changed[row] = (min(first, start), max(last, stop))

    def slots(self, row: int, start: int, stop: int) -> IntArray:
        """The slots of tokens `start` to `stop` of a row: `[stop - start]`, int32, a new array."""
        pages, size = self.host[row], self.page_size
        slots: IntArray
        if size == 1:
            slots = pages[start:stop].copy()
            return slots
        first = start // size  # the page, all of whose slots are made before some are left out
        slots = pages[first : -(-stop // size), None] * size + self._offsets
        slots = slots.reshape(-1)[start - first * size : stop - first * size]
        return slots

    def upload(self, rows: Sequence[int], starts: Sequence[int], stops: Sequence[int]) -> StepInput:
        """Bring the device up to date, and send it the input of a step, in one copy.

        On a GPU: from pinned memory, on the current stream, and nothing waits. If it fails,
        the next upload brings what this one should have.

        Args:
            rows: `b` rows in use.
            starts, stops: for each of them the tokens whose slots go to `out_loc`; `stops` is
                also `seq_lens`.
        """
        entries = self._changed_entries()
        row, start, stop = np.array((rows, starts, stops), dtype=np.int64)
        counts = stop - start
        positions = _spread(start, counts)
        pages = self.host[row.repeat(counts), positions // self.page_size]
        out_loc = pages * self.page_size + positions % self.page_size
        parts = (entries, self._flat_host[entries], row, stop, out_loc)
        sizes = [len(part) for part in parts]
        staging = torch.empty(sum(sizes), dtype=torch.int32, pin_memory=self._pins)
        np.concatenate(parts, out=staging.numpy(), casting="same_kind")
        where, what, *step = self.copy_to_device(staging).split_with_sizes(sizes)
        if len(entries):
            self._flat_device.index_put_((where,), what)
        # Only now: after a failure before this, the next upload brings these too.
        self._changed.clear()
        return StepInput(self.device_table, *step)

    def _changed_entries(self) -> npt.NDArray[np.int64]:
        """The places in the flat table of all that the device has not seen, each once."""
        row = np.fromiter(self._changed, np.int64, len(self._changed))
        spans = np.fromiter(chain.from_iterable(self._changed.values()), np.int64, 2 * len(row))
        first, last = spans[::2], spans[1::2]
        return _spread(row * self.max_pages + first, last - first)

    def copy_to_device(self, staging: torch.Tensor) -> torch.Tensor:
        """The one way to the device. Pinned memory is reused only when its copy was made."""
        return staging.to(self.device_table.device, non_blocking=True)


def _spread(starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The integers of all ranges `[start, start + count)`, one range after the other."""
    ends = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    numbers: npt.NDArray[np.int64] = np.arange(total) + (starts - ends + counts).repeat(counts)
    return numbers
