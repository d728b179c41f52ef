"""`kvref shrink`: makes a short trace of a long one."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from kvref.cli.bench import Unsuited, bench_of, not_failing
from kvref.cli.exits import CLEAN, FOUND, INTERRUPTED, console, misused, shown
from kvref.cli.findings import body
from kvref.cli.progress import Progress
from kvref.files import over_input
from kvref.registry import UnknownTarget
from kvref.shrink import NotFailing, Shrunk, shrink
from kvref.target import CannotBuild
from kvref.traces.failures import write_failure
from kvref.traces.format import TraceError
from kvref.traces.reader import read
from kvref.traces.targets import NoTarget, replay_command, target_of

__all__ = ["shrink_file"]


def shrink_file(
    path: Path,
    target: str | None,
    out: Path | None,
    *,
    seconds: float | None,
    isolate: bool,
    time_limit: float,
) -> int:
    """Shrink the trace in the file; returns the exit status."""
    try:
        trace = read(path)
    except TraceError as error:
        return misused("shrink", error)
    to = out or path.with_name(f"{path.stem}-shrunk.jsonl")
    if to.suffix == ".py":
        return misused("shrink", f"{to} is where the program goes; -o names the trace beside it")
    over = over_input(to, path) or over_input(to.with_suffix(".py"), path)
    if over is not None:
        return misused("shrink", f"{over} with -o")
    screen = console()
    began = time.monotonic()
    try:
        target = target_of(trace, path, target, ("kvref", "shrink", str(path)))
        with (
            bench_of(trace, target, isolate=isolate, time_limit=time_limit) as bench,
            Progress(screen) as progress,
        ):
            try:
                shrunk = shrink(
                    trace.machine, bench, trace.program, seconds=seconds, progress=progress.tries
                )
            except NotFailing:
                why = not_failing(trace, bench, target)
                screen.print(shown(f"{path} {why}: there is nothing to shrink"), markup=False)
                return FOUND
            write_failure(
                to,
                trace.machine,
                bench,
                shrunk.program,
                shrunk.divergence,
                target=target,
                look_every=shrunk.look_every,
                seed=trace.header.seed,
                run=trace.header.run,
                note=trace.header.note,
            )
            lines = body(trace.machine, bench, shrunk)
    except (NoTarget, UnknownTarget, Unsuited, CannotBuild, OSError) as error:
        return misused("shrink", error)
    except KeyboardInterrupt:  # before there was anything to keep
        return INTERRUPTED
    _say(screen, lines, shrunk, len(trace.program.operations), time.monotonic() - began)
    screen.print(f"written to {to}, and as a program beside it (.py)", markup=False)
    screen.print(f"replay it: {replay_command(to, target)}", markup=False)
    return INTERRUPTED if shrunk.interrupted else CLEAN


def _say(screen: Console, lines: list[str], shrunk: Shrunk, was: int, seconds: float) -> None:
    now = len(shrunk.program.operations)
    screen.print(
        f"from {was} operations to {now}, in {shrunk.tries} tries and {seconds:.1f} s"
        + ("" if shrunk.finished else "; not finished, the best so far")
    )
    for line in lines:
        screen.print(f"    {line}", markup=False)
    screen.print(str(shrunk.divergence), markup=False)
