"""`kvref replay`: runs what a file recorded on a target, and says whether it still fails."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvref.cli.exits import CLEAN, FOUND, MISUSED, UNTESTABLE, console, misused
from kvref.cli.step_view import StepView
from kvref.cli.workload import Options as Workload
from kvref.cli.workload import replay_requests
from kvref.registry import UnknownTarget
from kvref.replaying import Replayed, replay_trace
from kvref.steps import walk
from kvref.target import CannotBuild
from kvref.traces.format import Trace, TraceError
from kvref.traces.reader import first_line, read

__all__ = ["Options", "replay"]

_DEFAULT = "kvgpu-radix"


@dataclass(frozen=True)
class Options:
    """What a replay was asked for beside the file.

    Fields:
        target: None for the one in the file, or the default.
        step, isolate, seconds: for a trace of operations.
        workload: for one of requests.
    """

    target: str | None
    step: bool
    isolate: bool
    seconds: float
    workload: Workload


def replay(path: Path, options: Options) -> int:
    """Replay the file, of whatever kind it is; returns the exit status."""
    try:
        if _is_trace(first_line(path)):
            return _replay_trace(path, options)
        return replay_requests(path, options.target or _DEFAULT, options.workload)
    except TraceError as error:
        return misused("replay", error)


def _replay_trace(path: Path, options: Options) -> int:
    trace = read(path)
    target = options.target or trace.header.target
    if target is None:
        return misused("replay", f"{path} names no target; give one", MISUSED)
    try:
        with trace.machine.bench(
            target,
            seconds=options.seconds,
            isolate=options.isolate,
            look_every=trace.header.look_every,
        ) as bench:
            why = trace.machine.unsuited(trace.program.configuration, bench.promises)
            if why is not None:
                return misused("replay", f"{target} cannot be built so: {why}", UNTESTABLE)
            out = console()
            count = len(trace.program.operations)
            out.print(f"{path}: {count} operations on {target}", markup=False)
            if trace.header.note:
                out.print(f"note: {trace.header.note}", markup=False)
            if trace.gap is not None:
                out.print(f"the recording ends before its manager did: {trace.gap}", markup=False)
            if options.step:
                walk(bench, trace.program, StepView(out).show)
            replayed = replay_trace(trace, bench)
    except (UnknownTarget, CannotBuild) as error:
        return misused("replay", error, UNTESTABLE)
    return _verdict(trace, replayed)


def _verdict(trace: Trace, replayed: Replayed) -> int:
    out = console()
    recorded, divergence = trace.divergence, replayed.divergence
    if replayed.otherwise is not None:
        index, what = replayed.otherwise
        call = trace.program.operations[index].python(index)
        out.print(
            f"first otherwise than recorded at operation {index}, {call}: {what}", markup=False
        )
    if divergence is None:
        was = "" if recorded is None else f"; recorded was {recorded.kind.value}"
        out.print(f"[bold green]agrees[/bold green]: no difference from the oracle{was}")
        return CLEAN
    out.print("[bold red]DIFFERENCE[/bold red] ", end="")
    out.print(str(divergence), markup=False)
    if recorded is not None:
        same = (recorded.kind, recorded.law, recorded.index) == (
            divergence.kind,
            divergence.law,
            divergence.index,
        )
        out.print(
            "it still fails as recorded"
            if same
            else f"it fails, and otherwise than recorded: {recorded.kind.value} at operation "
            f"{recorded.index}"
        )
    return FOUND


def _is_trace(first: bytes) -> bool:
    # Also one of a version that is not read here: the reader says so better.
    return b'"kvref.trace/' in first[:4096]
