"""`kvref fuzz`: runs a campaign, shows how far it is, and gives a verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from kvref.campaign import LOOK_EVERY, Totals, campaign, start_isolated, start_locally
from kvref.cli.exits import CLEAN, FOUND, INTERRUPTED, MISUSED, misused
from kvref.cli.findings import Findings, Shrinking
from kvref.cli.live import Live as LiveTrace
from kvref.isolated import TargetProcess
from kvref.known import KnownFailures
from kvref.laws import LAWS
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.registry import UnknownTarget, find
from kvref.target import CannotBuild, TargetFactory

__all__ = ["LOOK_EVERY", "TIME_LIMIT", "Limits", "fuzz"]

TIME_LIMIT = 10.0

_QUICK = 0.5
"""The time limit of an operation while a hang is shrunk, in seconds."""
_LEAST_ACCEPTED = 0.5
"""Below this share the run says little: most calls were only refused."""


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
    look_every: int,
    out: Path,
    shrink: bool = True,
    known: KnownFailures | None = None,
    live: bool = False,
) -> int:
    """Run the campaign; returns the exit status."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        factory = find(target)
    except UnknownTarget as error:
        return misused("fuzz", error)
    console.print(
        f"target {escape(target)}, seed {seed}"
        + (f", run {limits.run}" if limits.run is not None else "")
    )
    process = TargetProcess(target, limits.one_operation) if isolate else None
    start = start_isolated(process) if process else start_locally(factory, limits.one_operation)
    options = _options(limits, isolate, look_every)
    totals = Totals()
    known = known or KnownFailures([])
    bench = ManagerBench(factory, look_every=look_every, start=start)
    findings = Findings(
        console,
        MANAGER,
        bench,
        target,
        f"kvref fuzz {target}{options}",
        out,
        Shrinking(_quick(bench, factory, limits, look_every, isolate)) if shrink else None,
        known,
    )
    found = findings.found
    live_trace = LiveTrace(out, MANAGER, target, factory.promises, seed, look_every, on=live)
    # The time of a process of its own is not ours to count.
    clock, of_what = (time.monotonic, "") if isolate else (time.process_time, " of processor time")
    interrupted = False
    unbuilt: CannotBuild | None = None
    began = time.monotonic()
    runs = campaign(
        start,
        factory,
        seed,
        totals,
        first_run=limits.run or 0,
        look_every=look_every,
        clock=clock,
        listen=live_trace.listen,
    )
    try:
        with _progress(console, totals, found) as show:
            for failure in runs:
                if failure is not None:
                    findings.take(failure)
                show(time.monotonic() - began)
                if _enough(limits, totals, found, time.monotonic() - began):
                    break
    except KeyboardInterrupt:
        interrupted = True
    except CannotBuild as error:
        unbuilt = error
    finally:
        live_trace.close()
        if process is not None:
            process.close()
    if totals.runs or unbuilt is None:
        _verdict(
            console, factory, totals, found, time.monotonic() - began, look_every, of_what, known
        )
    _known(console, known)
    if unbuilt is not None:
        misused("fuzz", unbuilt)
    if found:
        return FOUND
    if unbuilt is not None:
        return MISUSED
    if interrupted:
        console.print("[bold]interrupted[/bold]: clean so far")
        return INTERRUPTED
    return CLEAN if totals.share_accepted >= _LEAST_ACCEPTED else FOUND


def _quick(
    bench: ManagerBench, factory: TargetFactory, limits: Limits, look_every: int, isolate: bool
) -> ManagerBench:
    """With a short time limit, where that costs nothing: an isolated process would start anew."""
    if isolate or limits.one_operation <= _QUICK:
        return bench
    return ManagerBench(factory, look_every=look_every, start=start_locally(factory, _QUICK))


def _known(console: Console, known: KnownFailures) -> None:
    for each, count in known.met:
        console.print(f"known, {count} times: {each.kind.value}, {each.note}", markup=False)
    for each in known.not_met:
        console.print(f"known, and did not occur: {each.kind.value}, {each.note}", markup=False)


