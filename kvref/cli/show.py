"""`kvref show`: makes a page of a trace, that shows each step of it."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from kvref.cli.bench import Unsuited, bench_of
from kvref.cli.exits import CLEAN, INTERRUPTED, UNTESTABLE, console, misused, shown
from kvref.cli.step_view import StepView
from kvref.files import over_input, replace
from kvref.page.show import show
from kvref.registry import UnknownTarget
from kvref.steps import Step
from kvref.target import CannotBuild
from kvref.traces.format import TraceError
from kvref.traces.reader import read
from kvref.traces.targets import NoTarget, target_of

__all__ = ["show_file"]


def show_file(
    path: Path, output: Path | None, target: str | None, *, isolate: bool, time_limit: float
) -> int:
    """Run the trace in the file and write its page; returns the exit status."""
    try:
        trace = read(path)
    except TraceError as error:
        return misused("show", error)
    to = output or path.with_suffix(".html")
    over = over_input(to, path)
    if over is not None:
        return misused("show", f"{over} with -o")
    try:
        target = target_of(trace, path, target, ("kvref", "show", str(path), "--target"))
        with bench_of(trace, target, isolate=isolate, time_limit=time_limit) as bench:
            page, verdict = show(
                trace, bench, target=target, name=path.name, in_plain=_as_on_a_terminal
            )
    except NoTarget as error:
        return misused("show", error)
    except (UnknownTarget, Unsuited, CannotBuild) as error:
        return misused("show", error, UNTESTABLE)
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        replace(to, page.encode())
    except OSError as error:
        return misused("show", error)
    out = console()
    for sentence in (verdict.title, *verdict.sentences):
        out.print(shown(sentence), markup=False)
    out.print(f"written to {to} ({len(page) / 1024:,.0f} KiB)", markup=False)
    return CLEAN


def _as_on_a_terminal(step: Step) -> str:
    """What `kvref replay --step` prints of it."""
    text = io.StringIO()
    StepView(Console(file=text, width=200, highlight=False, soft_wrap=True)).show(step)
    return text.getvalue().strip("\n")
