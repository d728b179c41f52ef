"""The commands on traces: replay, shrink, export, show, generate, and known failures."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kvref.cli import export as export_command
from kvref.cli import fuzz as fuzz_command
from kvref.cli import known as known_command
from kvref.cli import replay as replay_command
from kvref.cli import show as show_command
from kvref.cli import shrink as shrink_command
from kvref.cli import workload as workload_command
from kvref.cli.options import LONGEST_LIMIT, Isolate, TimeLimit, a_number, given
from kvref.export.text import Style
from kvref.traces.failures import FAILURES
from kvref.workload.replay import CHECK_EVERY

__all__ = ["register"]


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


_OF_OPERATIONS = "A trace of operations"
_OF_REQUESTS = "A trace of requests, in Mooncake's format"


def replay(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A trace of operations, or one of requests.")],
    target: Annotated[
        str | None,
        typer.Argument(
            help="A registered name (see `kvref targets`), or module:factory.",
            show_default="the registered one that the trace names, of requests kvgpu-radix",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=LONGEST_LIMIT,
            callback=a_number,
            help="Seconds for one operation; longer is a hang.",
            show_default=f"{fuzz_command.TIME_LIMIT:g}, of a trace of requests 60",
        ),
    ] = None,
    step: Annotated[
        bool,
        typer.Option(
            "--step",
            help="Show each operation and the tree after it.",
            rich_help_panel=_OF_OPERATIONS,
        ),
    ] = False,
    isolate: Annotated[
        bool,
        typer.Option(
            "--isolate",
            help="The target in a process of its own: survives a crash.",
            rich_help_panel=_OF_OPERATIONS,
        ),
    ] = False,
    page_size: Annotated[
        int, typer.Option(min=1, help="Tokens of a page.", rich_help_panel=_OF_REQUESTS)
    ] = 16,
    pool_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of the whole pool.", rich_help_panel=_OF_REQUESTS)
    ] = 1_000_000,
    requests: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only so many, the first ones.",
            show_default="all",
            rich_help_panel=_OF_REQUESTS,
        ),
    ] = None,
    check_every: Annotated[
        int,
        typer.Option(
            min=1,
            help="Look at all rows, contents and the ledger every N operations.",
            rich_help_panel=_OF_REQUESTS,
        ),
    ] = CHECK_EVERY,
    heads: Annotated[int, typer.Option(min=1, help="K/V heads.", rich_help_panel=_OF_REQUESTS)] = 1,
    dim: Annotated[
        int, typer.Option(min=1, help="Elements of a head.", rich_help_panel=_OF_REQUESTS)
    ] = 8,
    layers: Annotated[
        int, typer.Option(min=1, help="Layers of the LLM.", rich_help_panel=_OF_REQUESTS)
    ] = 1,
    dtype: Annotated[
        DTypeChoice, typer.Option(help="Of K and V.", rich_help_panel=_OF_REQUESTS)
    ] = DTypeChoice.float16,
    policy: Annotated[
        PolicyChoice, typer.Option(help="Of eviction.", rich_help_panel=_OF_REQUESTS)
    ] = PolicyChoice.lru,
    in_flight: Annotated[
        int, typer.Option(min=1, help="Requests that run at once.", rich_help_panel=_OF_REQUESTS)
    ] = 16,
    chunk: Annotated[
        int,
        typer.Option(
            min=1, help="Prompt tokens of a round and request.", rich_help_panel=_OF_REQUESTS
        ),
    ] = 8192,
    decode_step: Annotated[
        int,
        typer.Option(
            min=1, help="Tokens that a request makes in a round.", rich_help_panel=_OF_REQUESTS
        ),
    ] = 16,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for what is kept of a difference.",
            file_okay=False,
            rich_help_panel=_OF_REQUESTS,
        ),
    ] = FAILURES,
    block_tokens: Annotated[
        int,
        typer.Option(
            min=1,
            help="Input tokens that one id of the trace stands for.",
            rich_help_panel=_OF_REQUESTS,
        ),
    ] = 512,
) -> None:
    """Run a trace again: of operations, whether it still fails; of requests, as an engine would.

    Exit status: 0 it agrees with the oracle, 1 it fails (or could not be judged to its end, or no
    request ran), 2 the file cannot be read, 125 the target cannot be used, as `git bisect run`
    wants it.

    Requests arrive when the trace says, are computed in chunks, decoded in steps, published on
    the way, preempted where there is no room; one in a hundred is aborted. What a request finds
    cached is read back from the pool and compared.
    """
    workload = workload_command.Options(
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
        time_limit=time_limit or 60.0,
        out=out,
    )
    options = replay_command.Options(
        target,
        step,
        isolate,
        time_limit or fuzz_command.TIME_LIMIT,
        workload,
        of_operations=given(context, _OF_OPERATIONS),
        of_requests=given(context, _OF_REQUESTS),
    )
    raise typer.Exit(replay_command.replay(file, options))


def generate(
    file: Annotated[Path, typer.Argument(help="Where to write it.", dir_okay=False)],
    requests: Annotated[int, typer.Option(min=1, help="How many.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same trace.")] = 0,
) -> None:
    """Make up a request trace: system prompts, chats of many turns, agents, retries."""
    raise typer.Exit(workload_command.generate_trace(file, requests, seed))


def shrink(
    file: Annotated[Path, typer.Argument(help="A trace that fails.")],
    target: Annotated[
        str | None, typer.Argument(help="Instead of the registered target that the trace names.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Where to.", show_default="FILE-shrunk.jsonl"),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Stop after so much time.", show_default="none")
    ] = None,
    time_limit: TimeLimit = fuzz_command.TIME_LIMIT,
    isolate: Isolate = False,
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


def export(
    file: Annotated[Path, typer.Argument(help="A trace of operations.")],
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
            help="The class to import, module:Class: a cache manager, or of whole requests "
            "one like kvgpu:RequestManager.",
            show_default="the one of kvgpu that the trace names, or its RadixCacheManager or "
            "RequestManager",
        ),
    ] = None,
) -> None:
    """Make a program of a trace that needs nothing of kvref.

    It asserts all that has to come back, and last what differed: it fails on what fails as
    recorded, and passes on what is right. Nothing in the trace can become code of its own. Exit
    status: 0 written, 2 the file cannot be read or written.
    """
    raise typer.Exit(export_command.export_file(file, out, style, manager))


def known_add(
    file: Annotated[Path, typer.Argument(help="The known failures; made if it is not there.")],
    trace: Annotated[Path, typer.Argument(help="A trace that fails.")],
    note: Annotated[str, typer.Option(help="What it is, and where it is being mended.")] = "",
    target: Annotated[
        str | None, typer.Option(help="Instead of the registered target that the trace names.")
    ] = None,
    time_limit: TimeLimit = fuzz_command.TIME_LIMIT,
    isolate: Isolate = False,
) -> None:
    """Shrink the trace and add it to the failures that `kvref fuzz --known` goes past.

    Exit status: 0 it is in the file, 1 it does not fail, 2 a file or the target cannot be used,
    130 interrupted.
    """
    raise typer.Exit(
        known_command.add(file, trace, note, target=target, isolate=isolate, time_limit=time_limit)
    )


def known_list(
    file: Annotated[Path, typer.Argument(help="The known failures.")],
) -> None:
    """Show the known failures."""
    raise typer.Exit(known_command.show(file))


def show(
    file: Annotated[Path, typer.Argument(help="A trace.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where to.", show_default="FILE with .html"),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Instead of the registered target that the trace names.")
    ] = None,
    time_limit: TimeLimit = fuzz_command.TIME_LIMIT,
    isolate: Isolate = False,
) -> None:
    """Run a trace again, and write a page that shows each step: what was asked, said and cached.

    One HTML file that needs no network. Exit status: 0 it is written, whatever it shows, 2 the
    file cannot be read or the page not written, 125 the target cannot be imported or built.
    """
    raise typer.Exit(
        show_command.show_file(file, output, target, isolate=isolate, time_limit=time_limit)
    )


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (replay, shrink, export, show, generate):
        app.command()(command)
    known = typer.Typer(no_args_is_help=True, help="The file of known failures.")
    known.command("add")(known_add)
    known.command("list")(known_list)
    app.add_typer(known, name="known")
