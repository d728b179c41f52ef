"""The commands and their options; what they do is in a module each."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Annotated

import typer

from kvref.cli import fuzz as fuzz_command
from kvref.cli import report as report_command
from kvref.cli import situations as situations_command
from kvref.cli import targets as targets_command
from kvref.cli import trace_commands
from kvref.cli.exits import misused
from kvref.cli.machines import MachineChoice
from kvref.cli.options import Isolate, TimeLimit
from kvref.cli.safety import Group, checked_output
from kvref.known import KnownFailures, load
from kvref.traces.failures import FAILURES
from kvref.traces.format import TraceError

__all__ = ["main"]


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Finds the bugs in KV-cache managers: judges a manager against a plain oracle.",
    epilog=(
        "Exit status: 0 clean, 1 a difference was found (or too little was exercised to say), "
        "2 called wrongly, or a bug of kvref's own, 125 (replay, show) the target cannot be used, "
        "130 interrupted, 141 nobody read the output to its end. `kvref shrink` and `kvref known "
        "add` end with 1 where the trace does not fail."
    ),
)


@app.command()
def fuzz(
    target: Annotated[
        str, typer.Argument(help="A registered name (see `kvref targets`), or module:factory.")
    ] = "kvgpu-radix",
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Stop after so much time.", show_default="20")
    ] = None,
    ops: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many operations instead.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Same seed, same runs.", show_default="random")
    ] = None,
    run: Annotated[
        int | None, typer.Option(min=0, help="Only the run of this number, to have it again.")
    ] = None,
    max_failures: Annotated[int, typer.Option(min=1, help="Stop after so many failures.")] = 3,
    time_limit: TimeLimit = fuzz_command.TIME_LIMIT,
    isolate: Isolate = False,
    look_every: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Look at structure, contents and integrity after every N operations.",
            show_default=f"{fuzz_command.LOOK_EVERY}, "
            f"of whole requests {fuzz_command.REQUESTS_LOOK_EVERY}",
        ),
    ] = None,
    machine: Annotated[
        MachineChoice | None,
        typer.Option(
            help="Judge the bare manager, whole requests, or both in turn.",
            show_default="what the target offers",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for failures, one file each.", file_okay=False)
    ] = FAILURES,
    shrink: Annotated[
        bool, typer.Option("--shrink/--no-shrink", help="Shrink each failure before showing it.")
    ] = True,
    known: Annotated[
        Path | None,
        typer.Option(help="Failures to go past: see `kvref known`.", exists=True, dir_okay=False),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Write each operation to a file before it runs: nothing is lost even if the "
            "target takes this process with it.",
        ),
    ] = False,
    situations: Annotated[
        bool, typer.Option(help="Count what the runs exercise, and fail if too little was.")
    ] = True,
    report: Annotated[
        Path | None,
        typer.Option(
            help="File for what was exercised (JSON; see `kvref report`).", dir_okay=False
        ),
    ] = None,
) -> None:
    """Judge random programs: of match, lock, insert, evict, unlock and reset, and of requests.

    Page sizes from 1 to 16, both policies, small and large trees, several namespaces, and the
    misuse that has to be refused. Whole requests begin, store, commit, finish, are aborted and
    preempted, and the contents of their pages are read back. Each failure is written to a file
    as soon as it is found, and shrunk to a few operations.
    """
    if seconds is not None and ops is not None:
        raise typer.BadParameter("--seconds and --ops exclude each other")
    if run is not None and (seconds is not None or ops is not None):
        raise typer.BadParameter("--run is one run, whole: not with --seconds or --ops")
    if run is not None and seed is None:
        raise typer.BadParameter("--run numbers the runs of a seed: give its --seed")
    if report is not None and not situations:
        raise typer.BadParameter("--report and --no-situations exclude each other")
    if known is not None and not shrink:
        raise typer.BadParameter("--known compares what was shrunk: not with --no-shrink")
    try:
        known_failures = KnownFailures(load(known)) if known is not None else None
    except TraceError as error:
        raise typer.Exit(misused("fuzz", error)) from None
    limits = fuzz_command.Limits(
        seconds=20.0 if seconds is None and ops is None else seconds,
        operations=ops,
        run=run,
        failures=max_failures,
        one_operation=time_limit,
    )
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    raise typer.Exit(
        fuzz_command.fuzz(
            target,
            limits,
            chosen,
            isolate=isolate,
            look_every=look_every,
            out=out,
            machine=machine,
            shrink=shrink,
            known=known_failures,
            live=live,
            situations=situations,
            report=report,
        )
    )


trace_commands.register(app)


@app.command()
def report(
    files: Annotated[
        list[Path], typer.Argument(help="What `kvref fuzz --report` wrote; several are added up.")
    ],
    html: Annotated[
        Path | None, typer.Option(help="File for the same as a page.", dir_okay=False)
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="An earlier report: what changed since is shown.")
    ] = None,
    require: Annotated[
        bool, typer.Option("--require", help="Exit with 1 if a required situation was never met.")
    ] = False,
) -> None:
    """Show what runs exercised: laws that had something at stake, and situations met."""
    raise typer.Exit(report_command.report(files, html=html, baseline=baseline, require=require))


@app.command()
def situations(
    name: Annotated[str | None, typer.Argument(help="Show this one, with an example.")] = None,
    target: Annotated[str | None, typer.Option(help="Judge the example there, too.")] = None,
) -> None:
    """List the situations that a run should meet, or show one with a smallest example."""
    if target is not None and name is None:
        raise typer.BadParameter("--target judges the example of one situation: name it")
    raise typer.Exit(situations_command.situations(name, target))


@app.command()
def targets() -> None:
    """List the targets that are installed, and what each one promises."""
    targets_command.targets()


def main() -> None:
    """The console script."""
    if not __debug__:
        # The oracle's recount of itself is made of asserts, and the verdict says that it ran.
        sys.exit("kvref: not with python -O, which would leave out half of the checks")
    # Before torch is imported: its threads spin, and a judge makes thousands of small calls.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    checked_output(app)
