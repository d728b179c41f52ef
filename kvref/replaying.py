"""Runs a trace again, and says where that first differs from what the trace recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvref.divergence import Divergence
from kvref.machine import Bench
from kvref.traces.format import Record, Trace
from kvref.traces.writer import Recorder

__all__ = ["Replayed", "first_difference", "replay_trace"]


@dataclass(frozen=True)
class Replayed:
    """What became of it.

    Attributes:
        divergence: from the oracle, now; None if the target agrees.
        otherwise: the first operation that went otherwise than recorded, and in which respect.
    """

    divergence: Divergence | None
    otherwise: tuple[int, str] | None


def replay_trace(trace: Trace, bench: Bench) -> Replayed:
    """Judge the trace's operations anew, whatever it recorded."""
    recorder = Recorder()
    divergence = bench.run(trace.program, recorder)
    return Replayed(divergence, first_difference(trace.records, recorder.records))


def first_difference(then: Sequence[Record], now: Sequence[Record]) -> tuple[int, str] | None:
    """The first operation of which the two say something different, and what."""
    for index, (old, new) in enumerate(zip(then, now, strict=False)):
        for what, was, has in (
            ("expected was", old.expected, new.expected),
            ("came back", _class_alone(old.got), _class_alone(new.got)),
            ("the oracle's tree was", old.tree or None, new.tree),  # of a recording it is empty
        ):
            if was is not None and was != has:
                return index, f"{what} {was}, now {has}"
    return None


def _class_alone(got: str | None) -> str | None:
    """The text of an exception may name addresses and versions."""
    return got.partition(":")[0] if got is not None and got.startswith("raised ") else got
