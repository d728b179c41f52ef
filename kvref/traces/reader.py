"""Reads a trace, strictly: what is not exactly a trace is a TraceError and nothing else.

A trace comes from a bug report as often as from one's own disk. It is data: reading it executes
nothing, and takes no more memory than its lines, each of which has a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kvref.machine import Program
from kvref.machines import MACHINES
from kvref.traces.format import (
    SCHEMA,
    DivergenceLine,
    Header,
    Line,
    OperationLine,
    OutcomeLine,
    Record,
    Trace,
    TraceError,
)

__all__ = ["LONGEST_LINE", "decoded", "first_line", "lines_of", "read"]

LONGEST_LINE = 1 << 25
"""Bytes: more than a match of a million tokens takes."""

_A = TypeVar("_A")
_R = TypeVar("_R")


class _Schema(msgspec.Struct):
    schema: str


_SCHEMA = msgspec.json.Decoder(_Schema)
_HEADER = msgspec.json.Decoder(Header)
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def first_line(path: Path) -> bytes:
    """The first line as it is, for those who have to tell kinds of files apart; b"" if none.

    Whether it has an end, or too many bytes, is for the reader of that kind to say. TraceError if
    the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.readline(LONGEST_LINE + 1)
    except (OSError, ValueError) as error:
        raise TraceError(path, 0, getattr(error, "strerror", None) or str(error)) from None


def read(path: Path) -> Trace:
    """The trace in the file; TraceError if it is none, or not whole."""
    lines = lines_of(path)
    number, first = next(lines, (0, b""))
    if not number:
        raise TraceError(path, 0, "empty: a trace begins with its header")
    schema = decoded(path, number, _SCHEMA.decode, first).schema
    if schema != SCHEMA:
        raise TraceError(path, number, f"schema {schema[:40]!r}, where {SCHEMA!r} is read")
    header = decoded(path, number, _HEADER.decode, first)
    machine = MACHINES.get(header.machine)
    if machine is None:
        known = ", ".join(MACHINES)
        raise TraceError(path, number, f"machine {header.machine[:40]!r}, known: {known}")
    configuration = decoded(path, number, machine.decode_configuration, bytes(header.configuration))
    promises = decoded(path, number, machine.decode_promises, bytes(header.promises))
    operations: list[Any] = []
    records: list[Record] = []
    divergence: DivergenceLine | None = None
    gap: str | None = None
    for number, text in lines:
        line = decoded(path, number, _LINES.decode, text)
        if divergence is not None:
            raise TraceError(path, number, "a line after the divergence, which ends a run")
        if gap is not None:
            raise TraceError(path, number, "a line after the gap, which ends a recording")
        last = len(operations) - 1
        if isinstance(line, OperationLine):
            _at(path, number, line.index, last + 1)
            operations.append(decoded(path, number, machine.decode, bytes(line.operation)))
            records.append(Record(expected=line.expected))
        elif isinstance(line, OutcomeLine):
            _at(path, number, line.index, last)
            if records[last].tree is not None:
                raise TraceError(path, number, f"a second outcome of operation {last}")
            records[last] = Record(records[last].expected, line.got, line.tree)
        elif isinstance(line, DivergenceLine):
            _at(path, number, line.index, last)
            divergence = line
        else:
            if line.index != last:  # it may come before any operation, which is -1
                raise TraceError(path, number, f"index {line.index}, where {last} is due")
            gap = line.reason
    program = Program(tuple(operations), configuration)
    return Trace(header, machine, promises, program, tuple(records), divergence, gap)


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line with its number, without its end."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise TraceError(path, number, f"longer than {LONGEST_LINE:,} bytes")
                if not line.endswith(b"\n"):
                    raise TraceError(path, number, "cut off: it does not end with a line feed")
                yield number, line[:-1]
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise TraceError(path, 0, getattr(error, "strerror", None) or str(error)) from None


def decoded(path: Path, number: int, decode: Callable[[_A], _R], data: _A) -> _R:
    """What `decode` makes of the data; TraceError if that is refused."""
    try:
        return decode(data)
    except RecursionError:
        reason = "nested too deep"
    except msgspec.ValidationError as error:
        reason = str(error)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"no JSON: {error}"
    except ValueError as error:  # of a machine, or a number of too many digits
        reason = str(error)
    raise TraceError(path, number, reason[:300])


def _at(path: Path, number: int, index: int, expected: int) -> None:
    if index != expected or index < 0:
        due = f"{expected} is due" if expected >= 0 else "there is no operation yet"
        raise TraceError(path, number, f"index {index}, where {due}")
