"""Exit statuses, and how a command says something: a result, or that it was misused."""

from __future__ import annotations

from rich.console import Console

__all__ = [
    "CLEAN", "FOUND", "INTERRUPTED", "MISUSED", "UNREAD", "UNTESTABLE", "console", "misused",
    "shown",
]  # fmt: skip

CLEAN, FOUND, MISUSED, INTERRUPTED = 0, 1, 2, 130
UNREAD = 141
"""Nobody read the output to its end: what a shell says of a program that SIGPIPE ended."""
UNTESTABLE = 125
"""What `git bisect run` takes for "this revision cannot be tested, skip it"."""


def console() -> Console:
    """Where a report goes."""
    return Console(highlight=False, soft_wrap=True)


def shown(text: object, *, lines: bool = False) -> str:
    """Text of a file, for a terminal: what is no letter or space stands there as Python writes it.

    An escape sequence in it could rewrite what was said before. `lines` lets line ends through.
    """
    return "".join(
        letter
        if letter.isprintable() or (lines and letter == "\n")
        else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )


def misused(command: str, error: object, status: int = MISUSED) -> int:
    """Say on the standard error why nothing was done; returns the exit status."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"kvref {command}: {shown(error, lines=True)}", markup=False
    )
    return status
