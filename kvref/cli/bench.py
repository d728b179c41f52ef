"""The target that a command runs a trace on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kvref.machine import Bench, unsuited
from kvref.replaying import early_end, replay_trace
from kvref.traces.format import Trace

__all__ = ["Unsuited", "bench_of", "not_failing"]


class Unsuited(Exception):
    """The target promises nothing of such a configuration."""

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"{target} cannot be built so: {why}")


@contextmanager
def bench_of(trace: Trace, target: str, *, isolate: bool, time_limit: float) -> Iterator[Bench]:
    """The target of that name, for this trace; UnknownTarget, or Unsuited."""
    with trace.machine.bench(
        target, seconds=time_limit, isolate=isolate, look_every=trace.header.look_every
    ) as bench:
        why = unsuited(trace.program.configuration, bench.promises)
        if why is not None:
            raise Unsuited(target, why)
        yield bench


def not_failing(trace: Trace, bench: Bench, target: str) -> str:
    """Why there is nothing to shrink: it agrees, or it ended before it could fail."""
    early = early_end(trace, replay_trace(trace, bench))
    return f"does not fail on {target}" + (f", but {early}" if early else "")
