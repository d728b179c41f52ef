"""Compiles every variant of the Triton kernels ahead of time, for GPUs that need not be there.

Records registers, spills, and the widths of loads and stores of each; fails on a spill, and on
an access to K or V that is narrower than its unit. `ci/compile` runs it.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = (80, 90, 100)

# Bytes of a unit, and a row that has this one as its widest: 8 heads of 128 in bf16, and odd ones.
ROW_BYTES = {16: 2048, 8: 2072, 4: 1036, 2: 1034, 1: 1033}
INDEX_BITS = (32, 64)
# LayerFirst, and PageFirst at page size 1, have groups of one slot.
GROUPS = {"one": 1, "page": 16}
BLOCKS = (128, 512)


@dataclass(frozen=True)
class Variant:
    kernel: str
    arch: int
    unit: int
    index: int
    group: str
    heads: str  # do the heads of a row of k and v lie together
    block: int


@dataclass(frozen=True)
class Measured:
    registers: int
    spilled: int  # bytes of stack and local memory
    loads: str  # widths in bytes, of all loads from and stores to global memory
    stores: str


def variants(architectures: tuple[int, ...] = ARCHITECTURES) -> Iterator[Variant]:
    for arch, unit, index, block in itertools.product(architectures, ROW_BYTES, INDEX_BITS, BLOCKS):
        for group in GROUPS:
            for heads in ("together", "apart"):
                yield Variant("store_kv", arch, unit, index, group, heads, block)
            yield Variant("load_kv", arch, unit, index, group, "-", block)
        yield Variant("copy_pages", arch, unit, index, "-", "-", block)


def tool(name: str) -> Path:
    import triton

    found = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not found.exists():
        raise FileNotFoundError(f"{name} is not in the installed triton {triton.__version__}")
    return found


def measure(variant: Variant) -> Measured:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kvgpu.kernels import _units
    from kvgpu.kernels.copy_pages import copy_pages_kernel
    from kvgpu.kernels.load_kv import load_kv_kernel
    from kvgpu.kernels.store_kv import store_kv_kernel

    kernel = {
        "store_kv": store_kv_kernel,
        "load_kv": load_kv_kernel,
        "copy_pages": copy_pages_kernel,
    }[variant.kernel]
    row = ROW_BYTES[variant.unit] // variant.unit
    index = tl.int32 if variant.index == 32 else tl.int64
    possible = {
        "ROW": row,
        # An odd row has one head, cut in two only where there is more than one unit.
        "HEAD": row if variant.heads == "together" else max(1, row // 8),
        "GROUP": GROUPS.get(variant.group, 1),
        "PAGE": row * 16,
        "LOC": index,
        "SRC": index,
        "DST": index,
        "WORD": _units.WORD[variant.unit],
        "LANES": _units.LANES[variant.unit],
        "BLOCK": variant.block,
    }
    signature = {name: "constexpr" if name in possible else "i64" for name in kernel.arg_names}
    constants = {name: possible[name] for name in kernel.arg_names if name in possible}
    compiled = triton.compile(
        ASTSource(kernel, signature, constants),
        target=GPUTarget("cuda", variant.arch, 32),
        options={"num_warps": _units.NUM_WARPS},
    )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(compiled.asm["cubin"])
        cubin.flush()
        usage = subprocess.run(
            [tool("cuobjdump"), "--dump-resource-usage", cubin.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    used = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    ptx = compiled.asm["ptx"]
    return Measured(
        registers=used["REG"],
        spilled=used["STACK"] + used["LOCAL"],
        loads=_widths(ptx, "ld"),
        stores=_widths(ptx, "st"),
    )


def _widths(ptx: str, instruction: str) -> str:
    """How many accesses of each width in bytes, as `16x8 4x2`."""
    counts: dict[int, int] = {}
    for vector, bits in re.findall(
        rf"\b{instruction}\.global(?:\.[a-z_0-9:]+?)*?(?:\.v([248]))?\.[bsuf](\d+)", ptx
    ):
        width = int(vector or 1) * int(bits) // 8
        counts[width] = counts.get(width, 0) + 1
    return " ".join(f"{width}x{counts[width]}" for width in sorted(counts, reverse=True))


def complaints(variant: Variant, measured: Measured) -> list[str]:
    """What is wrong with a variant, in words."""
    wrong = []
    if measured.spilled:
        wrong.append(f"{measured.spilled} bytes spilled")
    threads = 32 * 4
    tensors = 1 if variant.kernel == "copy_pages" else 2
    wanted = tensors * max(1, variant.block // threads)
    for kind, widths in (("loads", measured.loads), ("stores", measured.stores)):
        of_width = dict(pair.split("x") for pair in widths.split())
        # Of loads, those of the indices come on top.
        if int(of_width.get(str(variant.unit), 0)) < wanted:
            wrong.append(f"{wanted} {kind} of {variant.unit} bytes wanted, found {widths}")
        if kind == "stores" and len(of_width) != 1:
            wrong.append(f"stores of several widths: {widths}")
    return wrong


def measure_quietly(variant: Variant) -> Measured:
    with warnings.catch_warnings():
        # Triton 3.9 announces a change of what it does to floats; these kernels have none.
        warnings.simplefilter("ignore")
        return measure(variant)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, help="write a line for each variant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--arch", type=int, action="append", help="80, 90, 100; all three by default"
    )
    arguments = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        print("TRITON_INTERPRET is set: nothing would be compiled", file=sys.stderr)
        return 2
    import triton

    every = list(variants(tuple(arguments.arch or ARCHITECTURES)))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        measured = list(pool.map(measure_quietly, every, chunksize=8))
    failed = 0
    rows = []
    for variant, found in zip(every, measured, strict=True):
        rows.append({**vars(variant), **vars(found)})
        for complaint in complaints(variant, found):
            failed += 1
            print(f"{variant}: {complaint}")
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    print(f"triton {triton.__version__}: {len(rows)} variants for sm_", end="")
    print(", sm_".join(map(str, arguments.arch or ARCHITECTURES)))
    for kernel in ("store_kv", "load_kv", "copy_pages"):
        of = [row for row in rows if row["kernel"] == kernel]
        widest = next(row for row in of if row["unit"] == 16 and row["block"] == 512)
        print(
            f"  {kernel}: {len(of)}, at most {max(row['registers'] for row in of)} registers, "
            f"{max(row['spilled'] for row in of)} bytes spilled; 16-byte units, large: "
            f"loads {widest['loads']}, stores {widest['stores']} (bytes x count)"
        )
    print("FAILED" if failed else "no spills, and every access as wide as its unit")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
