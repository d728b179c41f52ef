"""What `kvref replay` of a request trace keeps of a difference: a short trace that shows it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from kvref.cli.findings import body, length
from kvref.cli.progress import Progress
from kvref.requests.machine import REQUESTS, RequestBench
from kvref.requests.target import RequestTargetFactory
from kvref.shrink import NotFailing, shrink
from kvref.traces.failures import write_failure
from kvref.traces.targets import replay_command
from kvref.traces.writer import safe_name
from kvref.workload.replay import Replay

__all__ = ["SECONDS", "keep_short"]

SECONDS = 60.0
"""For shrinking. `kvref shrink` has all the time it wants."""


def keep_short(
    screen: Console, replay: Replay, factory: RequestTargetFactory, target: str, out: Path
) -> None:
    """Shrink the last part of a replay that found something, write it to a file, and show it.

    Ctrl-C keeps the shortest so far.
    """
    judge, latest = replay.judge, replay.latest
    program = latest.program(judge.configuration)
    setup = replay.setup
    bench = RequestBench(factory, look_every=setup.check_every, seconds=setup.seconds)
    count = len(program.operations)
    which = f"all {count:,}" if latest.whole else f"the last {count:,}"
    screen.print(f"  shrinking {which} operations; Ctrl-C keeps the shortest so far", markup=False)
    try:
        with Progress(screen) as progress:
            shrunk = shrink(REQUESTS, bench, program, seconds=SECONDS, progress=progress.tries)
    except NotFailing:
        screen.print("  by themselves they do not show it: it takes what was cached before them")
        return
    except KeyboardInterrupt:  # before there was anything to keep
        screen.print("  interrupted: nothing was kept")
        return
    screen.print(f"  shrunk to {length(shrunk)}:", markup=False)
    for line in (*body(REQUESTS, bench, shrunk), *str(shrunk.divergence).splitlines()):
        screen.print(f"    {line}", markup=False)
    path = out / f"{safe_name(target)}-replay-{shrunk.divergence.kind.value}.jsonl"
    try:
        write_failure(
            path, REQUESTS, bench, shrunk.program, shrunk.divergence,
            target=target, look_every=shrunk.look_every, note="from the end of a replay",
        )  # fmt: skip
    except OSError as error:
        screen.print(f"  NOT written: {error}", markup=False)
        return
    screen.print(f"  written to {path}, and as a program beside it (.py)", markup=False)
    screen.print(f"  replay it: {replay_command(path, target)}", markup=False)
