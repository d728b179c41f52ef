"""What the kernels share: units, tiles of units, and the launch."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

WIDEST = 16
"""Bytes that one thread moves with one load or store, at most."""

# The integer of which a unit consists, and how many of them. Two 8-byte words make one 16-byte
# access, since a tile's last axis is contiguous and known to be aligned.
WORD = {1: tl.int8, 2: tl.int16, 4: tl.int32, 8: tl.int64, 16: tl.int64}
LANES = {1: 1, 2: 1, 4: 1, 8: 1, 16: 2}
INDEX = {torch.int32: tl.int32, torch.int64: tl.int64}

# A decode step is too small to fill a GPU: one unit a thread spreads it over as many
# multiprocessors as it can. A prefill wants several loads in flight in each thread.
NUM_WARPS = 4
SMALL_BLOCK = 128
LARGE_BLOCK = 512
SMALL_UNITS = 1 << 17
"""Up to here (1024 small programs) a call is small."""


def unit_bytes(bits: int) -> int:
    """The widest unit that divides all numbers whose bitwise or is `bits`."""
    bits |= WIDEST
    return bits & -bits


def block_of(units: int) -> int:
    """Units a program moves, in a call of so many."""
    return SMALL_BLOCK if units <= SMALL_UNITS else LARGE_BLOCK


_compiled: dict[tuple[object, ...], Any] = {}


def launch(
    device: torch.device,
    kernel: Any,
    variant: tuple[int, ...],
    grid: tuple[int, int, int],
    *arguments: Any,
) -> None:
    """Launch on the current stream of `device`; Triton by itself takes the current device's.

    Args:
        variant: of the arguments, all that is compiled in, as plain integers.
        arguments: all of the kernel's.
    """
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        _launch(device, kernel, variant, grid, arguments)
    else:  # pragma: no cover - needs two devices
        with torch.cuda.device(device):
            _launch(device, kernel, variant, grid, arguments)


def _launch(
    device: torch.device,
    kernel: Any,
    variant: tuple[int, ...],
    grid: tuple[int, int, int],
    arguments: tuple[Any, ...],
) -> None:
    # A jitted function finds its compiled kernel by looking at each argument: more host time than
    # all the rest of a call. Here the types of arguments are declared, so the variant is enough.
    key = (kernel, device.index, variant)
    compiled = _compiled.get(key)
    if compiled is not None:
        compiled[grid](*arguments)
        return
    compiled = kernel[grid](*arguments, num_warps=NUM_WARPS)
    if compiled is not None:  # None from the interpreter, which compiles nothing
        _compiled[key] = compiled


@triton.jit
def tile(ROW: tl.constexpr, BLOCK: tl.constexpr):
    """The units of one program: for each its row (int64) and its place in that row (int64).

    Units are numbered through all rows, so that no thread idles, however long a row is. Only the
    program's first unit is divided in 64 bits; the rest is small.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    first_row = first // ROW
    unit = (first - first_row * ROW).to(tl.int32) + tl.arange(0, BLOCK)
    return first_row + unit // ROW, (unit % ROW).to(tl.int64)


@triton.jit
def pointers(address, unit, WORD: tl.constexpr, LANES: tl.constexpr):
    """`[BLOCK, LANES]` pointers to the words of each unit, counted in units from `address`."""
    word: tl.constexpr = tl.pointer_type(WORD)
    lane = tl.arange(0, LANES)
    at = address.to(word) + (unit * LANES)[:, None] + lane[None, :]
    if LANES == 2:
        # The launcher saw that every address and stride is a multiple of 16 bytes.
        at = tl.multiple_of(at, (1, 16))
    return at


@triton.jit
def slot_offset(slot, group_stride, ROW: tl.constexpr, GROUP: tl.constexpr):
    """Units from slot 0 of a layer to `slot` (int64, in the pool)."""
    if GROUP == 1:
        offset = slot * group_stride
    else:
        offset = slot // GROUP * group_stride + slot % GROUP * ROW
    return offset
