"""Runs a trace again, and says where that first differs from what the trace recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvref.divergence import Divergence
from kvref.machine import Bench
from kvref.traces.format import Record, Trace
from kvref.traces.writer import Recorder

__all__ = ["Replayed", "early_end", "first_difference", "replay_trace"]


@dataclass(frozen=True)
class Replayed:
    """What became of it.

    Attributes:
        divergence: from the oracle, now; None if none was found.
        otherwise: the first operation that went otherwise than recorded, and in which respect.
        ended_before: the operation before which it ended though there was no difference: its
            caller breaks the contract there, and a manager that trusts its caller may then do
            anything. None if all ran.
    """

    divergence: Divergence | None
    otherwise: tuple[int, str] | None
    ended_before: int | None = None

    @property
    def agrees(self) -> bool:
        """Whether all of it ran, and as the oracle has it."""
        return self.divergence is None and self.ended_before is None


def replay_trace(trace: Trace, bench: Bench) -> Replayed:
    """Judge the trace's operations anew, whatever it recorded."""
    recorder = Recorder()
    divergence = bench.run(trace.program, recorder)
    otherwise = first_difference(trace.records, recorder.records)
    ran = len(recorder.records)
    ended = divergence is None and ran < len(trace.program.operations)
    return Replayed(divergence, otherwise, ran if ended else None)


def early_end(trace: Trace, replayed: Replayed) -> str | None:
    """Where a run ended that never came to its end, and why, in words; None for any other."""
    index = replayed.ended_before
    if index is None:
        return None
    operations = trace.program.operations
    return (
        f"the run ended before operation {index} of {len(operations)} (they count from 0), "
        f"{operations[index].python(index)}: there the caller breaks the contract, for the slots "
        "are not the caller's to give, and a manager that does not check them may then do "
        "anything. Of what comes from there on nothing can be said"
    )


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
