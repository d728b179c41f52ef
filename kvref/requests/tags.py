"""One number for each token after one particular prefix, so that a wrong row says whose it is."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Protocol

__all__ = ["HashedTags", "NamesPrefixes", "Tags"]

_SHOWN = 12


class NamesPrefixes(Protocol):
    """Gives each prefix a tag: equal ones the same, and others another."""

    def follow(
        self, tokens: Sequence[int], namespace: str | None = None, after: int | None = None
    ) -> list[int]:
        """The tags of the tokens, which come after the prefix with the tag `after`, if any."""

    def words(self, tag: int) -> str:
        """What a tag names."""


class Tags:
    """Hands out tags: 0, 1, 2 and so on, one for each pair of namespace and whole prefix."""

    def __init__(self) -> None:
        self._next = 0
        # A prefix is the tag of all but its last token, and that token. Empty ones are negative.
        self._tags: dict[tuple[int, int], int] = {}
        self._empty: dict[str | None, int] = {}

    def __len__(self) -> int:
        return len(self._tags)

    def follow(
        self, tokens: Sequence[int], namespace: str | None = None, after: int | None = None
    ) -> list[int]:
        """The tags of the tokens, which come after the prefix with the tag `after`, if any."""
        last = self._empty.setdefault(namespace, -1 - len(self._empty)) if after is None else after
        table, found = self._tags, []
        for token in tokens:
            key = (last, token)
            tag = table.get(key)
            if tag is None:
                tag = table[key] = self._next
                self._next += 1
            found.append(tag)
            last = tag
        return found

    def words(self, tag: int) -> str:
        """What a tag names: "the token 3 after [0, 1] of namespace 'a'"."""
        names = {number: key for key, number in self._tags.items()}
        if tag not in names:
            return f"the tag {tag}, which no prefix here has"
        before, last = names[tag]
        tokens: list[int] = []
        while before >= 0:
            before, token = names[before]
            tokens.append(token)
        shown = ", ".join(map(str, tokens[_SHOWN - 1 :: -1]))
        if len(tokens) > _SHOWN:
            shown = f"{len(tokens) - _SHOWN} tokens, {shown}"
        namespace = next(name for name, number in self._empty.items() if number == before)
        where = "" if namespace is None else f" of namespace {namespace!r}"
        return f"the token {last} after [{shown}]{where}"


class HashedTags:
    """Tags for a run of so many tokens that no table can hold them: hashes of the prefixes.

    Equal prefixes have equal tags, so nothing right is called wrong. Of wrong rows, one in
    2^bits would pass for right.
    """

    def __init__(self, bits: int) -> None:
        """Tags below 2^bits."""
        self._mask = (1 << bits) - 1

    def follow(
        self, tokens: Sequence[int], namespace: str | None = None, after: int | None = None
    ) -> list[int]:
        """The tags of the tokens, which come after the prefix with the tag `after`, if any."""
        # The hash of ints in a tuple is the same in every process; that of a str is not.
        last = after
        if last is None:
            last = -1 if namespace is None else zlib.crc32(namespace.encode())
        mask = self._mask
        return [last := hash((last, token)) & mask for token in tokens]

    def words(self, tag: int) -> str:
        """Its number: what it is a hash of was not kept."""
        return f"a token of the prefix with the hash {tag:x}"
