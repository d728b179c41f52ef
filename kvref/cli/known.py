"""`kvref known`: the file of failures that a campaign goes past."""

from __future__ import annotations

from pathlib import Path

from kvref.cli.bench import Unsuited, bench_of, not_failing
from kvref.cli.exits import CLEAN, FOUND, INTERRUPTED, console, misused, shown
from kvref.known import add as add_known
from kvref.known import fingerprint, load
from kvref.registry import UnknownTarget
from kvref.shrink import NotFailing, shrink
from kvref.target import CannotBuild
from kvref.traces.format import TraceError
from kvref.traces.reader import read
from kvref.traces.targets import NoTarget, target_of

__all__ = ["add", "show"]


def add(
    file: Path, path: Path, note: str, *, target: str | None, isolate: bool, time_limit: float
) -> int:
    """Shrink the trace at `path` and add its fingerprint; returns the exit status."""
    out = console()
    try:
        trace = read(path)
        command = ("kvref", "known", "add", str(file), str(path), "--target")
        target = target_of(trace, path, target, command)
        with bench_of(trace, target, isolate=isolate, time_limit=time_limit) as bench:
            try:
                shrunk = shrink(trace.machine, bench, trace.program)
            except NotFailing:
                why = not_failing(trace, bench, target)
                out.print(shown(f"{path} {why}: nothing was added"), markup=False)
                return FOUND
        if not shrunk.finished:
            raise KeyboardInterrupt
        known = fingerprint(
            trace.machine, shrunk.program, shrunk.divergence, note or trace.header.note or ""
        )
        added = add_known(file, known)
    except KeyboardInterrupt:
        return misused("known add", "interrupted, so nothing was added", INTERRUPTED)
    except (TraceError, NoTarget, UnknownTarget, Unsuited, CannotBuild, OSError) as error:
        return misused("known add", error)
    how = "added to" if added else "was already in"
    out.print(
        f"{known.kind.value} in {len(known.operations)} operations {how} {file}", markup=False
    )
    return CLEAN


def show(file: Path) -> int:
    """Print what is in the file; returns the exit status."""
    try:
        found = load(file)
    except TraceError as error:
        return misused("known list", error)
    out = console()
    for each in found:
        out.print(shown(f"{each.kind.value}: {each.note or 'no note'}"), markup=False)
        for operation in each.operations:
            out.print(shown(f"    {bytes(operation).decode()}"), markup=False)
    out.print(f"{len(found)} known")
    return CLEAN
