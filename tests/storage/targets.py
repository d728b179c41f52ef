"""What the storage suite runs over, and the cache around whose buffer it looks.

A session with TRITON_INTERPRET=1 tests the Triton kernels in the interpreter, since Triton reads
that when a kernel's module is imported; any other session tests the torch path, and the compiled
kernels where there is a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

import pytest
import torch

from kvgpu import KVCacheLayout, MHAKVCache
from kvgpu._pool import Implementation
from kvgpu._torch_path import TORCH
from kvstrategies.tensors import PoolShape

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
LAYOUTS = {False: KVCacheLayout.LayerFirst, True: KVCacheLayout.PageFirst}


@cache
def _noise() -> torch.Tensor:
    """Bytes that no test writes on purpose; one block for all, since making it takes time."""
    return torch.randint(
        0, 256, (1 << 24,), dtype=torch.uint8, generator=torch.Generator().manual_seed(7)
    )


@dataclass(frozen=True)
class Target:
    """An implementation under test, on a device.

    `looks` says whether the cache looks at the values of slots, or leaves the bad ones to
    the implementation, which is to skip them.
    """

    name: str
    device: str
    looks: bool
    base: type[MHAKVCache] = MHAKVCache
    implementation: Implementation | None = None

    def cache(self, shape: PoolShape, **options: Any) -> Any:
        """A cache of this shape, noise in and around its buffer."""
        return self._made(_guarded(self.base), shape, options)

    def plain_cache(self, shape: PoolShape) -> Any:
        """A cache of this shape whose buffer is whatever `base` allocates."""
        return self._made(_implemented(self.base), shape, {})

    def _made(self, made_from: Any, shape: PoolShape, options: dict[str, Any]) -> Any:
        made = made_from(
            self.implementation,
            shape.heads,
            shape.num_layers,
            shape.dim,
            shape.num_pages,
            shape.dtype,
            LAYOUTS[shape.page_first],
            self.device,
            page_size=shape.page_size,
            **options,
        )
        if not options.get("checked"):
            made._looks_at_values = self.looks
        return made


@contextmanager
def as_in_a_large_call() -> Iterator[None]:
    """Each program of a kernel has as much to do as in a large call, where they are interpreted.

    The interpreter takes its time by the program, whatever that moves; for calls that would be
    of hundreds of them. Does nothing to compiled kernels.
    """
    if not INTERPRETED:
        yield
        return
    units = import_module("kvgpu.kernels._units")  # not the attribute: a planted fault has its own
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "SMALL_UNITS", 0)
        yield


@cache
def _implemented(base: type[MHAKVCache]) -> type:
    class Implemented(base):  # type: ignore[valid-type, misc]
        def __init__(self, implementation, *arguments, **options):
            self._given = implementation
            super().__init__(*arguments, **options)

        def _choose_implementation(self, on_gpu):
            return self._given or super()._choose_implementation(on_gpu)

    return Implemented


@cache
def _guarded(base: type[MHAKVCache]) -> type:
    class Guarded(_implemented(base)):  # type: ignore[misc]
        """`memory` is the whole allocation in bytes, `guard` the bytes before the buffer."""

        def _allocate(self, shape, dtype, device):
            size = prod(shape) * dtype.itemsize
            # What is meant for slots from -3 to num_slots + 2 falls into the allocation in both
            # layouts, so that a fault damages bytes that are compared, and not the process.
            pages = shape[1 if self._kv_layout is KVCacheLayout.PageFirst else 2]
            self.guard = 3 * (size // (2 * pages)) // 64 * 64 + 256
            total = 2 * self.guard + size
            noise = _noise().repeat(-(-total // _noise().numel()))
            self.memory = noise[:total].clone().to(device)
            return self.memory[self.guard : self.guard + size].view(dtype).view(shape)

    return Guarded


def _targets() -> list[Any]:
    if INTERPRETED:
        from kvgpu.kernels import TRITON

        return [pytest.param(Target("interpreter", "cpu", False, implementation=TRITON))]
    gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    return [
        pytest.param(Target("torch", "cpu", True, implementation=TORCH)),
        pytest.param(Target("gpu", "cuda", False), marks=[pytest.mark.gpu, gpu]),
    ]


TARGETS = _targets()


def over_targets(test: Any) -> Any:
    """Parametrise a test over the targets of this session."""
    return pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)(test)
