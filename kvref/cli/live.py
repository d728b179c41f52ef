"""A campaign that writes down what it is about to do, in case it does not survive it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvref.listener import Listener
from kvref.machine import Machine
from kvref.traces.writer import TraceWriter, header_of, safe_name

__all__ = ["CannotWrite", "Live"]


class CannotWrite(Exception):
    """The trace of the run in progress: the campaign must not go on without it."""


class _Writer(TraceWriter):
    def _write(self, line: Any) -> None:
        try:
            super()._write(line)
        except OSError as error:
            raise CannotWrite(f"{self.path} cannot be written: {error}") from error


class Live:
    """The trace of the run in progress: a new one for each run, and none when all is over.

    Args:
        on: False does nothing at all.
    """

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        target: str,
        promises: Any,
        seed: int,
        look_every: int,
        *,
        on: bool,
    ) -> None:
        self.path = folder / f"{safe_name(target)}-live.jsonl"
        self._on, self._machine, self._target, self._promises = on, machine, target, promises
        self._seed, self._look_every = seed, look_every
        self._writer: TraceWriter | None = None

    def listen(self, run: int, configuration: Any) -> Listener | None:
        """The listener of a run that begins; CannotWrite if there is no place for its file."""
        if not self._on:
            return None
        self._end()
        header = header_of(
            self._machine,
            self._target,
            self._promises,
            configuration,
            look_every=self._look_every,
            seed=self._seed,
            run=run,
        )
        try:
            self._writer = _Writer(self.path, self._machine, header)
        except OSError as error:
            raise CannotWrite(f"--live: {error}") from error
        return self._writer

    def close(self) -> None:
        """The campaign is over, and this process alive: what failed has a file of its own."""
        if self._writer is not None:
            self._end()
            self.path.unlink(missing_ok=True)

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
