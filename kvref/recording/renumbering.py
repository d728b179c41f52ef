"""Tokens and namespaces by numbers that say nothing but which sequences begin alike.

The guarantee: two sequences of one namespace have the longest common prefix that they had, counted
in tokens, and equal sequences stay equal. What a radix cache does depends on nothing else, whatever
its page size: the same cached lengths, the same splits, the same victims.

A token's number is how many others were seen before it after the same prefix, so most are 0:

    911 17 4040  8 23    ->    0 0 0 0 0
    911 17 4040  9 23    ->    0 0 0 1 0
    911 60               ->    0 1

Tokens of different places have equal numbers or not, as it comes. Nothing of a text can be read out
of them but how long it was, and what it shared with others.
"""

from __future__ import annotations

__all__ = ["Renumbering"]

_WIDTH = 8
"""Bytes of a token."""


class _Run:
    """Tokens in a row, of which only the last has more than one that came after it."""

    __slots__ = ("below", "key", "number")

    def __init__(self, key: bytes, number: int, below: dict[bytes, _Run]) -> None:
        self.key = key
        self.number = number  # of the first token; all others are 0
        self.below = below  # by their first token

    def split(self, at: int) -> None:
        """Let the run end after so many bytes, and the rest come below it."""
        rest = _Run(self.key[at:], 0, self.below)
        self.key = self.key[:at]
        self.below = {rest.key[:_WIDTH]: rest}


class Renumbering:
    """The numbers of one recording. For one thread.

    Keeps every sequence that it was given, each shared part once: eight bytes a token.
    """

    def __init__(self) -> None:
        self._roots: dict[str | None, _Run] = {}
        self._spaces: dict[str, str] = {}

    def namespace(self, name: str | None) -> str | None:
        """Its number; None and the empty one, which managers have to tell apart, stay."""
        if not name:
            return name
        return self._spaces.setdefault(name, f"n{len(self._spaces)}")

    def tokens(self, data: bytes, namespace: str | None) -> list[int]:
        """The numbers of a sequence, given as int64 in one byte order throughout."""
        numbers = [0] * (len(data) // _WIDTH)
        run = self._roots.get(namespace)
        if run is None:
            run = self._roots[namespace] = _Run(b"", 0, {})
        at = 0
        while at < len(data):
            first = data[at : at + _WIDTH]
            child = run.below.get(first)
            if child is None:
                child = run.below[first] = _Run(data[at:], len(run.below), {})
            numbers[at // _WIDTH] = child.number
            shared = _shared(child.key, data, at)
            at += shared
            if shared < len(child.key) and at < len(data):
                child.split(shared)
            run = child
        return numbers


def _shared(key: bytes, data: bytes, at: int) -> int:
    """How many bytes of `key`, in whole tokens, come at that place."""
    if data.startswith(key, at):
        return len(key)
    # All of `low` tokens are equal, and not all of `high`.
    low, high = 1, min(len(key), len(data) - at) // _WIDTH + 1
    while high - low > 1:
        middle = (low + high) // 2
        if data.startswith(key[: middle * _WIDTH], at):
            low = middle
        else:
            high = middle
    return low * _WIDTH
