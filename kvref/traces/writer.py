"""Writes traces: live, each operation before it runs, or whole when a run is over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kvref.answers import Answer
from kvref.divergence import Divergence
from kvref.files import replace
from kvref.listener import AnyOracle, answer_in_words, expected_in_words
from kvref.machine import Machine, Program, encode_promises
from kvref.requests.executor import RequestAnswer
from kvref.revision import revision, versions
from kvref.traces.format import (
    SCHEMA,
    DivergenceLine,
    Header,
    OperationLine,
    OutcomeLine,
    Record,
)
from kvref.tree import digest

__all__ = [
    "Recorder",
    "TraceWriter",
    "divergence_line",
    "header_of",
    "safe_name",
    "write_trace",
]


def header_of(
    machine: Machine,
    target: str | None,
    promises: Any,
    configuration: Any,
    *,
    look_every: int = 1,
    seed: int | None = None,
    run: int | None = None,
    note: str | None = None,
) -> Header:
    """The header of a trace that is made here and now."""
    return Header(
        schema=SCHEMA,
        machine=machine.name,
        target=target,
        promises=msgspec.Raw(encode_promises(promises)),
        configuration=msgspec.Raw(_json(configuration)),
        seed=seed,
        run=run,
        look_every=look_every,
        commit=revision(),
        versions=versions(),
        note=note,
    )


class Recorder:
    """A listener that keeps a record of each operation: what had to come back, and what did.

    With `trees` also a digest of the oracle's tree after it, which costs most of the time.
    """

    def __init__(self, *, trees: bool = True) -> None:
        self.records: list[Record] = []
        self._digest = digest if trees else lambda oracle: None
        self._operation: Any = None
        self._expected: str | None = None
        self._got: str | None = None

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        """It is about to run."""
        self._operation = operation
        self._expected = expected_in_words(operation, expected)
        self._got = None

    def answers(self, index: int, answer: Answer | RequestAnswer) -> None:
        """It came back."""
        self._got = answer_in_words(self._operation, answer)

    def ends(self, index: int, oracle: AnyOracle) -> None:
        """It was judged."""
        self.records.append(Record(self._expected, self._got, self._digest(oracle)))

    def skips(self, index: int, operation: Any, oracle: AnyOracle) -> None:
        """It is not issued."""
        self.records.append(Record(None, None, self._digest(oracle)))


class TraceWriter(Recorder):
    """A listener that writes as it hears: a process that is killed leaves all that it asked.

    Each line is one write to the file, unbuffered. `close` it; the file is left where it is.
    """

    def __init__(self, path: Path, machine: Machine, header: Header) -> None:
        super().__init__()
        self.path = path
        self._machine = machine
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._write(header)

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        """Write the operation: what comes next may be the end of this process."""
        super().begins(index, operation, expected)
        self._write(_line(self._machine, index, operation, self._expected))

    def ends(self, index: int, oracle: AnyOracle) -> None:
        """Write what came back."""
        super().ends(index, oracle)
        self._outcome(index)

    def skips(self, index: int, operation: Any, oracle: AnyOracle) -> None:
        """Write that it was not issued: no expectation, and nothing that came back."""
        super().skips(index, operation, oracle)
        self._write(_line(self._machine, index, operation, None))
        self._outcome(index)

    def close(self, divergence: Divergence | None = None) -> None:
        """The run is over, by this divergence if there was one."""
        if divergence is not None:
            self._write(divergence_line(divergence))
        self._file.close()

    def _outcome(self, index: int) -> None:
        record = self.records[index]
        self._write(OutcomeLine(index=index, got=record.got, tree=record.tree or ""))

    def _write(self, line: Any) -> None:
        data = _json(line) + b"\n"
        # Unbuffered, a write may be short.
        while data:
            data = data[self._file.write(data) :]


def write_trace(
    path: Path,
    machine: Machine,
    header: Header,
    program: Program,
    records: Sequence[Record] = (),
    divergence: Divergence | None = None,
) -> None:
    """A whole trace, or none at all: an earlier file of this name stays until this one is there.

    There may be fewer records than operations.
    """
    lines = [_json(header)]
    for index, operation in enumerate(program.operations):
        record = records[index] if index < len(records) else Record()
        lines.append(_json(_line(machine, index, operation, record.expected)))
        if record.tree is not None:
            lines.append(_json(OutcomeLine(index=index, got=record.got, tree=record.tree)))
    if divergence is not None:
        lines.append(_json(divergence_line(divergence)))
    replace(path, b"\n".join(lines) + b"\n")


def safe_name(text: str) -> str:
    """The text as part of the name of a file: no separators, no spaces."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)


def _line(machine: Machine, index: int, operation: Any, expected: str | None) -> OperationLine:
    raw = msgspec.Raw(machine.encode(operation))
    return OperationLine(index=index, operation=raw, expected=expected)


def divergence_line(divergence: Divergence) -> DivergenceLine:
    """The last line of a run that ended by it."""
    return DivergenceLine(
        kind=divergence.kind,
        law=divergence.law,
        index=divergence.index,
        expected=divergence.expected,
        got=divergence.got,
    )


_json = msgspec.json.encode
