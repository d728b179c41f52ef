"""Traces as tests: each file is replayed, and its target has to agree with the oracle."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from kvref.machine import Bench, Program, unsuited
from kvref.registry import UnknownTarget
from kvref.replaying import early_end, replay_trace
from kvref.target import CannotBuild
from kvref.testing.explaining import explained, known
from kvref.testing.found import Found
from kvref.traces.format import Trace, TraceError
from kvref.traces.reader import read
from kvref.traces.targets import NoTarget, target_of

__all__ = ["FAILURES", "TraceFile", "check_trace"]

FAILURES = Path("kvref-failures")
"""The folder for what a replay found."""

_SECONDS = 10.0


def check_trace(
    path: Path, target: str | None = None, bench_of: Callable[[Trace], Bench] | None = None
) -> None:
    """Replay it on `target`, or the one that it names; Found if that differs from the oracle.

    Found too where the run ends early, since its caller breaks the contract there.
    `bench_of` gives what it runs on where that is at hand already, by a name or without one.

    Skips where the target cannot be built as the trace wants it, and is an xfail where the
    failure is known. TraceError, NoTarget, UnknownTarget, CannotBuild as the reader and the target
    have it: a target that is not registered is not imported because a file names it.
    """
    trace = read(path)
    name = target if bench_of is not None else _named(trace, path, target)
    with _bench(trace, name) if bench_of is None else nullcontext(bench_of(trace)) as bench:
        why = unsuited(trace.program.configuration, bench.promises)
        if why is not None:
            pytest.skip(f"{name or 'the target'} cannot be built so: {why}")
        replayed = replay_trace(trace, bench)
        divergence = replayed.divergence
        if divergence is None:
            early = early_end(trace, replayed)
            if early is not None:
                raise Found(f"{path.name} on {name or 'the target'}: {early}")
            return
        program = Program(trace.program.operations, trace.program.configuration)
        entry = known(trace.machine, bench, program)
        if entry is not None:
            pytest.xfail(f"known: {divergence.kind.value}, {entry.note}")
        raise explained(
            trace.machine, bench, program, divergence,
            target=name, folder=FAILURES, note=f"found by a replay of {path.name}",
        )  # fmt: skip


def _named(trace: Trace, path: Path, target: str | None) -> str:
    give_one = ("pytest", "--kv-traces", str(path.parent), "--kv-target")
    return target_of(trace, path, target, give_one)


def _bench(trace: Trace, name: str | None) -> AbstractContextManager[Bench]:
    assert name is not None
    look_every = trace.header.look_every
    return trace.machine.bench(name, seconds=_SECONDS, isolate=False, look_every=look_every)


class TraceFile(pytest.File):
    """A file of one trace."""

    def collect(self) -> Iterator[TraceItem]:
        """The one test of it."""
        yield TraceItem.from_parent(self, name="replay")


class TraceItem(pytest.Item):
    """The replay of a trace."""

    def runtest(self) -> None:
        """Replay it."""
        target = self.config.getoption("kv_target") or self.config.getini("kv_target")
        check_trace(self.path, target or None)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What is wrong with the file or the target, without the frames of the reader."""
        if isinstance(excinfo.value, Found | TraceError | NoTarget | UnknownTarget | CannotBuild):
            return excinfo.getrepr(style="value")
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Where it is."""
        return self.path, 0, f"replay of {self.path.name}"
