"""What `store_kv` costs, against torch indexing, `index_copy_`, torch.compile and a plain copy.

Each method stores the same rows to the same slots of a cache of its own, and is compared with
torch indexing bit for bit before it is timed. On a GPU times come from device events, in a CUDA
graph and eagerly, with host time a call beside the eager ones; on the CPU from the process's clock.

    python benchmarks/store_kv.py --out results           # a GPU: about a minute and a half
    python benchmarks/store_kv.py --device cpu --small    # seconds; shows that it runs

Writes store_kv.csv and store_kv.svg to --out.
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from kvgpu import KVCacheLayout, MHAKVCache

HEADS, DIM, LAYERS, DTYPE = 8, 128, 2, torch.bfloat16
ROW_BYTES = HEADS * DIM * DTYPE.itemsize
LENGTHS = (1, 8, 64, 256, 4096, 65536)
METHODS = ("store_kv", "indexing", "index_copy_", "compiled indexing", "plain copy")
COLORS = ("#0b6e4f", "#c1121f", "#e09f3e", "#6a4c93", "#555555")


@dataclass
class Result:
    """One line of the CSV. Times are medians in microseconds a call, bytes read and written."""

    layout: str
    slots: str
    n: int
    method: str
    mode: str
    microseconds: float
    host_microseconds: float | None
    bytes: int
    gb_per_s: float
    of_plain_copy: float | None = None


@dataclass
class Case:
    """One call to time. The plain copy moves the same bytes to where they lie together."""

    cache: Any
    k: torch.Tensor
    v: torch.Tensor
    out_loc: torch.Tensor

    def views(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        # A page size of 1 makes a page a slot: one axis, in both layouts.
        return self.cache.k_cache(layer)[:, 0], self.cache.v_cache(layer)[:, 0]


def _index(k_cache: Any, v_cache: Any, k: Any, v: Any, out_loc: Any) -> None:
    k_cache[out_loc] = k
    v_cache[out_loc] = v


def calls(case: Case, compiled: Callable[..., None] | None) -> Iterator[tuple[str, Any]]:
    """Each method with a function of the layer."""
    k, v, out_loc = case.k, case.v, case.out_loc
    views = [case.views(layer) for layer in range(LAYERS)]
    flat = [torch.empty_like(torch.cat((k, v))) for _ in range(LAYERS)]

    def index_copy(layer: int) -> None:
        for cache, rows in zip(views[layer], (k, v), strict=True):
            cache.index_copy_(0, out_loc, rows)

    both = torch.cat((k, v))
    yield "store_kv", lambda layer: case.cache.store_kv(k, v, out_loc, layer)
    yield "indexing", lambda layer: _index(*views[layer], k, v, out_loc)
    yield "index_copy_", index_copy
    if compiled is not None:
        yield "compiled indexing", lambda layer: compiled(*views[layer], k, v, out_loc)
    yield "plain copy", lambda layer: flat[layer].copy_(both)


def make_case(layout: KVCacheLayout, slots: str, n: int, num_slots: int, device: str) -> Case:
    cache = MHAKVCache(HEADS, LAYERS, DIM, num_slots, DTYPE, layout, device)
    generator = torch.Generator().manual_seed(n)
    # As a model hands them over: slices of the fused projection of 4 query heads a K/V head.
    qkv = torch.randn((n, 6 * HEADS * DIM), generator=generator).to(DTYPE).to(device)
    k, v = (
        qkv[:, start * HEADS * DIM : (start + 1) * HEADS * DIM].view(n, HEADS, DIM)
        for start in (4, 5)
    )
    if slots == "scattered":
        out_loc = torch.randperm(num_slots, generator=generator)[:n]
    else:
        out_loc = torch.arange(n) + (num_slots - n) // 2
    return Case(cache, k, v, out_loc.to(device))


def check(case: Case, call: Any, name: str) -> None:
    """The call stores what torch indexing stores."""
    for view in case.views(1):
        view.zero_()
    call(1)
    for view, rows in zip(case.views(1), (case.k, case.v), strict=True):
        if not torch.equal(view[case.out_loc].view(torch.int16), rows.view(torch.int16)):
            raise AssertionError(f"{name} stored other bits than it was given")
        if int((view != 0).any(-1).any(-1).sum()) > len(case.out_loc):
            raise AssertionError(f"{name} wrote to other slots")


def cpu_time(call: Any, repeat: int) -> float:
    times = []
    for i in range(repeat + 2):
        begin = time.perf_counter_ns()
        call(i % LAYERS)
        times.append((time.perf_counter_ns() - begin) / 1000)
    return statistics.median(times[2:])


def eager_times(call: Any, repeat: int) -> tuple[float, float]:
    """Microseconds a call on the device, and on the host while the device keeps up."""
    for layer in range(LAYERS):
        call(layer)
    torch.cuda.synchronize()
    hosts = []
    for _ in range(5):
        begin = time.perf_counter_ns()
        for i in range(20):
            call(i % LAYERS)
        hosts.append((time.perf_counter_ns() - begin) / 20_000)
        torch.cuda.synchronize()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeat)]
    for i, (begin_event, end_event) in enumerate(pairs):
        begin_event.record()
        call(i % LAYERS)
        end_event.record()
    torch.cuda.synchronize()
    return statistics.median(b.elapsed_time(e) * 1000 for b, e in pairs), statistics.median(hosts)


def graph_time(call: Any, repeat: int, calls_a_graph: int) -> float:
    """Microseconds a call within a CUDA graph of many."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for layer in range(LAYERS):
            call(layer)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls_a_graph):
            call(i % LAYERS)
    times = []
    for i in range(repeat + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end) * 1000 / calls_a_graph)
    return statistics.median(times)