def _enough(
    limits: Limits, totals: Totals, found: Counter[tuple[str, str]], elapsed: float
) -> bool:
    return (
        limits.run is not None
        or found.total() >= limits.failures
        or (limits.seconds is not None and elapsed >= limits.seconds)
        or (limits.operations is not None and totals.operations >= limits.operations)
    )


@contextmanager
def _progress(console: Console, totals: Totals, found: Counter[tuple[str, str]]) -> Iterator[_Show]:
    """A line that is rewritten on a terminal, and one every ten seconds anywhere else."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield _Show(lambda line: live.update(Text(line)), 0.25, totals, found)
    else:
        yield _Show(lambda line: print(line, flush=True), 10.0, totals, found)  # noqa: T201


class _Show:
    """Puts a line of progress, not more often than every so many seconds."""

    def __init__(
        self,
        put: Callable[[str], None],
        every: float,
        totals: Totals,
        found: Counter[tuple[str, str]],
    ) -> None:
        self._put, self._every, self._totals, self._found = put, every, totals, found
        self._next = every

    def __call__(self, elapsed: float) -> None:
        if elapsed >= self._next:
            self._next = elapsed + self._every
            totals = self._totals
            self._put(
                f"{elapsed:5.0f} s  {totals.operations:,} operations  {totals.rate:,.0f}/s  "
                f"{totals.share_accepted:.0%} accepted  {self._found.total()} failures"
            )


def _options(limits: Limits, isolate: bool, look_every: int) -> str:
    """Those that a run depends on, where they are not the defaults."""
    return (
        (" --isolate" if isolate else "")
        + (f" --time-limit {limits.one_operation:g}" if limits.one_operation != TIME_LIMIT else "")
        + (f" --look-every {look_every}" if look_every != LOOK_EVERY else "")
    )


def _verdict(
    console: Console,
    factory: TargetFactory,
    totals: Totals,
    found: Counter[tuple[str, str]],
    elapsed: float,
    look_every: int,
    of_what: str,
    known: KnownFailures,
) -> None:
    console.print(
        f"\n{totals.operations:,} operations in {totals.runs:,} runs and {elapsed:.1f} s, "
        f"{totals.rate:,.0f}/s{of_what}; {totals.share_accepted:.0%} accepted, "
        f"{totals.refused:,} rightly refused"
        + (f", {totals.skipped:,} skipped" if totals.skipped else "")
    )
    console.print("judged, how often:")
    promises = factory.promises
    reasons = promises.not_judged()
    for law, sentence in LAWS.items():
        count = totals.judged[law]
        if law == "legal-victims" and promises.eviction == "exact":
            continue  # no gap: the law of victims says more
        if count:
            note = f"  [dim]({escape(reasons[law])})[/dim]" if law in reasons else ""
            console.print(f"  {count:>10,}  {law}: {sentence}{note}")
        else:
            reason = reasons.get(law, "it did not come up, or the target cannot be looked into")
            console.print(f"           -  {law}: [yellow]not judged[/yellow], {escape(reason)}")
    console.print(
        f"structure, integrity and the oracle's own recount: every {look_every} operations of a "
        "run, before its locks are given back, and at its end; all else after each operation"
    )
    if found:
        kinds = ", ".join(f"{kind} at {where} ({count})" for (kind, where), count in found.items())
        console.print(f"[bold red]found {found.total()}[/bold red]: {kinds}")
    elif totals.share_accepted < _LEAST_ACCEPTED:
        console.print(
            f"[bold red]not a meaningful run[/bold red]: only {totals.share_accepted:.0%} of the "
            f"operations were accepted, fewer than {_LEAST_ACCEPTED:.0%}"
        )
    else:
        beside = " beside those that are known" if known.met else ""
        console.print(f"[bold green]clean[/bold green]: no difference from the oracle{beside}")
