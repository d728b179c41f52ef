"""What goes into an exported program as text, so that nothing of a trace becomes code.

A trace comes from a bug report as often as from one's own disk. Its values go in through `repr`,
its words through `comment`, and the name of a manager only if it is a name.
"""

from __future__ import annotations

import enum
import keyword
from collections.abc import Iterator
from typing import NamedTuple

from kvref.traces.format import Trace

__all__ = ["ManagerName", "Style", "about", "comment", "manager_name"]

_LONGEST = 400


class Style(enum.Enum):
    """What the program is."""

    PYTEST = "pytest"
    """A module with one test."""
    SCRIPT = "script"
    """Plain Python, run from top to bottom."""


class ManagerName(NamedTuple):
    """The class that a program imports: of bare managers, or of whole requests."""

    module: str
    name: str


def manager_name(text: str) -> ManagerName:
    """`module:Class` as a name; ValueError if it is none."""
    module, colon, name = text.partition(":")
    for part in (*module.split("."), name):
        if not colon or not part.isidentifier() or keyword.iskeyword(part):
            raise ValueError(f"{text!r} is not module:Class")
    return ManagerName(module, name)


def comment(text: str) -> str:
    """The text as one line of comment: what cannot be printed is escaped, and much is cut."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({len(text):,} characters in all)"
    # A line feed ends a comment, and so does more that is not printable.
    return "# " + "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def about(trace: Trace) -> Iterator[str]:
    """What differed, what it was recorded on, and the note, each in comments of one line."""
    divergence = trace.divergence
    if divergence is None:
        yield "# No difference was recorded: it passes."
    else:
        yield comment(f"The difference: {divergence.kind.value}, in the last lines.")
        yield comment(f"  expected: {divergence.expected}")
        yield comment(f"  got:      {divergence.got}")
    versions = ", ".join(f"{name} {value}" for name, value in trace.header.versions.items())
    yield comment(f"Recorded on {trace.header.target or 'a manager without a name'} ({versions}).")
    if trace.header.note is not None:
        yield comment(f"Note: {trace.header.note}")
