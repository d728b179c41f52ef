"""One trace that grows while its manager works."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from kvref.manager_machine import MANAGER
from kvref.operations import Insert, Match, Operation
from kvref.recording.renumbering import Renumbering
from kvref.traces.format import GapLine, Header, OperationLine, OutcomeLine
from kvref.traces.reader import LONGEST_LINE

__all__ = ["Taken", "TraceFile"]

_WRITTEN_AT_ONCE = 1 << 16


class Taken(msgspec.Struct, frozen=True):
    """One call as plain values: what it was, and what came back in words.

    `data` has the tokens of a match or an insert, as int64: they are numbered when it is written.
    """

    operation: Operation
    got: str
    data: bytes = b""


class TraceFile:
    """Calls in, whole lines out. For one thread; OSError from wherever something is written."""

    def __init__(self, path: Path, header: Header) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._numbers = Renumbering()
        self._index = -1
        self._waiting = bytearray()
        self._waiting_calls = 0
        self._size = 0  # of the whole lines in the file
        self._add(header)

    @property
    def num_bytes(self) -> int:
        """What it has, or will have when what waits is written."""
        return self._size + len(self._waiting)

    def write(self, call: Taken) -> None:
        """Add a call; ValueError if no reader would take it."""
        operation = call.operation
        if isinstance(operation, Match | Insert):
            space = self._numbers.namespace(operation.namespace)
            tokens = tuple(self._numbers.tokens(call.data, space))
            operation = msgspec.structs.replace(operation, tokens=tokens, namespace=space)
        raw = msgspec.Raw(MANAGER.encode(operation))
        index = self._index + 1
        self._add(
            OperationLine(index=index, operation=raw),
            OutcomeLine(index=index, got=call.got, tree=""),
        )
        self._index = index
        self._waiting_calls += 1
        if len(self._waiting) >= _WRITTEN_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what waits: whole lines, in one piece as far as the system takes it."""
        data = bytes(self._waiting)
        while data:
            data = data[self._file.write(data) :]
        self._size += len(self._waiting)
        self._waiting.clear()
        self._waiting_calls = 0

    def end(self, gap: str | None = None) -> None:
        """Close it, after a line that says why it ends here if something could not be kept."""
        if gap is not None:
            self._add(GapLine(index=self._index, reason=gap))
        self.flush()
        self._file.close()

    def abandon(self) -> int:
        """Close it after an error, with whole lines alone; how many calls did not come that far."""
        with contextlib.suppress(OSError):
            self._file.truncate(self._size)
        with contextlib.suppress(OSError):
            self._file.close()
        return self._waiting_calls

    def _add(self, *lines: msgspec.Struct) -> None:
        encoded = [msgspec.json.encode(line) for line in lines]
        if max(map(len, encoded)) > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE:,} bytes")
        for line in encoded:
            self._waiting += line
            self._waiting += b"\n"
