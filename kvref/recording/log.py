"""Hands the calls of a running manager to a thread that writes them as traces.

A trace is a run from an empty manager on. Once a call could not be kept (the queue was full, or the
disk), what came after it cannot be understood without it: the trace ends there, with a line that
says so, and what it has is whole and can be replayed. The next one begins where the manager is
known to be empty again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kvref.recording.trace_file import Taken, TraceFile
from kvref.traces.format import Header

__all__ = ["Counts", "Item", "TraceLog"]

_LOGGER = logging.getLogger(__name__)
_FIXED_COST = 1000
"""Bytes that a call takes in the queue besides its buffers."""
_SOON, _LATER = 0.005, 0.1
"""Seconds until the writer looks again, first and after long silence. Nobody wakes it: to wake a
thread costs a caller more than all the rest."""


class Item(Protocol):
    """What waits in the queue: made by the caller's thread, read by the writer's."""

    def taken(self) -> Taken:
        """The call; may wait for a device."""


@dataclass
class Counts:
    """What became of the calls.

    Attributes:
        recorded: written to a trace, or waiting to be as long as the log is open.
        dropped: in no trace: what could not be kept, and what came after it until the next began.
        left_out: refused calls that a trace has no words for; they changed nothing.
        errors: of the writer, each of which ended a trace.
    """

    recorded: int = 0
    dropped: int = 0
    left_out: int = 0
    errors: int = 0


class _Begin:
    """From here on a new trace."""


@dataclass(frozen=True)
class _Gap:
    """The trace ends here."""

    reason: str


class TraceLog:
    """Traces in files: `path`, then the same with -2, -3 and so on before its ending.

    `begin`, `put` and `lose` are for one thread at a time (their caller's lock sees to that); none
    of them raises or waits. `flush` and `close` wait for the writer, from any thread.

    Attributes:
        generation: the number of the newest trace, from 1; 0 before the first.
    """

    def __init__(
        self, path: Path, header: Header, *, max_pending_bytes: int, max_bytes: int | None
    ) -> None:
        self.generation = 0
        self._path, self._header = path, header
        self._max_pending, self._max_bytes = max_pending_bytes, max_bytes
        self._queue: deque[tuple[Item | _Begin | _Gap | threading.Event | None, int]] = deque()
        # Each of these is written by one side alone, and needs no lock.
        self._next = 0  # index of the next call
        self._whole = False
        self._closed = False
        self._dropped = self._left_out = self._put = self._put_bytes = 0
        self._discarded = self._errors = self._done_bytes = 0
        self._ended = 0  # the newest generation that the writer had to end
        self._written = 0  # the generation that the writer is at
        self._thread = threading.Thread(target=self._write, name="kvref-recording", daemon=True)
        self._thread.start()
        if hasattr(os, "register_at_fork"):
            log = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _leave_to_the_parent(log()))

    @property
    def recording(self) -> bool:
        """Whether a call that is put now will be in the trace."""
        return self._whole and self._ended < self.generation

    @property
    def counts(self) -> Counts:
        """As of now."""
        dropped = self._dropped + self._discarded
        return Counts(self._put - self._discarded, dropped, self._left_out, self._errors)

    # ------------------------------------------------------------------------- the producer

    def begin(self) -> None:
        """The manager is empty: a new trace begins, unless the one in progress is whole."""
        if not self._closed and not self.recording:
            self.generation += 1
            self._next = 0
            self._whole = True
            self._queue.append((_Begin(), 0))

    def put(self, item: Item, num_bytes: int) -> int | None:
        """The next call; its index in the trace, or None if there is no place for it."""
        if not self.recording:
            self._dropped += not self._closed
            return None
        cost = num_bytes + _FIXED_COST
        if self._put_bytes - self._done_bytes + cost > self._max_pending:
            self.lose("the queue was full")
            return None
        index = self._next
        self._next += 1
        self._put += 1
        self._put_bytes += cost
        self._queue.append((item, cost))
        return index

    def lose(self, reason: str) -> None:
        """A call cannot be in the trace, which therefore ends before it."""
        self._dropped += not self._closed
        if self.recording:
            self._whole = False
            self._queue.append((_Gap(reason), 0))

    def leave_out(self) -> None:
        """A call was refused that a trace has no words for; the trace is whole without it."""
        if self.recording:
            self._left_out += 1
        else:
            self._dropped += not self._closed

    # ---------------------------------------------------------------------- from any thread

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was put so far is in the file; whether it is, or could not be."""
        done = threading.Event()
        self._queue.append((done, 0))
        left = timeout
        while not done.wait(0.1 if left is None else min(left, 0.1)):
            left = None if left is None else left - 0.1
            if not self._thread.is_alive() or (left is not None and left <= 0):
                return self._closed and not self._thread.is_alive()
        return True

    def close(self, timeout: float | None = 60.0) -> None:
        """Write what waits and end; nothing is recorded afterwards. Again: nothing."""
        if self._closed:
            return
        self._closed = True
        self._whole = False
        self._queue.append((None, 0))
        # The collector may have called this in the writer's own thread, which goes on to the end.
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        counts = self.counts
        if counts.dropped:
            _LOGGER.warning(
                "recording %s: %d calls recorded, in %d traces; %d dropped",
                self._path, counts.recorded, self.generation, counts.dropped,
            )  # fmt: skip

    def leave_to_the_parent(self) -> None:
        """After a fork: the thread is the parent's, and so are the file and all that waits."""
        self._closed = True
        self._whole = False

    # --------------------------------------------------------------------------- the writer

    def _write(self) -> None:
        file: TraceFile | None = None
        pause = _SOON
        while True:
            if not self._queue:
                file = self._step(file, threading.Event())
                time.sleep(pause)
                pause = min(1.2 * pause, _LATER)
                continue
            pause = _SOON
            thing, cost = self._queue.popleft()
            file = self._step(file, thing)
            self._done_bytes += cost
            if thing is None:
                return
            # A caller that waits for the interpreter has it now, and not in 5 ms.
            time.sleep(0)

    def _step(
        self, file: TraceFile | None, thing: Item | _Begin | _Gap | threading.Event | None
    ) -> TraceFile | None:
        """Do one thing; the file to go on with. Whatever goes wrong ends with the file."""
        try:
            return self._do(file, thing)
        except Exception as error:
            self._errors += 1
            self._ended = self._written
            if not (thing is None or isinstance(thing, _Begin | _Gap | threading.Event)):
                self._discarded += 1
            if self._errors == 1:
                _LOGGER.warning("recording %s stopped: %s", self._path, type(error).__name__)
            if file is not None:
                self._discarded += file.abandon()
            return None
        finally:
            if isinstance(thing, threading.Event):
                thing.set()

    def _do(
        self, file: TraceFile | None, thing: Item | _Begin | _Gap | threading.Event | None
    ) -> TraceFile | None:
        if isinstance(thing, _Begin):
            if file is not None:
                file.end()
            self._written += 1
            number = "" if self._written == 1 else f"-{self._written}"
            name = f"{self._path.stem}{number}{self._path.suffix}"
            return TraceFile(self._path.with_name(name), self._header)
        if isinstance(thing, threading.Event):
            if file is not None:
                file.flush()
            return file
        if thing is None or isinstance(thing, _Gap):
            if file is not None:
                file.end(None if thing is None else thing.reason)
            return None
        if file is None:
            self._discarded += 1
            return None
        file.write(thing.taken())
        if self._max_bytes is not None and file.num_bytes >= self._max_bytes:
            self._ended = self._written
            file.end("the trace has its largest size")
            return None
        return file


def _leave_to_the_parent(log: TraceLog | None) -> None:
    if log is not None:
        log.leave_to_the_parent()
