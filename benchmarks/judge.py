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
    Factory,
    Totals,
    campaign,
    start_isolated,
    start_locally,
)
from kvref.isolated import TargetProcess
from kvref.registry import find, find_requests

AIMS = {"manager": 20_000, "requests": 10_000}
"""Operations a second on kvgpu-radix, the first line of each machine."""


def plain_python() -> float:
    """Microseconds of `sum(range(1000))`: what this machine is worth at this moment."""
    return min(timeit.repeat(lambda: sum(range(1000)), number=500, repeat=10)) / 500 * 1e6


def rate(target: str, machine: str, seconds: float, look_every: int, isolate: bool) -> float:
    """Judged operations a second in one campaign of so many seconds."""
    factory: Factory = find(target) if machine == "manager" else find_requests(target)
    totals = Totals()
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
    verdicts: dict[str, str] = {}
    titles = ("target", "machine", "looks", "operations/s", "us each", "plain us")
    print("{:<12} {:<9} {:>12} {:>13} {:>8} {:>9}".format(*titles))
    for target, machine, look_every, isolate in (
        ("kvgpu-radix", "manager", LOOK_EVERY, False),
        ("kvgpu-radix", "manager", 1, False),
        ("kvgpu-radix", "manager", LOOK_EVERY, True),
        ("kvgpu-naive", "manager", LOOK_EVERY, False),
        ("kvgpu-radix", "requests", REQUESTS_LOOK_EVERY, False),
        ("kvgpu-radix", "requests", 1, False),
        ("kvgpu-radix", "requests", REQUESTS_LOOK_EVERY, True),
        ("kvgpu-naive", "requests", REQUESTS_LOOK_EVERY, False),
    ):
        best, plain = max(
            (rate(target, machine, chosen.seconds, look_every, isolate), plain_python())
            for _ in range(chosen.repeats)
        )
        looks = f"every {look_every}" + ("*" if isolate else "")
        print(
            f"{target:<12} {machine:<9} {looks:>12} {best:>13,.0f} {1e6 / best:>8.1f} {plain:>9.1f}"
        )
        verdicts.setdefault(machine, "met" if best >= AIMS[machine] else "not met here")
    print("* in a process of its own, by wall time")
    for machine, verdict in verdicts.items():
        aim = f"{AIMS[machine]:,} operations/s"
        print(f"aim for kvgpu-radix, the first line of {machine}: {aim}: {verdict}")


if __name__ == "__main__":
    main()