def measure(device: str, lengths: tuple[int, ...], num_slots: int) -> list[Result]:
    results: list[Result] = []
    compiled = _compiled() if device == "cuda" else None
    for layout in KVCacheLayout:
        for slots in ("consecutive", "scattered"):
            for n in lengths:
                case = make_case(layout, slots, n, num_slots, device)
                moved = 2 * 2 * n * ROW_BYTES
                found = []
                for name, call in calls(case, compiled):
                    if name != "plain copy":
                        check(case, call, name)
                    timed: dict[str, tuple[float, float | None]] = {}
                    if device == "cuda":
                        timed["eager"] = eager_times(call, 30)
                        timed["graph"] = graph_time(call, 20, 10), None
                    else:
                        spent = cpu_time(call, 20)
                        timed["eager"] = spent, spent
                    for mode, (spent, host) in timed.items():
                        found.append(
                            Result(
                                layout.name, slots, n, name, mode, round(spent, 3),
                                None if host is None else round(host, 3), moved,
                                round(moved / spent / 1000, 2),
                            )
                        )  # fmt: skip
                copies = {r.mode: r.microseconds for r in found if r.method == "plain copy"}
                for result in found:
                    result.of_plain_copy = round(copies[result.mode] / result.microseconds, 3)
                results += found
                del case
    return results


def _compiled() -> Callable[..., None] | None:
    """Torch indexing through torch.compile, or None, said aloud, where that does not work."""
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 128
    function: Callable[..., None] = torch.compile(_index, dynamic=False)
    try:
        rows = torch.zeros(2, HEADS, DIM, dtype=DTYPE, device="cuda")
        function(rows.clone(), rows.clone(), rows, rows, torch.arange(2, device="cuda"))
    except Exception as failure:
        print(f"torch.compile does not work here, left out: {type(failure).__name__}: {failure}")
        return None
    return function


def verdicts(results: list[Result]) -> Iterator[str]:
    """What was to be shown, and whether it was."""

    def of(method: str, mode: str, **wanted: Any) -> dict[tuple[str, str, int], Result]:
        return {
            (r.layout, r.slots, r.n): r
            for r in results
            if r.method == method and r.mode == mode
            and all(getattr(r, name) == value for name, value in wanted.items())
        }  # fmt: skip

    large = of("store_kv", "graph", n=65536)
    for key, result in large.items():
        share = result.of_plain_copy or 0
        yield (
            f"{'met   ' if share >= 0.9 else 'MISSED'} n=65536 {key[0]} {key[1]}: "
            f"{result.gb_per_s:.0f} GB/s, {share:.0%} of a plain copy (wanted: 90%)"
        )
    ours, theirs = of("store_kv", "graph"), of("indexing", "graph")
    for key in (key for key in ours if key[2] <= 256):
        share = ours[key].microseconds / theirs[key].microseconds
        yield (
            f"{'met   ' if share <= 0.5 else 'MISSED'} n={key[2]} {key[0]} {key[1]}: "
            f"{ours[key].microseconds:.2f} us in a graph, {share:.0%} of indexing (wanted: 50%)"
        )
    ours, theirs = of("store_kv", "eager"), of("indexing", "eager")
    for key in (key for key in ours if key[2] <= 256):
        mine, other = ours[key].host_microseconds or 0, theirs[key].host_microseconds or 0
        yield (
            f"{'met   ' if mine <= other else 'MISSED'} n={key[2]} {key[0]} {key[1]}: "
            f"{mine:.1f} us of the host, indexing {other:.1f} (wanted: no more)"
        )


