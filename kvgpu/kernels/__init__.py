"""Triton kernels; imported only when a tensor on a GPU (or the interpreter) calls for one.

Each kernel copies bits: rows are cut into *units* of 1, 2, 4, 8 or 16 bytes, the widest that
every address and stride of the call is a multiple of. So one kernel serves every dtype, on every
architecture, and a thread moves 16 bytes at a time wherever rows allow it.

Addresses and sizes are passed as plain 64-bit integers, declared so and never specialised on: what
is compiled depends on the cache, on the width of a unit and of an index, and on whether the
call is small; never on the length or the alignment of a single call. That also lets a launch
find its compiled kernel by these few integers, which halves the host's time.
"""

from kvgpu._pool import Implementation
from kvgpu.kernels.copy_pages import copy_pages
from kvgpu.kernels.load_kv import load_kv
from kvgpu.kernels.store_kv import store_kv

__all__ = ["TRITON", "copy_pages", "load_kv", "store_kv"]

TRITON = Implementation("triton", store_kv, load_kv, copy_pages)
