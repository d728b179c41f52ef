"""What `kvref fuzz` says of what its runs exercised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from kvref.cli.machines import Machine
from kvref.cli.report import say_in_short
from kvref.situations.counting import Counting
from kvref.situations.tally import Tally, write

__all__ = ["WATCH_EVERY", "WHOLE", "Exercised", "exercised", "watch"]

WATCH_EVERY = 2
"""Situations are counted in one of so many runs: to watch all of them is too dear."""
WHOLE = {"manager": 40_000, "requests": 20_000}
"""Watched operations of each machine after which everything that has to be met was met, many times
over. A shorter run says what it missed, and does not fail for it."""


@dataclass(frozen=True)
class Exercised:
    """What runs of this length have to meet and did not; and whether that is on file as asked."""

    missed: list[str]
    written: bool


def watch(target: str, machines: list[Machine]) -> None:
    """Count what the runs of these machines exercise."""
    for each in machines:
        each.counting = Counting(target, each.factory.promises, every=WATCH_EVERY)


def exercised(
    console: Console, machines: list[Machine], report: Path | None, *, title: bool
) -> Exercised:
    """Say what was exercised, and write it."""
    missed: list[str] = []
    tallies: list[Tally] = []
    for each in machines:
        if each.counting is None or not each.totals.runs:
            continue
        tally = each.counting.tally()
        tallies.append(tally)
        never = say_in_short(console, tally, each.name if title else "")
        if tally.operations >= WHOLE[each.name]:
            missed += never
    if tallies:
        console.print("these are counted in every second run, from the first one on")
    if report is None:
        return Exercised(missed, True)
    try:
        if not tallies:
            raise OSError("no run came to its end, so nothing was counted")
        write(report, tallies)
    except OSError as error:
        console.print(f"[red]report NOT written[/red]: {escape(str(error))}")
        return Exercised(missed, False)
    console.print(f"report: {report}", markup=False)
    return Exercised(missed, True)
