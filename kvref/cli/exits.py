"""Exit statuses, and how a command says that it was misused."""

from __future__ import annotations

from rich.console import Console

__all__ = ["CLEAN", "FOUND", "INTERRUPTED", "MISUSED", "UNTESTABLE", "console", "misused"]

CLEAN, FOUND, MISUSED, INTERRUPTED = 0, 1, 2, 130
UNTESTABLE = 125
"""What `git bisect run` takes for "this revision cannot be tested, skip it"."""


def console() -> Console:
    """Where a report goes."""
    return Console(highlight=False, soft_wrap=True)


def misused(command: str, error: object, status: int = MISUSED) -> int:
    """Say on the standard error why nothing was done; returns the exit status."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"kvref {command}: {error}", markup=False
    )
    return status
