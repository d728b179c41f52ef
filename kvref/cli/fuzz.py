"""`kvref fuzz`: runs a campaign, shows how far it is, and gives a verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from kvref.campaign import (
    LOOK_EVERY,
    REQUESTS_LOOK_EVERY,
    Failure,
    campaign,
    start_isolated,
    start_locally,
)
from kvref.cli.exercised import exercised, watch
from kvref.cli.exits import CLEAN, FOUND, INTERRUPTED, MISUSED, misused
from kvref.cli.exits import console as report_console
from kvref.cli.findings import Findings, Shrinking
from kvref.cli.live import CannotWrite, Live
from kvref.cli.machines import Machine, MachineChoice, machines_of
from kvref.cli.progress import Progress
from kvref.cli.verdict import judged, known_failures, verdict
from kvref.files import check_writable
from kvref.isolated import TargetProcess
from kvref.known import KnownFailures
from kvref.machine import Bench
from kvref.machines import MACHINES
from kvref.manager_machine import ManagerBench
from kvref.registry import UnknownTarget
from kvref.requests.machine import RequestBench
from kvref.requests.target import RequestTargetFactory
from kvref.target import CannotBuild

__all__ = ["LOOK_EVERY", "REQUESTS_LOOK_EVERY", "TIME_LIMIT", "Limits", "fuzz"]

TIME_LIMIT = 10.0

_QUICK = 0.5
"""The time limit of an operation while a hang is shrunk, in seconds."""


@dataclass(frozen=True)
class Limits:
    """When to stop: whichever comes first."""

    seconds: float | None
    operations: int | None
    run: int | None
    failures: int
    one_operation: float


@dataclass
class _Runs:
    """One machine's campaign, what it found, and the trace of its run in progress."""

    machine: Machine
    campaign: Iterator[Failure | None]
    findings: Findings
    live: Live


def fuzz(
    target: str,
    limits: Limits,
    seed: int,
    *,
    isolate: bool,
    look_every: int | None,
    out: Path,
    machine: MachineChoice | None = None,
    shrink: bool = True,
    known: KnownFailures | None = None,
    live: bool = False,
    situations: bool = True,
    report: Path | None = None,
) -> int:
    """Run the campaign; returns the exit status."""
    console = report_console()
    try:
        machines = machines_of(target, machine, look_every)
        if report is not None:
            check_writable(report)
    except (UnknownTarget, OSError) as error:
        return misused("fuzz", error)
    console.print(
        f"target {escape(target)}, seed {seed}"
        + (f", run {limits.run}" if limits.run is not None else "")
    )
    if situations:
        watch(target, machines)
    process = TargetProcess(target, limits.one_operation) if isolate else None
    # The time of a process of its own is not ours to count.
    clock, of_what = (time.monotonic, "") if isolate else (time.process_time, " of processor time")
    known = known or KnownFailures([])
    options = _options(limits, isolate, look_every)
    named = machine is not None or len(machines) > 1
    found: Counter[tuple[str, str]] = Counter()

    def runs_of(each: Machine) -> _Runs:
        start: Any = (
            start_isolated(process)
            if process
            else start_locally(each.factory, limits.one_operation)
        )
        kind = MACHINES[each.name]
        bench = _bench(each, start)
        how = target + (f" --machine {each.name}" if named else "") + options
        findings = Findings(
            console,
            kind,
            bench,
            target,
            f"kvref fuzz {how}",
            out,
            Shrinking(_quick(bench, each, limits, isolate)) if shrink else None,
            known,
            found,
        )
        promises = each.factory.promises
        trace = Live(out, kind, target, promises, seed, each.look_every, on=live)
        runs = campaign(
            start,
            each.factory,
            seed,
            each.totals,
            first_run=limits.run or 0,
            look_every=each.look_every,
            clock=clock,
            listen=trace.listen,
            counting=each.counting,
        )
        return _Runs(each, runs, findings, trace)

    all_runs = [runs_of(each) for each in machines]
    interrupted = False
    stopped: CannotBuild | CannotWrite | None = None
    began = time.monotonic()
    try:
        with Progress(console) as progress:
            for findings, failure in _in_turn(all_runs, once=limits.run is not None):
                if failure is not None:
                    findings.take(failure)
                progress.show(lambda elapsed: _line(machines, found, elapsed))
                if _enough(limits, machines, found, time.monotonic() - began):
                    break
    except KeyboardInterrupt:
        interrupted = True
    except (CannotBuild, CannotWrite) as error:
        stopped = error
    finally:
        for each_run in all_runs:
            each_run.live.close()
        if process is not None:
            process.close()
    ran = [each for each in machines if each.totals.runs or stopped is None]
    for each in ran:
        if len(ran) == 1:
            each.seconds = time.monotonic() - began
        judged(console, each, of_what, title=len(machines) > 1)
    if [each.name for each in machines] == ["manager"] and machine is None:
        console.print(
            "whole requests were not judged: the target is a bare manager "
            "(--machine requests puts the reference life of requests over it)"
        )
    lowest = min((each.totals.share_accepted for each in ran), default=1.0)
    counted = exercised(console, ran, report, title=len(machines) > 1)
    good = True
    if ran and (found or not interrupted):  # else it was clean, and that is said below
        unmet = [] if limits.run is not None else counted.missed
        good = verdict(console, lowest, found, known, unmet)
    known_failures(console, known)
    if stopped is not None:
        misused("fuzz", stopped)
    if found:
        return FOUND
    if stopped is not None or not counted.written:
        return MISUSED
    if interrupted:
        console.print("[bold]interrupted[/bold]: clean so far")
        return INTERRUPTED
    return CLEAN if good else FOUND


