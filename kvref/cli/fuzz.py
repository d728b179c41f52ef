"""`kvref fuzz`: runs a campaign, shows how far it is, and gives a verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from kvref.campaign import (
    LOOK_EVERY,
    REQUESTS_LOOK_EVERY,
    Failure,
    campaign,
    start_isolated,
    start_locally,
)
from kvref.cli.exits import CLEAN, FOUND, INTERRUPTED, MISUSED
from kvref.cli.machines import Machine, MachineChoice, machines_of
from kvref.cli.progress import Progress
from kvref.cli.report import say_in_short
from kvref.failure_file import write
from kvref.isolated import TargetProcess
from kvref.registry import UnknownTarget
from kvref.situations.counting import Counting
from kvref.situations.tally import Tally
from kvref.situations.tally import write as write_tallies
from kvref.target import CannotBuild

__all__ = ["LOOK_EVERY", "REQUESTS_LOOK_EVERY", "TIME_LIMIT", "Limits", "fuzz"]

TIME_LIMIT = 10.0

_LEAST_ACCEPTED = 0.5
"""Below this share the run says little: most calls were only refused."""
WATCH_EVERY = 2
"""Situations are counted in one of so many runs: to watch all of them is too dear."""
WHOLE = {"manager": 60_000, "requests": 40_000}
"""Watched operations of each machine after which everything that has to be met was met, many times
over. A shorter run says what it missed, and does not fail for it."""


@dataclass(frozen=True)
class Limits:
    """When to stop: whichever comes first."""

    seconds: float | None
    operations: int | None
    run: int | None
    failures: int
    one_operation: float


def fuzz(
    target: str,
    limits: Limits,
    seed: int,
    *,
    isolate: bool,
    look_every: int | None,
    out: Path,
    machine: MachineChoice | None = None,
    situations: bool = True,
    report: Path | None = None,
) -> int:
    """Run the campaign; returns the exit status."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        machines = machines_of(target, machine, look_every)
    except UnknownTarget as error:
        return _misused(error)
    console.print(
        f"target {escape(target)}, seed {seed}"
        + (f", run {limits.run}" if limits.run is not None else "")
    )
    if situations:
        for each in machines:
            each.counting = Counting(target, each.factory.promises, every=WATCH_EVERY)
    process = TargetProcess(target, limits.one_operation) if isolate else None
    # The time of a process of its own is not ours to count.
    clock, of_what = (time.monotonic, "") if isolate else (time.process_time, " of processor time")
    campaigns = [
        campaign(
            start_isolated(process)
            if process
            else start_locally(each.factory, limits.one_operation),
            each.factory,
            seed,
            each.totals,
            first_run=limits.run or 0,
            look_every=each.look_every,
            clock=clock,
            counting=each.counting,
        )
        for each in machines
    ]
    options = _options(limits, isolate, look_every)
    named = machine is not None or len(machines) > 1
    found: Counter[tuple[str, str]] = Counter()
    interrupted = False
    unbuilt: CannotBuild | None = None
    began = time.monotonic()
    try:
        with Progress(console) as progress:
            for failure in _in_turn(machines, campaigns, once=limits.run is not None):
                if failure is not None:
                    kind = (
                        failure.divergence.kind.value,
                        type(failure.divergence.operation).__name__,
                    )
                    found[kind] += 1
                    where = _keep(out, target, failure)
                    how = target + (f" --machine {failure.machine}" if named else "") + options
                    _report(console, how, failure, where, in_full=found[kind] == 1)
                progress.show(lambda elapsed: _line(machines, found, elapsed))
                if _enough(limits, machines, found, time.monotonic() - began):
                    break
    except KeyboardInterrupt:
        interrupted = True
    except CannotBuild as error:
        unbuilt = error
    finally:
        if process is not None:
            process.close()
    ran = [each for each in machines if each.totals.runs or unbuilt is None]
    for each in ran:
        if len(ran) == 1:
            each.seconds = time.monotonic() - began
        _judged(console, each, of_what, title=len(machines) > 1)
    if [each.name for each in machines] == ["manager"] and machine is None:
        console.print(
            "whole requests were not judged: the target is a bare manager "
            "(--machine requests puts the reference life of requests over it)"
        )
    lowest = min((each.totals.share_accepted for each in ran), default=1.0)
    missed = _exercised(console, ran, report, title=len(machines) > 1)
    good = True
    if ran:
        good = _verdict(console, lowest, found, [] if limits.run is not None else missed)
    if unbuilt is not None:
        _misused(unbuilt)
    if found:
        return FOUND
    if unbuilt is not None:
        return MISUSED
    if interrupted:
        console.print("[bold]interrupted[/bold]: clean so far")
        return INTERRUPTED
    return CLEAN if good else FOUND


