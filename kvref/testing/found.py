"""A failing test that found a difference from the oracle."""

from __future__ import annotations

from pathlib import Path

__all__ = ["Found"]


class Found(AssertionError):
    """The text says all that there is to say; `trace` is the file that has it again.

    The plugin shows the text alone: the frames above it are the engine's, not the target's.
    """

    def __init__(self, text: str, trace: Path | None = None) -> None:
        self.trace = trace
        super().__init__(text)
