"""Which pages of the pool are free. On the host, in page numbers, never in slots."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvgpu._arguments import describe, ints_of, require_size
from kvgpu.errors import InvalidType, InvalidValue, OutOfPages
from kvgpu.radix_node import FEW, IntArray

__all__ = ["PageAllocator"]

_IN_USE = "a page in use"


class PageAllocator:
    """A stack of free pages: what was freed last is given out first.

    May be called from any thread; each call is one step. A refused call has changed nothing.
    """

    def __init__(self, num_pages: int, page_size: int) -> None:
        """Make an allocator of the pages `0 .. num_pages - 1`, all free.

        Args:
            num_pages: of the pool.
            page_size: slots of a page.

        Raises:
            InvalidType, InvalidValue: sizes that are no ints, or below 1.
        """
        self.num_pages = require_size("num_pages", num_pages, minimum=1)
        self.page_size = require_size("page_size", page_size, minimum=1)
        # The free pages are stack[:num_free], the next one last.
        self._stack: IntArray = np.arange(num_pages - 1, -1, -1, dtype=np.int32)
        self._num_free = num_pages
        self._is_free = np.ones(num_pages, dtype=np.bool_)
        self._mutex = threading.Lock()

    @property
    def num_free_pages(self) -> int:
        """How many pages an allocate could give now."""
        return self._num_free

    @property
    def free_pages(self) -> IntArray:
        """Which pages are free: `[num_free_pages]`, int32, in no promised order, a new array."""
        with self._mutex:
            return self._stack[: self._num_free].copy()

    def allocate(self, num_pages: int) -> IntArray:
        """Take pages, all or nothing.

        Returns:
            `[num_pages]`, int32, on the host: distinct page numbers in no promised order, a new
            array that is the caller's, who makes slots of it (`page * page_size + offset`).

        Raises:
            InvalidType, InvalidValue: not an int, or negative.
            OutOfPages: more than are free.
        """
        require_size("num_pages", num_pages, minimum=0)
        with self._mutex:
            rest = self._num_free - num_pages
            if rest < 0:
                raise OutOfPages(num_pages, self._num_free)
            pages = self._stack[rest : self._num_free][::-1].copy()
            self._is_free[pages] = False
            self._num_free = rest
        return pages

    def free(self, pages: Iterable[int] | npt.NDArray[Any] | torch.Tensor) -> None:
        """Give pages back, all or nothing.

        Args:
            pages: page numbers in use, each once: ints, or `[n]` of an integer dtype, on the
                CPU. Read only, copied.

        Raises:
            InvalidType: something else.
            InvalidValue: a page outside the pool, free already, or twice, naming the first; an
                array that is not 1-D or a tensor that is not on the CPU.
        """
        numbers = _page_numbers(pages, self.num_pages)
        with self._mutex:
            end = self._put_above(numbers)
            self._is_free[numbers] = True
            self._num_free = end

    def exchange(
        self, pages: Iterable[int] | npt.NDArray[Any] | torch.Tensor, num_pages: int
    ) -> IntArray:
        """Give `pages` back and take `num_pages`, in one step, all or nothing.

        So an eviction and the allocation that it serves fail together or not at all.

        Args:
            pages: as for `free`. They may be among those that are taken.
            num_pages: as for `allocate`.

        Returns:
            As `allocate`.

        Raises:
            InvalidType, InvalidValue: as `free` and `allocate`.
            OutOfPages: more than are free with `pages` among them.
        """
        require_size("num_pages", num_pages, minimum=0)
        numbers = _page_numbers(pages, self.num_pages)
        with self._mutex:
            end = self._put_above(numbers)
            rest = end - num_pages
            if rest < 0:
                raise OutOfPages(num_pages, end)
            taken = self._stack[rest:end][::-1].copy()
            self._is_free[numbers] = True
            self._is_free[taken] = False
            self._num_free = rest
        return taken

    def _put_above(self, numbers: npt.NDArray[np.int64]) -> int:
        """Write pages in use above the free ones, where they do not count yet.

        Returns:
            The number of free pages once they do.
        """
        free_already = self._is_free[numbers]
        if np.count_nonzero(free_already):
            raise _bad_page(numbers, int(free_already.argmax()), "free already")
        end = self._num_free + len(numbers)
        self._stack[self._num_free : end] = numbers
        return end


def _page_numbers(pages: Any, num_pages: int) -> npt.NDArray[np.int64]:
    """`pages` as `[n]` int64: distinct pages of the pool, a new array."""
    if isinstance(pages, torch.Tensor):
        if pages.device.type != "cpu":
            raise InvalidValue("pages", describe(pages), "a tensor on the CPU")
        pages = pages.numpy()
    if not isinstance(pages, np.ndarray):
        pages = _ints_of(pages, num_pages)
    if pages.dtype.kind not in "iu":
        raise InvalidType("pages", f"an array of {pages.dtype}", "integers")
    if pages.ndim != 1:
        raise InvalidValue("pages", f"shape {pages.shape}", "shape [n]")
    if len(pages) <= FEW:
        few = pages.tolist()
        distinct = len(set(few)) == len(few)
        if distinct and min(few, default=0) >= 0 and max(few, default=-1) < num_pages:
            return np.array(few, dtype=np.int64)
    outside = (pages < 0) | (pages >= num_pages)
    if outside.any():
        raise _bad_page(pages, int(outside.argmax()), f"outside 0..{num_pages - 1}")
    numbers: npt.NDArray[np.int64] = pages.astype(np.int64)
    ordered = np.sort(numbers)
    if (ordered[1:] == ordered[:-1]).any():
        firsts = np.unique(numbers, return_index=True)[1]
        again = np.ones(len(numbers), dtype=np.bool_)
        again[firsts] = False
        raise _bad_page(numbers, int(again.argmax()), "twice in this call")
    return numbers


def _ints_of(pages: Any, num_pages: int) -> npt.NDArray[np.int64]:
    """The ints of any iterable; those that no array could hold are refused here."""
    numbers = ints_of("pages", pages, "page numbers")
    for position, number in enumerate(numbers):
        if not 0 <= number < num_pages:
            raise _bad_page(numbers, position, f"outside 0..{num_pages - 1}")
    return np.array(numbers, dtype=np.int64)


def _bad_page(pages: Any, position: int, why: str) -> InvalidValue:
    """Names the page, where it stood, and what is wrong with it."""
    return InvalidValue("pages", f"page {pages[position]} at position {position}, {why}", _IN_USE)
