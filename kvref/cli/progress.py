"""A line of progress: rewritten on a terminal, and one every ten seconds anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

__all__ = ["Progress"]


class Progress:
    """Use it as a context manager, around the work and not around its results."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = (
            Live(console=console, refresh_per_second=4, transient=True)
            if console.is_terminal
            else None
        )
        self._every = 10.0 if self._live is None else 0.25
        self._began = self._next = 0.0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._next = self._every
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tries(self, left: int, tries: int) -> None:
        """How far a shrinking is."""
        self.show(lambda elapsed: f"{elapsed:5.0f} s  {left:,} operations left, {tries:,} tries")

    def show(self, line: Callable[[float], str]) -> None:
        """Put `line(seconds since it began)`, if it is time for one."""
        elapsed = time.monotonic() - self._began
        if elapsed < self._next:
            return
        self._next = elapsed + self._every
        if self._live is None:
            # Whoever reads a log reads it whole: no markup, and at once.
            print(line(elapsed), flush=True)  # noqa: T201
        else:
            self._live.update(Text(line(elapsed)))
