"""`kvref situations`: what there is to be met, and a smallest example of each."""

from __future__ import annotations

import difflib

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvref.cli.exits import CLEAN, FOUND, misused
from kvref.cli.report import id_width
from kvref.machine import unsuited
from kvref.registry import UnknownTarget, find, find_requests
from kvref.situations.registry import SITUATIONS
from kvref.situations.replay import run
from kvref.situations.witnesses import WITNESSES
from kvref.target import CannotBuild

__all__ = ["situations"]


def situations(name: str | None, target: str | None) -> int:
    """List them, or show one and, with a target, judge its example there; the exit status."""
    console = Console(highlight=False, soft_wrap=name is not None)
    if name is None:
        table = Table(box=None, header_style="bold")
        width = id_width(max(map(len, SITUATIONS)), console.width)
        table.add_column("situation", min_width=width, overflow="fold")
        table.add_column("what has happened")
        for situation in SITUATIONS.values():
            table.add_row(escape(situation.id), escape(situation.sentence))
        console.print(table)
        return CLEAN
    if name not in SITUATIONS:
        near = difflib.get_close_matches(name, SITUATIONS, n=1)
        hint = f": did you mean {near[0]}?" if near else "; `kvref situations` lists them"
        return misused("situations", f"there is no situation {name!r}{hint}")
    situation = SITUATIONS[name]
    for line in (situation.sentence, situation.why, "", WITNESSES[name].python()):
        console.print(line, markup=False)
    return CLEAN if target is None else _judge(console, name, target)


def _judge(console: Console, name: str, target: str) -> int:
    try:
        requests = SITUATIONS[name].machine == "requests"
        factory = find_requests(target) if requests else find(target)
        why = unsuited(WITNESSES[name].configuration, factory.promises)
        if why is not None:
            words = f"{target}: not judged, its promises rule it out: the example has {why}"
            console.print(words, markup=False)
            return CLEAN
        judge, tally = run(WITNESSES[name], target, factory)
    except (UnknownTarget, CannotBuild) as error:
        return misused("situations", error)
    if judge.divergence is not None:
        console.print(str(judge.divergence), markup=False)
        return FOUND
    met = tally.situations[name].met
    words = "clean" if met else "clean, and not met: what it takes is not promised"
    console.print(f"{target}: {words}", markup=False)
    return CLEAN
