"""The commands and their options; what they do is in a module each."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Annotated

import typer

from kvref.cli import export as export_command
from kvref.cli import fuzz as fuzz_command
from kvref.cli import known as known_command
from kvref.cli import replay as replay_command
from kvref.cli import shrink as shrink_command
from kvref.cli import targets as targets_command
from kvref.cli.exits import misused
from kvref.export.text import Style
from kvref.known import KnownFailures, load
from kvref.traces.format import TraceError

__all__ = ["main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Finds the bugs in KV-cache managers: judges a manager against a plain oracle.",
    epilog=(
        "Exit status: 0 clean, 1 a difference was found (or too little was accepted to say), "
        "2 called wrongly, 130 interrupted."
    ),
)

_TimeLimit = Annotated[
    float, typer.Option(min=0.001, help="Seconds for one operation; longer is a hang.")
]
_Isolate = Annotated[
    bool, typer.Option("--isolate", help="The target in a process of its own: survives a crash.")
]


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
    time_limit: _TimeLimit = fuzz_command.TIME_LIMIT,
    isolate: _Isolate = False,
    look_every: Annotated[
        int,
        typer.Option(min=1, help="Look at structure and integrity after every N operations."),
    ] = fuzz_command.LOOK_EVERY,
    out: Annotated[
        Path, typer.Option(help="Folder for failures, one file each.", file_okay=False)
    ] = Path("kvref-failures"),
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
) -> None:
    """Judge random programs of match, lock, insert, evict, unlock and reset.

    Page sizes from 1 to 16, both policies, small and large trees, several namespaces, and the
    misuse that has to be refused. Each failure is written to a file as soon as it is found, and
    shrunk to a few operations.
    """
    if seconds is not None and ops is not None:
        raise typer.BadParameter("--seconds and --ops exclude each other")
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
            shrink=shrink,
            known=known_failures,
            live=live,
        )
    )


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A trace.")],
    target: Annotated[
        str | None, typer.Argument(help="Instead of the target that the trace names.")
    ] = None,
    step: Annotated[
        bool, typer.Option("--step", help="Show each operation and the tree after it.")
    ] = False,
    time_limit: _TimeLimit = fuzz_command.TIME_LIMIT,
    isolate: _Isolate = False,
) -> None:
    """Run a trace again, and say whether it still fails.

    Exit status: 0 it agrees with the oracle, 1 it fails, 2 the file cannot be read, 125 the
    target cannot be imported or built: as `git bisect run` wants it.
    """
    options = replay_command.Options(target, step, isolate, time_limit)
    raise typer.Exit(replay_command.replay(file, options))


@app.command()
def shrink(
    file: Annotated[Path, typer.Argument(help="A trace that fails.")],
    target: Annotated[
        str | None, typer.Argument(help="Instead of the target that the trace names.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Where to.", show_default="FILE-shrunk.jsonl"),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Stop after so much time.", show_default="none")
    ] = None,
    time_limit: _TimeLimit = fuzz_command.TIME_LIMIT,
    isolate: _Isolate = False,
) -> None:
    """Make a short trace of a long one that fails in the same way.

    Ctrl-C keeps the shortest so far. Exit status: 0 shrunk, 1 it does not fail, 2 the file or the
    target cannot be used, 130 interrupted.
    """
    raise typer.Exit(
        shrink_command.shrink_file(
            file, target, out, seconds=seconds, isolate=isolate, time_limit=time_limit
        )
    )


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="A trace.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Where to.", show_default="the standard output"),
    ] = None,
    style: Annotated[
        Style, typer.Option("--as", help="A pytest module, or plain Python for a bug report.")
    ] = Style.PYTEST,
    manager: Annotated[
        str | None,
        typer.Option(
            help="The class to import, module:Class.",
            show_default="the one of kvgpu that the trace names, or its RadixCacheManager",
        ),
    ] = None,
) -> None:
    """Make a program of a trace that needs nothing of kvref.

    It asserts all that has to come back, and last what differed: it fails on a manager that fails
    as recorded, and passes on a right one. Nothing in the trace can become code of its own. Exit
    status: 0 written, 2 the file cannot be read or written.
    """
    raise typer.Exit(export_command.export_file(file, out, style, manager))


known_app = typer.Typer(no_args_is_help=True, help="The file of known failures.")
app.add_typer(known_app, name="known")


@known_app.command("add")
def known_add(
    file: Annotated[Path, typer.Argument(help="The known failures; made if it is not there.")],
    trace: Annotated[Path, typer.Argument(help="A trace that fails.")],
    note: Annotated[str, typer.Option(help="What it is, and where it is being mended.")] = "",
    time_limit: _TimeLimit = fuzz_command.TIME_LIMIT,
    isolate: _Isolate = False,
) -> None:
    """Shrink the trace and add it to the failures that `kvref fuzz --known` goes past."""
    raise typer.Exit(known_command.add(file, trace, note, isolate=isolate, time_limit=time_limit))


@known_app.command("list")
def known_list(
    file: Annotated[Path, typer.Argument(help="The known failures.")],
) -> None:
    """Show the known failures."""
    raise typer.Exit(known_command.show(file))


@app.command()
def targets() -> None:
    """List the targets that are installed, and what each one promises."""
    targets_command.targets()


def main() -> None:
    """The console script."""
    if not __debug__:
        # The oracle's recount of itself is made of asserts, and the verdict says that it ran.
        sys.exit("kvref: not with python -O, which would leave out half of the checks")
    app()