def picture(results: list[Result], title: str) -> str:
    """Time over n, both logarithmic: a panel for each layout and kind of slots, an SVG."""
    import math

    mode = "graph" if any(r.mode == "graph" for r in results) else "eager"
    shown = [r for r in results if r.mode == mode]
    lengths = sorted({r.n for r in shown})
    low = math.floor(math.log10(min(r.microseconds for r in shown)))
    high = math.ceil(math.log10(max(r.microseconds for r in shown)))
    wide, tall, left, top = 340, 220, 60, 60

    def x(n: int, panel: int) -> float:
        span = math.log2(max(lengths)) - math.log2(min(lengths)) or 1
        return left + panel % 2 * (wide + left) + wide * math.log2(n / min(lengths)) / span

    def y(spent: float, panel: int) -> float:
        height = (math.log10(spent) - low) / max(high - low, 1)
        return top + panel // 2 * (tall + top) + tall * (1 - height)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11"',
        f'width="{2 * (wide + left) + 30}" height="{2 * (tall + top) + 60}">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="20" font-size="14">{title}, {mode}: microseconds a call</text>',
    ]
    panels = sorted({(r.layout, r.slots) for r in shown})
    for panel, (layout, slots) in enumerate(panels):
        parts.append(
            f'<text x="{x(min(lengths), panel)}" y="{y(10.0**high, panel) - 6}">'
            f"{layout}, {slots} slots</text>"
        )
        for power in range(low, high + 1):
            at = y(10.0**power, panel)
            parts.append(
                f'<path d="M{x(min(lengths), panel)} {at}H{x(max(lengths), panel)}" '
                f'stroke="#ddd"/><text x="{x(min(lengths), panel) - 6}" y="{at + 4}" '
                f'text-anchor="end">{10.0**power:g}</text>'
            )
        parts += [
            f'<text x="{x(n, panel)}" y="{y(10.0**low, panel) + 14}" '
            f'text-anchor="middle">{n}</text>'
            for n in lengths
        ]
        for method, color in zip(METHODS, COLORS, strict=True):
            line = sorted(
                (r.n, r.microseconds)
                for r in shown
                if (r.layout, r.slots, r.method) == (layout, slots, method)
            )
            points = " ".join(f"{x(n, panel):.1f},{y(spent, panel):.1f}" for n, spent in line)
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
            )
    for index, (method, color) in enumerate(zip(METHODS, COLORS, strict=True)):
        at = left + index * 140
        parts.append(
            f'<path d="M{at} 40h20" stroke="{color}" stroke-width="2"/>'
            f'<text x="{at + 25}" y="44">{method}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="few and short, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device; --device cpu runs without one", file=sys.stderr)
        return 1
    torch.set_num_threads(1)
    lengths = (1, 8, 64) if arguments.small else LENGTHS
    num_slots = 512 if arguments.small else 1 << 18 if arguments.device == "cuda" else 1 << 17
    begin = time.perf_counter()
    results = measure(arguments.device, lengths, num_slots)
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else platform.machine()
    title = f"store_kv, {HEADS} heads of {DIM} in {DTYPE}".replace("torch.", "") + f", {name}"

    arguments.out.mkdir(parents=True, exist_ok=True)
    lines = [{**asdict(r), "device": name, "torch": torch.__version__} for r in results]
    with (arguments.out / "store_kv.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    (arguments.out / "store_kv.svg").write_text(picture(results, title))

    print(title)
    print(
        "layout     slots            n method            mode         us  host us     GB/s of copy"
    )
    for r in results:
        host = "" if r.host_microseconds is None else f"{r.host_microseconds:.1f}"
        print(
            f"{r.layout:10} {r.slots:11} {r.n:6} {r.method:17} {r.mode:5} {r.microseconds:9.2f} "
            f"{host:>8} {r.gb_per_s:8.1f} {r.of_plain_copy:7.2f}"
        )
    if arguments.device == "cuda":
        print("\n".join(verdicts(results)))
    print(f"{time.perf_counter() - begin:.0f} s; {arguments.out}/store_kv.csv, store_kv.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
