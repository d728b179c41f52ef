"""`kvref report`: what runs exercised, in the terminal and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvref.cli.exits import CLEAN, FOUND, misused, shown
from kvref.files import over_input, replace
from kvref.situations.collector import merged
from kvref.situations.page import page
from kvref.situations.tally import Tally, TallyError, read
from kvref.situations.view import Changes, View, view

__all__ = ["id_width", "report", "say_in_short"]

_NUMBER = 9
"""The width of a column of counts: millions, and the space beside it."""
_WORDS = 20
"""In less than that a sentence is not read."""

_STYLES = {
    "met": "green", "counted": "green", "missed": "bold red", "vacuous": "red",
    "not met": "yellow", "not judged": "yellow", "ruled out": "dim",
}  # fmt: skip


def report(
    paths: Sequence[Path], *, html: Path | None, baseline: Path | None, require: bool
) -> int:
    """Print the report of all files together; returns the exit status."""
    console = Console(highlight=False)
    over = over_input(html, *paths, *([baseline] if baseline else [])) if html else None
    if over is not None:
        return misused("report", over)
    try:
        found = merged(tally for path in paths for tally in read(path))
        old = merged(read(baseline)) if baseline else []
        views = [view(tally, _same(old, tally)) for tally in found]
        if html is not None:
            replace(html, page(views).encode())
    except (TallyError, OSError) as error:
        return misused("report", error)
    if not views:
        console.print("nothing was counted: no run is in what was read")
    for each in views:
        _show(console, each)
        if baseline is not None and each.changes is None:
            console.print(
                f"the baseline holds nothing of {shown(each.tally.target)} "
                f"({each.tally.machine}) with these promises: not compared",
                markup=False,
            )
    if html is not None:
        console.print(f"page: {html}", markup=False)
    return FOUND if require and (not views or any(each.missed for each in views)) else CLEAN


def id_width(longest: int, width: int) -> int:
    """Of the column of names: a name is read and typed again, so it is cut nowhere.

    On a terminal that is too narrow for it, it goes on in the next line.
    """
    return min(longest, max(1, width // 2))


def say_in_short(console: Console, tally: Tally, title: str = "") -> list[str]:
    """A few lines for the verdict of a campaign; returns what was required and never met."""
    found = view(tally)
    console.print((f"{title}: " if title else "") + found.headline, markup=False)
    vacuous = [row.id for row in found.laws if row.status == "vacuous"]
    if vacuous:
        console.print(f"judged, but with nothing at stake: {', '.join(vacuous)}", markup=False)
    if found.missed:
        console.print(f"never met: {', '.join(found.missed)}", markup=False)
    return found.missed


def _same(old: Sequence[Tally], tally: Tally) -> Tally | None:
    """The tally among those of the baseline that this one can be compared with."""
    return next((each for each in old if each.about == tally.about), None)


def _show(console: Console, found: View) -> None:
    tally = found.tally
    versions = ", ".join(f"{name} {' '.join(each)}" for name, each in tally.versions.items())
    console.print(
        f"\n[bold]{escape(shown(tally.target))}[/bold], {tally.machine}  "
        f"[dim]{escape(shown(versions))}[/dim]"
    )
    console.print(f"{tally.runs:,} runs, {tally.operations:,} operations", markup=False)
    console.print(found.headline, markup=False)
    console.print(_laws(found, console.width))
    console.print(_situations(found, console.width))
    if found.unknown:
        console.print(f"not known to this version: {', '.join(found.unknown)}", markup=False)
    if found.changes is not None:
        _changed(console, found.changes)
    if found.missed:
        console.print("[bold red]required and never met[/bold red]:", ", ".join(found.missed))
    else:
        console.print("[green]every situation that has to be met was met[/green]")


def _laws(found: View, width: int) -> Table:
    longest = max((len(row.id) for row in found.laws), default=0)
    wide = width >= longest + 2 * _NUMBER + _WORDS
    table = _table(
        longest, width, "law", "judged", "at stake", *([""] if wide else []), numbers=(1, 2)
    )
    for row in found.laws:
        words = row.why or (f"counts when {row.counts_when}" if row.counts_when else "")
        style = _STYLES[row.status]
        table.add_row(
            f"[{style}]{escape(row.id)}[/{style}]",
            f"{row.tally.judged:,}", f"{row.tally.counted:,}",
            *([f"[dim]{escape(words)}[/dim]"] if wide else []),
        )  # fmt: skip
    return table


def _situations(found: View, width: int) -> Table:
    longest = max((len(row.id) for row in found.situations), default=0)
    kinds = found.kinds
    # Beside the names, what was met and by whom first; the page has them all.
    if longest + 2 * _NUMBER + sum(max(len(kind) + 1, _NUMBER) for kind in kinds) > width:
        kinds = []
    table = _table(
        longest, width, "situation", "met", "first by", *map(escape, kinds),
        numbers=(1, *range(3, 3 + len(kinds))),
    )  # fmt: skip
    if not kinds:
        table.caption = "how often by each kind of operation: on a wider terminal, or with --html"
        table.caption_justify = "left"
    group = ""
    for row in found.situations:
        if row.group != group:
            group = row.group
            table.add_row(f"[bold]{escape(group)}[/bold]")
        style = _STYLES[row.status]
        tally = row.tally
        table.add_row(
            f"[{style}]{escape(row.id)}[/{style}]",
            f"{tally.met:,}" if tally.met else f"[{style}]{escape(row.reason or row.status)}[/]",
            escape(tally.first),
            *(f"{count:,}" if (count := tally.operations.get(kind, 0)) else "" for kind in kinds),
        )
    return table


def _table(longest: int, width: int, *columns: str, numbers: tuple[int, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place in numbers else "left", overflow="fold")
    table.columns[0].min_width = id_width(longest, width)
    return table


def _changed(console: Console, changes: Changes) -> None:
    if not changes:
        console.print("since the baseline: nothing that is worth a word")
        return
    console.print("[bold]since the baseline[/bold]")
    for name, found in vars(changes).items():
        if found:
            console.print(f"  {name.replace('_', ' ')}: {', '.join(found)}", markup=False)
