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

from kvref.campaign import (
    LOOK_EVERY,
    Failure,
    Totals,
    campaign,
    start_isolated,
    start_locally,
)
from kvref.cli.report import say_in_short
from kvref.failure_file import write
from kvref.isolated import TargetProcess
from kvref.laws import LAWS
from kvref.registry import UnknownTarget, find
from kvref.situations.counting import Counting
from kvref.situations.tally import write as write_tally
from kvref.target import CannotBuild, TargetFactory

__all__ = ["LOOK_EVERY", "TIME_LIMIT", "Limits", "fuzz"]

TIME_LIMIT = 10.0

CLEAN, FOUND, MISUSED, INTERRUPTED = 0, 1, 2, 130
_LEAST_ACCEPTED = 0.5
"""Below this share the run says little: most calls were only refused."""
_WHOLE = 100_000
"""Operations after which everything that has to be met was met, many times over: with the
defaults that takes about 10,000. A shorter run says what it missed, and does not fail for it."""


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
    situations: bool = True,
    report: Path | None = None,
) -> int:
    """Run the campaign; returns the exit status."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        factory = find(target)
    except UnknownTarget as error:
        return _misused(error)
    console.print(
        f"target {escape(target)}, seed {seed}"
        + (f", run {limits.run}" if limits.run is not None else "")
    )
    process = TargetProcess(target, limits.one_operation) if isolate else None
    start = start_isolated(process) if process else start_locally(factory, limits.one_operation)
    options = _options(limits, isolate, look_every)
    totals = Totals()
    counting = Counting(target, factory.promises) if situations else None
    found: Counter[tuple[str, str]] = Counter()
    # The time of a process of its own is not ours to count.
    clock, of_what = (time.monotonic, "") if isolate else (time.process_time, " of processor time")
    interrupted = False
    unbuilt: CannotBuild | None = None
    began = time.monotonic()
    runs = campaign(
        start, factory, seed, totals, first_run=limits.run or 0, look_every=look_every,
        clock=clock, counting=counting,
    )  # fmt: skip
    try:
        with _progress(console, totals, found) as show:
            for failure in runs:
                if failure is not None:
                    kind = (
                        failure.divergence.kind.value,
                        type(failure.divergence.operation).__name__,
                    )
                    found[kind] += 1
                    where = _keep(out, target, failure)
                    _report(console, target + options, failure, where, in_full=found[kind] == 1)
                show(time.monotonic() - began)
                if _enough(limits, totals, found, time.monotonic() - began):
                    break
    except KeyboardInterrupt:
        interrupted = True
    except CannotBuild as error:
        unbuilt = error
    finally:
        if process is not None:
            process.close()
    missed: list[str] = []
    if totals.runs or unbuilt is None:
        _counts(console, factory, totals, time.monotonic() - began, look_every, of_what)
        if counting is not None and totals.runs:
            missed = _exercised(console, counting, report)
        whole = limits.run is None and totals.operations >= _WHOLE
        good = _verdict(console, totals, found, missed if whole else [])
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


def _exercised(console: Console, counting: Counting, report: Path | None) -> list[str]:
    """Say what was exercised, and write it; returns what was required and never met."""
    tally = counting.tally()
    missed = say_in_short(console, tally)
    if report is not None:
        try:
            write_tally(report, tally)
        except OSError as error:
            console.print(f"[red]report NOT written[/red]: {escape(str(error))}")
        else:
            console.print(f"report: {report}", markup=False)
    return missed


def _misused(error: Exception) -> int:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"kvref fuzz: {error}", markup=False)
    return MISUSED


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


def _counts(
    console: Console,
    factory: TargetFactory,
    totals: Totals,
    elapsed: float,
    look_every: int,
    of_what: str,
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


def _verdict(
    console: Console, totals: Totals, found: Counter[tuple[str, str]], missed: list[str]
) -> bool:
    """The last line; returns whether the run is worth to be called clean."""
    meaningless = "[bold red]not a meaningful run[/bold red]:"
    if found:
        kinds = ", ".join(f"{kind} at {where} ({count})" for (kind, where), count in found.items())
        console.print(f"[bold red]found {found.total()}[/bold red]: {kinds}")
        return False
    if totals.share_accepted < _LEAST_ACCEPTED:
        console.print(
            f"{meaningless} only {totals.share_accepted:.0%} of the "
            f"operations were accepted, fewer than {_LEAST_ACCEPTED:.0%}"
        )
        return False
    if missed:
        console.print(f"{meaningless} it never met {', '.join(missed)}")
        return False
    console.print("[bold green]clean[/bold green]: no difference from the oracle")
    return True
