"""`kvref known`: the file of failures that a campaign goes past."""

from __future__ import annotations

from pathlib import Path

from kvref.cli.exits import CLEAN, FOUND, console, misused
from kvref.known import add as add_known
from kvref.known import fingerprint, load
from kvref.registry import UnknownTarget
from kvref.shrink import NotFailing, shrink
from kvref.target import CannotBuild
from kvref.traces.format import TraceError
from kvref.traces.reader import read

__all__ = ["add", "show"]


def add(file: Path, path: Path, note: str, *, isolate: bool, time_limit: float) -> int:
    """Shrink the trace at `path` and add its fingerprint; returns the exit status."""
    out = console()
    try:
        trace = read(path)
        target = trace.header.target
        if target is None:
            return misused("known add", f"{path} names no target")
        with trace.machine.bench(
            target, seconds=time_limit, isolate=isolate, look_every=trace.header.look_every
        ) as bench:
            shrunk = shrink(trace.machine, bench, trace.program)
        if not shrunk.finished:
            return misused("known add", "interrupted, so nothing was added")
        known = fingerprint(
            trace.machine, shrunk.program, shrunk.divergence, note or trace.header.note or ""
        )
        added = add_known(file, known)
    except NotFailing:
        out.print(f"{path} does not fail on {target}: nothing was added", markup=False)
        return FOUND
    except (TraceError, UnknownTarget, CannotBuild, OSError) as error:
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
        out.print(f"{each.kind.value}: {each.note or 'no note'}", markup=False)
        for operation in each.operations:
            out.print(f"    {bytes(operation).decode()}", markup=False)
    out.print(f"{len(found)} known")
    return CLEAN