def _exercised(
    console: Console, machines: list[Machine], report: Path | None, *, title: bool
) -> list[str]:
    """Say what was exercised, and write it; returns what runs of this length have to meet."""
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
    if report is not None:
        try:
            write_tallies(report, tallies)
        except OSError as error:
            console.print(f"[red]report NOT written[/red]: {escape(str(error))}")
        else:
            console.print(f"report: {report}", markup=False)
    return missed


def _in_turn(
    machines: list[Machine], campaigns: list[Iterator[Failure | None]], *, once: bool
) -> Iterator[Failure | None]:
    """Run after run, of the machine that has run the shortest time; or one of each."""
    waiting = list(zip(machines, campaigns, strict=True))
    while waiting:
        machine, runs = turn = min(waiting, key=lambda each: each[0].seconds)
        began = time.monotonic()
        try:
            failure = next(runs)
        finally:
            machine.seconds += time.monotonic() - began
        if once:
            waiting.remove(turn)
        yield failure


def _misused(error: Exception) -> int:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"kvref fuzz: {error}", markup=False)
    return MISUSED


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


def _keep(out: Path, target: str, failure: Failure) -> str:
    """Write it to its file; says where, or why not, so that a full disk ends no campaign."""
    try:
        return f"written to {write(out, target, failure)}, and as a program beside it (.py)"
    except OSError as error:
        return f"NOT written: {error}"


def _report(console: Console, how: str, failure: Failure, where: str, *, in_full: bool) -> None:
    """The difference, how to have it again, and the end of the program; a twin in one line."""
    again = f"kvref fuzz {how} --seed {failure.seed} --run {failure.run}"
    if not in_full:
        console.print(f"once more: {failure.divergence.kind.value}, {again}, {where}", markup=False)
        return
    console.print("\n[bold red]DIFFERENCE[/bold red] ", end="")
    console.print(str(failure.divergence), markup=False)
    console.print(f"  run again: {again}", markup=False)
    console.print(f"  {where}", markup=False)
    console.print(
        f"  the program ends ({len(failure.operations)} operations in all):", markup=False
    )
    for line in failure.program.splitlines()[-8:]:
        console.print(f"    {line}", markup=False)


def _judged(console: Console, machine: Machine, of_what: str, *, title: bool) -> None:
    """What one machine did, and how often each law was judged."""
    totals = machine.totals
    console.print(
        (f"\n[bold]{machine.name}[/bold]: " if title else "\n")
        + f"{totals.operations:,} operations in {totals.runs:,} runs and {machine.seconds:.1f} s, "
        f"{totals.rate:,.0f}/s{of_what}; {totals.share_accepted:.0%} accepted, "
        f"{totals.refused:,} rightly refused"
        + (f", {totals.skipped:,} skipped" if totals.skipped else "")
    )
    console.print("judged, how often:")
    promises = machine.factory.promises
    reasons = promises.not_judged()
    for law, sentence in machine.laws.items():
        count = totals.judged[law]
        if law == "legal-victims" and promises.eviction == "exact":
            continue  # no gap: the law of victims says more
        if count:
            note = f"  [dim]({escape(reasons[law])})[/dim]" if law in reasons else ""
            console.print(f"  {count:>10,}  {law}: {sentence}{note}")
        else:
            reason = reasons.get(law, "it did not come up, or the target cannot be looked into")
            console.print(f"           -  {law}: [yellow]not judged[/yellow], {escape(reason)}")
    if machine.name == "manager":
        seldom, ends = "structure, integrity", "before its locks are given back"
    else:
        seldom, ends = "rows, contents, structure, ledger", "before its requests are ended"
    console.print(
        f"{seldom} and the oracle's own recount: every {machine.look_every} operations of a "
        f"run, {ends}, and at its end; all else after each operation"
    )


def _verdict(
    console: Console, lowest: float, found: Counter[tuple[str, str]], missed: list[str]
) -> bool:
    """The last line; returns whether the run is worth to be called clean."""
    meaningless = "[bold red]not a meaningful run[/bold red]:"
    if found:
        kinds = ", ".join(f"{kind} at {where} ({count})" for (kind, where), count in found.items())
        console.print(f"[bold red]found {found.total()}[/bold red]: {kinds}")
        return False
    if lowest < _LEAST_ACCEPTED:
        console.print(
            f"{meaningless} only {lowest:.0%} of the operations were accepted, "
            f"fewer than {_LEAST_ACCEPTED:.0%}"
        )
        return False
    if missed:
        console.print(f"{meaningless} it never met {', '.join(missed)}")
        return False
    console.print("[bold green]clean[/bold green]: no difference from the oracle")
    return True
