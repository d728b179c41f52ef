"""The commands and their options; what they do is in a module each."""

from __future__ import annotations

import os
import random
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kvref.cli import fuzz as fuzz_command
from kvref.cli import report as report_command
from kvref.cli import situations as situations_command
from kvref.cli import targets as targets_command
from kvref.cli import workload as workload_command
from kvref.cli.machines import MachineChoice

__all__ = ["main"]


class DTypeChoice(StrEnum):
    """The values of `--dtype`."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"
    float8_e4m3fn = "float8_e4m3fn"
    float8_e5m2 = "float8_e5m2"
    int8 = "int8"
    uint8 = "uint8"


class PolicyChoice(StrEnum):
    """The values of `--policy`."""

    lru = "lru"
    fifo = "fifo"


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Finds the bugs in KV-cache managers: judges a manager against a plain oracle.",
    epilog=(
        "Exit status: 0 clean, 1 a difference was found (or too little was exercised to say), "
        "2 called wrongly, 130 interrupted."
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
    time_limit: Annotated[
        float, typer.Option(min=0.001, help="Seconds for one operation; longer is a hang.")
    ] = fuzz_command.TIME_LIMIT,
    isolate: Annotated[
        bool,
        typer.Option("--isolate", help="The target in a process of its own: survives a crash."),
    ] = False,
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
    ] = Path("kvref-failures"),
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
    as soon as it is found.
    """
    if seconds is not None and ops is not None:
        raise typer.BadParameter("--seconds and --ops exclude each other")
    if report is not None and not situations:
        raise typer.BadParameter("--report and --no-situations exclude each other")
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
            situations=situations,
            report=report,
        )
    )


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A request trace in Mooncake's format.")],
    target: Annotated[
        str, typer.Argument(help="A registered name (see `kvref targets`), or module:factory.")
    ] = "kvgpu-radix",
    page_size: Annotated[int, typer.Option(min=1, help="Tokens of a page.")] = 16,
    pool_tokens: Annotated[int, typer.Option(min=1, help="Tokens of the whole pool.")] = 1_000_000,
    requests: Annotated[
        int | None, typer.Option(min=1, help="Only so many, the first ones.", show_default="all")
    ] = None,
    check_every: Annotated[
        int,
        typer.Option(min=1, help="Look at all rows, contents and the ledger every N operations."),
    ] = 50_000,
    heads: Annotated[int, typer.Option(min=1, help="K/V heads.")] = 1,
    dim: Annotated[int, typer.Option(min=1, help="Elements of a head.")] = 8,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the LLM.")] = 1,
    dtype: Annotated[DTypeChoice, typer.Option(help="Of K and V.")] = DTypeChoice.float16,
    policy: Annotated[PolicyChoice, typer.Option(help="Of eviction.")] = PolicyChoice.lru,
    in_flight: Annotated[int, typer.Option(min=1, help="Requests that run at once.")] = 16,
    chunk: Annotated[int, typer.Option(min=1, help="Prompt tokens of a round and request.")] = 8192,
    decode_step: Annotated[
        int, typer.Option(min=1, help="Tokens that a request makes in a round.")
    ] = 16,
    block_tokens: Annotated[
        int, typer.Option(min=1, help="Input tokens that one id of the trace stands for.")
    ] = 512,
    time_limit: Annotated[
        float, typer.Option(min=0.001, help="Seconds for one operation; longer is a hang.")
    ] = 60.0,
) -> None:
    """Replay a request trace as an engine would, and judge each step and what is in the pages.

    Requests arrive when the trace says, are computed in chunks, decoded in steps, published on
    the way, preempted where there is no room; one in a hundred is aborted. What a request finds
    cached is read back from the pool and compared.
    """
    options = workload_command.Options(
        page_size=page_size,
        pool_tokens=pool_tokens,
        requests=requests,
        check_every=check_every,
        heads=heads,
        dim=dim,
        layers=layers,
        dtype=dtype.value,
        policy=policy.value,
        in_flight=in_flight,
        chunk=chunk,
        decode_step=decode_step,
        block_tokens=block_tokens,
        time_limit=time_limit,
    )
    raise typer.Exit(workload_command.replay_requests(file, target, options))


@app.command()
def generate(
    file: Annotated[Path, typer.Argument(help="Where to write it.", dir_okay=False)],
    requests: Annotated[int, typer.Option(min=1, help="How many.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same trace.")] = 0,
) -> None:
    """Make up a request trace: system prompts, chats of many turns, agents, retries."""
    raise typer.Exit(workload_command.generate_trace(file, requests, seed))


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
    app()
