"""Faults planted into the storage, each a small variation of `kvgpu`'s own source.

A fault names a file, a text that occurs there exactly once, and what stands there instead. So it
stays a variation of what `kvgpu` is today: where the text is gone, the test of that fault fails.

`origin` is an entry of the collection of real faults (a project's thread or fix) from which the
kind of fault comes, or the fault that any program of this kind can have.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import kvgpu

PACKAGE = Path(kvgpu.__file__).parent

# In the order in which they import each other.
_TORCH_MODULES = ("_pool", "_torch_path", "mha_pool")
_TRITON_MODULES = (
    "kernels/_units",
    "kernels/store_kv",
    "kernels/load_kv",
    "kernels/copy_pages",
    "kernels/__init__",
)


@dataclass(frozen=True)
class StorageFault:
    """What is broken, and where.

    `triton` faults show on the Triton kernels only, the others on the torch path.
    `operation` is the property that is to catch it.
    """

    name: str
    origin: str
    breaks: str
    operation: str
    file: str
    old: str
    new: str

    @property
    def triton(self) -> bool:
        return self.file.startswith("kernels/") or self.name.startswith("kernel-")

    def source(self) -> str:
        """The faulty file."""
        source = (PACKAGE / f"{self.file}.py").read_text(encoding="utf-8")
        found = source.count(self.old)
        if found != 1:
            raise LookupError(f"{self.name}: its text occurs {found} times in {self.file}.py")
        return source.replace(self.old, self.new)


@contextmanager
def planted(fault: StorageFault, folder: Path) -> Iterator[tuple[ModuleType, Any]]:
    """The faulty `kvgpu.mha_pool`, and the faulty implementation to give its caches.

    The modules of the storage are loaded anew, next to the real ones. `folder` takes the faulty
    file, since Triton reads a kernel's source from where it was loaded.
    """
    modules = _TORCH_MODULES + (_TRITON_MODULES if fault.triton else ())
    names = {
        module: f"kvgpu.{module}".replace("/", ".").removesuffix(".__init__") for module in modules
    }
    real = {name: sys.modules.get(name) for name in names.values()}
    try:
        for module, name in names.items():
            path = PACKAGE / f"{module}.py"
            if module == fault.file:
                path = folder / f"{fault.name.replace('-', '_')}.py"
                path.write_text(fault.source(), encoding="utf-8")
            is_package = [str(PACKAGE / "kernels")] if module.endswith("__init__") else None
            spec = importlib.util.spec_from_file_location(
                name, path, submodule_search_locations=is_package
            )
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        if fault.triton:
            implementation = sys.modules["kvgpu.kernels"].TRITON
        else:
            implementation = sys.modules["kvgpu._torch_path"].TORCH
        yield sys.modules["kvgpu.mha_pool"], implementation
    finally:
        for name, module in real.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


STORAGE_FAULTS = (
    # The torch path, and what stands before both.
    StorageFault(
        "padding-written",
        "PYPTO-806",
        "a row of padding is written to the last slot",
        "store",
        "_torch_path",
        "kept = out_loc >= 0",
        "kept = out_loc >= -1",
    ),
    StorageFault(
        "k-and-v-swapped",
        "any copy of two tensors",
        "V is stored as K as well",
        "store",
        "_torch_path",
        "pool.k_written[layer_id][place] = k",
        "pool.k_written[layer_id][place] = v",
    ),
    StorageFault(
        "page-and-slot-mixed",
        "MSG-80",
        "a slot is taken for a place counted in pages",
        "store",
        "_torch_path",
        "return slots // pool.page_size, slots % pool.page_size",
        "return slots % pool.num_pages, slots // pool.num_pages",
    ),
    StorageFault(
        "last-row-lost",
        "any loop over rows",
        "the last row is not written",
        "store",
        "_torch_path",
        "    k, v = as_bits(k), as_bits(v)\n",
        "    k, v, out_loc = as_bits(k)[:-1], as_bits(v)[:-1], out_loc[:-1]\n",
    ),
    StorageFault(
        "layer-ignored",
        "any loop over layers",
        "V of every layer goes to layer 0",
        "store",
        "_torch_path",
        "pool.v_written[layer_id][place] = v",
        "pool.v_written[0][place] = v",
    ),
    StorageFault(
        "copied-through-floats",
        "bf16 and fp8 arithmetic of the Triton interpreter",
        "values are equal, and the bits of a NaN are not",
        "store",
        "_torch_path",
        "pool.k_written[layer_id][place] = k",
        "values = torch.tensor(k).view(pool.dtype).to(torch.float64) * 1\n"
        "    pool.k_rows[layer_id].view(pool.dtype)[place] = values.to(pool.dtype)",
    ),
    StorageFault(
        "argument-overwritten",
        "MSG-94fe",
        "out_loc, which is the caller's, is written to",
        "store",
        "_torch_path",
        "    place = _place(pool, out_loc)\n",
        "    place = _place(pool, out_loc)\n    out_loc.clip(max=0, out=out_loc)\n",
    ),
    StorageFault(
        "padding-read",
        "PYPTO-806",
        "a row of padding shows slot 0",
        "load",
        "_torch_path",
        "k = pool.k_rows[layer_id][place].masked_fill_(padding, 0)",
        "k = pool.k_rows[layer_id][place]",
    ),
    StorageFault(
        "v-not-moved",
        "MC-3443",
        "a page moves without the second half of its memory",
        "copy",
        "_torch_path",
        "pool.runs[:, dst_pages[kept]] = pool.runs[:, src_pages[kept]]",
        "half = len(pool.runs) // 2\n"
        "    pool.runs[:half, dst_pages[kept]] = pool.runs[:half, src_pages[kept]]",
    ),
    StorageFault(
        "layout-axis-guessed",
        "FI-527",
        "the axes of PageFirst are renamed where they had to be exchanged",
        "views",
        "mha_pool",
        "dtype, device).transpose(1, 2)",
        "dtype, device).view(2, num_layers, num_pages, page_size, heads, head_dim)",
    ),
    StorageFault(
        "dtype-reinterpreted",
        "VLLM-54338",
        "bf16 is taken by an fp16 cache, bit for bit",
        "refusals",
        "mha_pool",
        "and k.dtype is v.dtype is pool.dtype",
        "and k.dtype is v.dtype",
    ),
    StorageFault(
        "no-head-on-a-rank",
        "FD-3717",
        "fewer heads than ranks leaves ranks without a head",
        "heads",
        "mha_pool",
        "head = self.rank // (self.size // num_kv_heads)\n            return range(head, head + 1)",
        "return range(self.rank, min(self.rank + 1, num_kv_heads))",
    ),
    StorageFault(
        "heads-rounded-down",
        "FD-3717",
        "heads that the ranks cannot split are dropped",
        "heads",
        "mha_pool",
        "if num_kv_heads % self.size == 0:",
        "if num_kv_heads >= self.size:",
    ),
    StorageFault(
        "bound-off-by-one",
        "PYPTO-806",
        "the slot just past the end is taken for one of the pool",
        "refusals",
        "mha_pool",
        "if ordered.size and ordered[-1] >= limit:",
        "if ordered.size and ordered[-1] > limit:",
    ),
    StorageFault(
        "twice-not-seen",
        "LMC-5005",
        "a slot twice is found only where the two are neighbours",
        "refusals",
        "mha_pool",
        "ordered = np.sort(values)",
        "ordered = values",
    ),
    StorageFault(
        "source-overwritten",
        "any copy within one buffer",
        "a page that is a source and a destination is not refused",
        "refusals",
        "mha_pool",
        "~padding & np.isin(dst, src)",
        "~padding & (dst == src)",
    ),
    # The kernels.
    StorageFault(
        "kernel-padding-written",
        "PYPTO-806",
        "a negative slot is made an address",
        "store",
        "kernels/store_kv",
        "kept = (slot >= 0) & (slot < num_slots)",
        "kept = inside & (slot < num_slots)",
    ),
    StorageFault(
        "kernel-past-the-end-written",
        "PYPTO-806",
        "a slot past the end is made an address",
        "store",
        "kernels/store_kv",
        "kept = (slot >= 0) & (slot < num_slots)",
        "kept = slot >= 0",
    ),
    StorageFault(
        "kernel-rows-assumed-packed",
        "FI-527",
        "the stride of k's rows is taken for granted",
        "store",
        "kernels/store_kv",
        "k_unit = row * k_row + unit * k_dim",
        "k_unit = row * ROW + unit * k_dim",
    ),
    StorageFault(
        "kernel-heads-assumed-packed",
        "FI-527",
        "the stride of v's heads is taken for granted",
        "store",
        "kernels/store_kv",
        "v_unit = row * v_row + head * v_head + dim * v_dim",
        "v_unit = row * v_row + unit * v_dim",
    ),
    StorageFault(
        "kernel-strides-of-k-for-v",
        "FI-527",
        "v is read with the strides of k",
        "store",
        "kernels/store_kv",
        "v_unit = row * v_row + unit * v_dim",
        "v_unit = row * k_row + unit * k_dim",
    ),
    StorageFault(
        "kernel-group-assumed-packed",
        "FI-527",
        "pages of PageFirst are taken to adjoin",
        "store",
        "_pool",
        "self.group_stride = self.row if pages_adjoin else page_stride",
        "self.group_stride = self.row if pages_adjoin else page_size * self.row",
    ),
    StorageFault(
        "kernel-k-and-v-swapped",
        "any copy of two tensors",
        "V is stored as K as well",
        "store",
        "kernels/store_kv",
        "tl.store(pointers(k_cache, cached, WORD, LANES), k_words",
        "tl.store(pointers(k_cache, cached, WORD, LANES), v_words",
    ),
    StorageFault(
        "kernel-32-bit-offsets",
        "VLLM-1486",
        "a slot times its stride wraps past 2^31",
        "large",
        "kernels/store_kv",
        "mask=inside, other=-1).to(tl.int64)",
        "mask=inside, other=-1).to(tl.int32)",
    ),
    StorageFault(
        "kernel-32-bit-offsets-read",
        "VLLM-1486",
        "a slot times its stride wraps past 2^31",
        "large",
        "kernels/load_kv",
        "mask=inside, other=-1).to(tl.int64)",
        "mask=inside, other=-1).to(tl.int32)",
    ),
    StorageFault(
        "kernel-index-width-guessed",
        "SGL-11452",
        "an int64 out_loc is read as int32",
        "store",
        "kernels/store_kv",
        "INDEX[out_loc.dtype]",
        "INDEX[torch.int32]",
    ),
    StorageFault(
        "kernel-index-stride-guessed",
        "FI-527",
        "out_loc is taken to be contiguous",
        "store",
        "kernels/store_kv",
        "row * loc_stride",
        "row",
    ),
    StorageFault(
        "kernel-page-and-slot-mixed",
        "MSG-80",
        "page and place in the page are exchanged",
        "store",
        "kernels/_units",
        "slot // GROUP * group_stride + slot % GROUP * ROW",
        "slot % GROUP * group_stride + slot // GROUP * ROW",
    ),
    StorageFault(
        "kernel-last-row-lost",
        "any loop over rows",
        "the last row is not written",
        "store",
        "kernels/store_kv",
        "inside = row < n\n",
        "inside = row < n - 1\n",
    ),
    StorageFault(
        "kernel-last-program-lost",
        "any grid that is rounded down",
        "what does not fill a program is not written",
        "store",
        "kernels/store_kv",
        "(-(-n * row_units // block), 1, 1)",
        "(max(1, n * row_units // block), 1, 1)",
    ),
    StorageFault(
        "kernel-row-of-a-power-of-two",
        "MOJO-266",
        "a row is as wide as the next power of two, and runs into the next slot",
        "store",
        "kernels/store_kv",
        "row_units = pool.row * size // unit",
        "row_units = triton.next_power_of_2(pool.row * size // unit)",
    ),
    StorageFault(
        "kernel-width-guessed",
        "MOJO-266",
        "a unit that a stride of k or v is no multiple of",
        "store",
        "kernels/store_kv",
        "(strides | together | pool.row | pool.group_stride) * size",
        "(together | pool.row | pool.group_stride) * size",
    ),
    StorageFault(
        "kernel-alignment-unknown",
        "any vector access whose alignment the compiler cannot see",
        "16 bytes are moved in two halves; right, and slow",
        "compile",
        "kernels/_units",
        "    if LANES == 2:\n",
        "    if LANES == 3:\n",
    ),
    StorageFault(
        "kernel-padding-read",
        "PYPTO-806",
        "a row of padding shows slot 0",
        "load",
        "kernels/load_kv",
        "kept = (slot >= 0) & (slot < num_slots)\n",
        "kept = inside\n    slot = tl.where((slot >= 0) & (slot < num_slots), slot, 0)\n",
    ),
    StorageFault(
        "kernel-load-of-k-as-v",
        "any copy of two tensors",
        "K is read where V was asked for",
        "load",
        "kernels/load_kv",
        "v_words = tl.load(pointers(v_cache,",
        "v_words = tl.load(pointers(k_cache,",
    ),
    StorageFault(
        "kernel-first-run-only",
        "MC-3443",
        "a page moves without its other layers and V",
        "copy",
        "kernels/copy_pages",
        "(-(-m * page_units // block), runs, 1)",
        "(-(-m * page_units // block), 1, 1)",
    ),
    StorageFault(
        "kernel-half-padding-moved",
        "PYPTO-806",
        "a pair whose destination is padding is copied to page 0",
        "copy",
        "kernels/copy_pages",
        "kept = (src >= 0) & (src < num_pages) & (dst >= 0) & (dst < num_pages)",
        "kept = (src >= 0) & (src < num_pages) & inside",
    ),
    StorageFault(
        "kernel-source-and-target-swapped",
        "any copy within one buffer",
        "pages are copied the wrong way",
        "copy",
        "kernels/copy_pages",
        "tl.store(target, tl.load(source,",
        "tl.store(source, tl.load(target,",
    ),
)
"""Every one must be caught by the suite: tests/storage/test_faults.py, test_compile.py."""
