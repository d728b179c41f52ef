"""`kvref replay`: runs what a file recorded on a target, and says whether it still fails."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvref.cli.bench import Unsuited, bench_of
from kvref.cli.exits import CLEAN, FOUND, UNTESTABLE, console, misused, shown
from kvref.cli.step_view import StepView
from kvref.cli.workload import Options as Workload
from kvref.cli.workload import replay_requests
from kvref.registry import UnknownTarget
from kvref.replaying import Replayed, early_end, replay_trace
from kvref.steps import walk
from kvref.target import CannotBuild
from kvref.traces.format import Trace, TraceError
from kvref.traces.reader import first_line, read
from kvref.traces.targets import NoTarget, target_of

__all__ = ["Options", "replay"]

_DEFAULT = "kvgpu-radix"


@dataclass(frozen=True)
class Options:
    """What a replay was asked for beside the file.

    Fields:
        target: None for the one in the file, or the default.
        step, isolate, seconds: for a trace of operations.
        workload: for one of requests.
        of_operations, of_requests: those that were given and are for the one kind alone.
    """

    target: str | None
    step: bool
    isolate: bool
    seconds: float
    workload: Workload
    of_operations: tuple[str, ...] = ()
    of_requests: tuple[str, ...] = ()


def replay(path: Path, options: Options) -> int:
    """Replay the file, of whatever kind it is; returns the exit status."""
    try:
        is_trace = _is_trace(first_line(path))
        useless = options.of_requests if is_trace else options.of_operations
        if useless:
            kinds = ("requests", "operations") if is_trace else ("operations", "requests")
            words = "{} is for a trace of {}, and {} is one of {}"
            return misused("replay", words.format(useless[0], kinds[0], path, kinds[1]))
        if is_trace:
            return _replay_trace(path, options)
        return replay_requests(path, options.target or _DEFAULT, options.workload)
    except TraceError as error:
        return misused("replay", error)


def _replay_trace(path: Path, options: Options) -> int:
    trace = read(path)
    try:
        target = target_of(trace, path, options.target, ("kvref", "replay", str(path)))
        with bench_of(trace, target, isolate=options.isolate, time_limit=options.seconds) as bench:
            out = console()
            count = len(trace.program.operations)
            out.print(shown(f"{path}: {count} operations on {target}"), markup=False)
            if trace.header.note:
                out.print(shown(f"note: {trace.header.note}"), markup=False)
            if trace.gap is not None:
                words = f"the recording ends before its manager did: {trace.gap}"
                out.print(shown(words), markup=False)
            if options.step:
                walk(bench, trace.program, StepView(out).show)
            replayed = replay_trace(trace, bench)
    except NoTarget as error:
        return misused("replay", error)
    except (UnknownTarget, Unsuited, CannotBuild) as error:
        return misused("replay", error, UNTESTABLE)
    return _verdict(trace, replayed)


def _verdict(trace: Trace, replayed: Replayed) -> int:
    out = console()
    recorded, divergence = trace.divergence, replayed.divergence
    if replayed.otherwise is not None:
        index, what = replayed.otherwise
        call = trace.program.operations[index].python(index)
        words = f"first otherwise than recorded at operation {index}, {call}: {what}"
        out.print(shown(words), markup=False)
    if replayed.ended_before is not None:
        out.print("[bold yellow]not judged to its end[/bold yellow]: ", end="")
        out.print(early_end(trace, replayed), markup=False)
        return FOUND
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