def _bench(machine: Machine, start: Callable[[Any], Any]) -> Bench:
    factory, look_every = machine.factory, machine.look_every
    if isinstance(factory, RequestTargetFactory):
        return RequestBench(factory, look_every=look_every, start=start)
    return ManagerBench(factory, look_every=look_every, start=start)


def _quick(bench: Bench, machine: Machine, limits: Limits, isolate: bool) -> Bench:
    """With a short time limit, where that costs nothing: an isolated process would start anew."""
    if isolate or limits.one_operation <= _QUICK:
        return bench
    return _bench(machine, start_locally(machine.factory, _QUICK))


def _in_turn(all_runs: list[_Runs], *, once: bool) -> Iterator[tuple[Findings, Failure | None]]:
    """Run after run, of the machine that has run the shortest time; or one of each."""
    waiting = list(all_runs)
    while waiting:
        turn = min(waiting, key=lambda each: each.machine.seconds)
        began = time.monotonic()
        try:
            failure = next(turn.campaign)
        finally:
            turn.machine.seconds += time.monotonic() - began
        if once:
            waiting.remove(turn)
        yield turn.findings, failure


def _enough(
    limits: Limits, machines: list[Machine], found: Counter[tuple[str, str]], elapsed: float
) -> bool:
    """Whether to stop; not before each machine has run once."""
    operations = sum(machine.totals.operations for machine in machines)
    return found.total() >= limits.failures or (
        limits.run is None
        and all(machine.totals.runs for machine in machines)
        and (
            (limits.seconds is not None and elapsed >= limits.seconds)
            or (limits.operations is not None and operations >= limits.operations)
        )
    )


def _line(machines: list[Machine], found: Counter[tuple[str, str]], elapsed: float) -> str:
    done = "".join(
        f"{machine.name} {machine.totals.operations:,} operations, "
        f"{machine.totals.rate:,.0f}/s, {machine.totals.share_accepted:.0%} accepted; "
        for machine in machines
    )
    return f"{elapsed:5.0f} s  {done}{found.total()} failures"


def _options(limits: Limits, isolate: bool, look_every: int | None) -> str:
    """Those that a run depends on, where they are not the defaults."""
    return (
        (" --isolate" if isolate else "")
        + (f" --time-limit {limits.one_operation:g}" if limits.one_operation != TIME_LIMIT else "")
        + (f" --look-every {look_every}" if look_every is not None else "")
    )
