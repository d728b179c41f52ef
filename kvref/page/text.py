"""Text that anybody may have written, made fit for a page: no tricks, and no end of it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["cut", "plain", "runs", "short"]

_SHORT = 24
"""Of more tokens the middle is left out, as `kvref replay --step` does."""


def plain(text: str) -> str:
    """The text with everything that is not printed as itself written out.

    Marks that turn the direction of writing could make a page say another thing than the file;
    lone surrogates could not be written at all.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text
    )


def cut(text: str, most: int) -> str:
    """At most about so many characters of it, from both ends, in plain."""
    if len(text) <= most:
        return plain(text)
    tail = most // 3
    gone = len(text) - most
    return plain(f"{text[: most - tail]} ... {gone:,} characters more ... {text[-tail:]}")


def short(values: tuple[int, ...]) -> str:
    """The numbers as a list, its middle left out if it is long."""
    if len(values) <= _SHORT:
        return str(list(values))
    half = _SHORT // 2
    first, last = (", ".join(map(str, part)) for part in (values[:half], values[-half:]))
    return f"[{first}, ... {len(values) - 2 * half:,} more ..., {last}]"


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The numbers in their order, as first and last of each run that counts up."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
