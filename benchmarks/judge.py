"""How many operations a second the judge does, on one core. Prints a table.

By processor time of this process, the best of `--repeats`. Machines differ and are shared: beside
each figure stands a loop of plain Python, so that ratios can be compared between runs.
"""

from __future__ import annotations

import argparse
import time
import timeit

from kvref.campaign import (
    LOOK_EVERY,
    REQUESTS_LOOK_EVERY,
    Totals,
    campaign,
    start_isolated,
    start_locally,
)
from kvref.isolated import TargetProcess
from kvref.registry import find

AIMS = {"manager": 20_000, "requests": 10_000}
"""For kvgpu-radix, in the first line of each machine."""


def plain_python() -> float:
    """Microseconds of `sum(range(1000))`: what this machine is worth at this moment."""
    return min(timeit.repeat(lambda: sum(range(1000)), number=500, repeat=10)) / 500 * 1e6


def rate(target: str, machine: str, seconds: float, look_every: int, isolate: bool) -> float:
    """Judged operations a second in one campaign of so many seconds."""
    found, totals = find(target), Totals()
    factory = found.requests if machine == "requests" else found
    process = TargetProcess(target) if isolate else None
    start = start_isolated(process) if process else start_locally(factory, 10.0)
    clock = time.monotonic if isolate else time.process_time
    end = time.monotonic() + seconds
    for failure in campaign(start, factory, 0, totals, look_every=look_every, clock=clock):
        assert failure is None, failure
        if time.monotonic() > end:
            break
    if process is not None:
        process.close()
    return totals.rate


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of one measurement")
    parser.add_argument("--repeats", type=int, default=3, help="of which the best counts")
    chosen = parser.parse_args()
    best: dict[str, float] = {}
    print(
        f"{'target':<12} {'machine':<9} {'looks':>10} {'operations/s':>13} {'us each':>8} "
        f"{'plain us':>9}"
    )
    for target, machine, look_every, isolate in (
        ("kvgpu-radix", "manager", LOOK_EVERY, False),
        ("kvgpu-radix", "requests", REQUESTS_LOOK_EVERY, False),
        ("kvgpu-radix", "manager", 1, False),
        ("kvgpu-radix", "requests", 1, False),
        ("kvgpu-radix", "manager", LOOK_EVERY, True),
        ("kvgpu-radix", "requests", REQUESTS_LOOK_EVERY, True),
        ("kvgpu-naive", "manager", LOOK_EVERY, False),
        ("kvgpu-naive", "requests", REQUESTS_LOOK_EVERY, False),
    ):
        reached, plain = max(
            (rate(target, machine, chosen.seconds, look_every, isolate), plain_python())
            for _ in range(chosen.repeats)
        )
        best.setdefault(machine, reached)
        looks = f"every {look_every}" + ("*" if isolate else "")
        print(
            f"{target:<12} {machine:<9} {looks:>10} {reached:>13,.0f} {1e6 / reached:>8.1f} "
            f"{plain:>9.1f}"
        )
    print("* in a process of its own, by wall time")
    for machine, aim in AIMS.items():
        verdict = "met" if best[machine] >= aim else "not met here"
        print(f"aim for kvgpu-radix, {machine}, its first line: {aim:,} operations/s: {verdict}")


if __name__ == "__main__":
    main()
