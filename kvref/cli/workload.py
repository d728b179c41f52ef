"""`kvref replay` of a request trace, and `kvref generate`, which makes one up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.markup import escape

from kvref.cli.bench import Unsuited
from kvref.cli.exits import CLEAN, FOUND, INTERRUPTED, UNTESTABLE, misused
from kvref.cli.exits import console as report_console
from kvref.cli.progress import Progress
from kvref.cli.shrink_latest import keep_short
from kvref.files import replace
from kvref.machine import unsuited
from kvref.registry import UnknownTarget, find_requests
from kvref.requests.configuration import DType, RequestConfiguration
from kvref.requests.laws import REQUEST_LAWS
from kvref.target import CannotBuild
from kvref.workload.generate import generate
from kvref.workload.mooncake import TracedRequest, UnreadableTrace, read_requests
from kvref.workload.replay import Replay, Setup
from kvref.workload.schedule import Pace

__all__ = ["Options", "generate_trace", "replay_requests"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command's options, as they came."""

    page_size: int
    pool_tokens: int
    requests: int | None
    check_every: int
    heads: int
    dim: int
    layers: int
    dtype: DType
    policy: Literal["lru", "fifo"]
    in_flight: int
    chunk: int
    decode_step: int
    block_tokens: int
    time_limit: float
    out: Path

    def setup(self, trace: list[TracedRequest]) -> Setup:
        """As the replay takes them; ValueError for sizes that go not together."""
        if self.pool_tokens < self.page_size:
            raise ValueError(
                f"--pool-tokens {self.pool_tokens} is less than one page of {self.page_size}"
            )
        num_pages = self.pool_tokens // self.page_size
        longest = max(request.input_length + request.output_length for request in trace)
        configuration = RequestConfiguration(
            page_size=self.page_size,
            num_pages=num_pages,
            policy=self.policy,
            checked=False,  # a campaign tries the slots of an insert; here the pool is large
            max_requests=self.in_flight,
            max_len=min(longest, num_pages * self.page_size),
            layers=self.layers,
            kv_heads=self.heads,
            head_dim=self.dim,
            dtype=self.dtype,
        )
        if configuration.tag_bits < 8:
            raise ValueError(
                f"--dim {self.dim} of {self.dtype} is too small to name whose a row is"
            )
        return Setup(
            configuration=configuration,
            pace=Pace(in_flight=self.in_flight, chunk=self.chunk, decode_step=self.decode_step),
            check_every=self.check_every,
            seconds=self.time_limit,
            block_tokens=self.block_tokens,
        )


def replay_requests(path: Path, target: str, options: Options) -> int:
    """Replay a request trace; returns the exit status."""
    console = report_console()
    try:
        trace = read_requests(path, limit=options.requests, block_tokens=options.block_tokens)
        setup = options.setup(trace)
    except (UnreadableTrace, ValueError) as error:
        return misused("replay", error)
    try:
        factory = find_requests(target)
        why = unsuited(setup.configuration, factory.promises)
        if why is not None:
            raise Unsuited(target, why)
        replay = Replay(factory, trace, setup)
    except (UnknownTarget, Unsuited, CannotBuild) as error:
        return misused("replay", error, UNTESTABLE)
    size, pages = setup.configuration.page_size, setup.configuration.num_pages
    console.print(
        f"{escape(str(path))}: {len(trace):,} requests on {escape(target)}, "
        f"{pages:,} pages of {size} token{'s' * (size != 1)}"
    )
    whole = sum(request.input_length for request in trace)
    began = time.monotonic()
    interrupted = False
    try:
        with Progress(console) as progress:
            for _ in replay.rounds():
                progress.show(lambda elapsed: _line(replay, len(trace), whole, elapsed))
    except KeyboardInterrupt:
        interrupted = True
    elapsed = time.monotonic() - began
    _summary(console, replay, len(trace), elapsed, interrupted=interrupted)
    if replay.judge.divergence is not None:
        keep_short(console, replay, factory, target, options.out)
        return FOUND
    if interrupted:
        return INTERRUPTED
    return CLEAN if _some_ran(replay) else FOUND


def _some_ran(replay: Replay) -> bool:
    return replay.schedule.counts.ended > replay.schedule.counts.too_long


def generate_trace(path: Path, requests: int, seed: int) -> int:
    """Write a made-up trace; returns the exit status."""
    lines = [msgspec.json.encode(request) for request in generate(requests, seed)]
    try:
        replace(path, b"\n".join(lines) + b"\n")
    except OSError as error:
        return misused("generate", error)
    report_console().print(f"{requests:,} requests written to {path}", markup=False)
    return CLEAN


def _line(replay: Replay, requests: int, whole: int, elapsed: float) -> str:
    counts, judge = replay.schedule.counts, replay.judge
    share = min(1.0, counts.prompt_tokens / whole)
    left = elapsed / share - elapsed if share else 0.0
    return (
        f"{elapsed:5.0f} s  {counts.ended:,} of {requests:,} requests, "
        f"{counts.prompt_tokens:,} tokens ({counts.prompt_tokens / max(elapsed, 1e-9):,.0f}/s), "
        f"{judge.count:,} operations, about {left:,.0f} s left"
    )


def _summary(
    console: Console, replay: Replay, requests: int, elapsed: float, *, interrupted: bool
) -> None:
    counts, judge = replay.schedule.counts, replay.judge
    size, pages = judge.configuration.page_size, judge.configuration.num_pages
    console.print(f"{judge.count:,} operations in {elapsed:.1f} s; judged, how often:")
    reasons = judge.promises.not_judged()
    for law, sentence in REQUEST_LAWS.items():
        if judge.judged[law]:
            note = f"  [dim]({escape(reasons[law])})[/dim]" if law in reasons else ""
            console.print(f"  {judge.judged[law]:>10,}  {law}: {sentence}{note}")
        else:
            reason = reasons.get(law, "it did not come up, or is left to kvref fuzz")
            console.print(f"           -  {law}: [yellow]not judged[/yellow], {escape(reason)}")
    console.print(
        f"{counts.ended:,} of {requests:,} requests: {counts.finished:,} finished, "
        f"{counts.aborted:,} aborted, {counts.preempted:,} times preempted, "
        f"{counts.refused:,} times without room"
        + (f", {counts.too_long:,} longer than the pool" if counts.too_long else "")
        + f"; {counts.output_tokens:,} tokens made"
    )
    console.print(
        f"{counts.prompt_tokens:,} prompt tokens: {counts.matched_tokens:,} found cached "
        f"({counts.hit_rate:.1%}) and their K and V read back, "
        f"{counts.computed_tokens:,} to compute"
    )
    console.print(
        f"{counts.evicted_pages * size:,} tokens evicted; at most {judge.peak_pages * size:,} of "
        f"{pages * size:,} in use"
    )
    if judge.divergence is not None:
        console.print("\n[bold red]DIFFERENCE[/bold red] ", end="")
        console.print(str(judge.divergence), markup=False)
        console.print("  the same command with the same options has it again")
    elif interrupted:
        console.print(
            f"[bold]interrupted[/bold]: clean for {judge.count:,} operations, "
            f"{counts.ended:,} requests"
        )
    elif not _some_ran(replay):
        console.print(
            "[bold red]too little to say[/bold red]: no request ran, each is longer than the pool"
        )
    else:
        console.print(
            "[bold green]clean[/bold green]: every request read what was stored for it, and "
            f"after the last one all {pages:,} pages were free again"
        )
