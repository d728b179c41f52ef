"""The operations: what every source of programs makes and the judge applies.

An operation is a small frozen value that compares, serialises as JSON and prints as the Python
that does the same. Handles have no values here: an operation names a handle by the index of the
match that made it, so it stays readable, and stable when operations before it are dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from kvref.configuration import Configuration

__all__ = [
    "FOREIGN",
    "NOT_A_HANDLE",
    "Carried",
    "Evict",
    "HandleRef",
    "Insert",
    "Lock",
    "Match",
    "Operation",
    "Reset",
    "Unlock",
    "decode",
    "encode",
    "program",
    "tensor_functions",
]

Carried = Literal["int64", "int32", "int64-strided", "int32-strided"]
"""How the tokens travel: equal values must match whatever the dtype and stride."""

FOREIGN: Literal["foreign"] = "foreign"
"""In place of a match's index: a handle that another manager made."""
NOT_A_HANDLE: Literal["not-a-handle"] = "not-a-handle"
"""In place of a match's index: something that is no handle at all."""

HandleRef = int | Literal["foreign", "not-a-handle"]


class _Operation(
    msgspec.Struct,
    frozen=True,
    tag_field="do",
    tag=str.lower,
    omit_defaults=True,
    forbid_unknown_fields=True,  # a misspelt field would be dropped, and mean another program
):
    def python(self, index: int) -> str:
        """One line of Python that does the same, as the operation number `index`."""
        raise AssertionError("unreachable: each operation has its own")

    def __str__(self) -> str:
        return self.python(-1)


class Match(_Operation, frozen=True):
    """`match_prefix(tokens)`; later operations name its handle by its index."""

    tokens: tuple[int, ...]
    namespace: str | None = None
    carried: Carried = "int64"

    def python(self, index: int) -> str:
        """As `h3, indices = cache.match_prefix(ids([0, 1]))`."""
        left = f"h{index}, indices = " if index >= 0 else ""
        tokens = _ids(self.tokens, self.carried)
        return f"{left}cache.match_prefix({tokens}{_keyword(self.namespace)})"


class Insert(_Operation, frozen=True):
    """`insert_prefix(tokens, slots)`."""

    tokens: tuple[int, ...]
    slots: tuple[int, ...]
    namespace: str | None = None
    carried: Carried = "int64"

    def python(self, index: int) -> str:
        """As `cache.insert_prefix(ids([0, 1]), slots([4, 5]))`."""
        tokens = _ids(self.tokens, self.carried)
        slots = f"slots({list(self.slots)})"
        return f"cache.insert_prefix({tokens}, {slots}{_keyword(self.namespace)})"


class Lock(_Operation, frozen=True):
    """`lock_handle(handle)`."""

    handle: HandleRef

    def python(self, index: int) -> str:
        """As `cache.lock_handle(h3)`."""
        return f"cache.lock_handle({_handle(self.handle)})"


class Unlock(_Operation, frozen=True):
    """`lock_handle(handle, unlock=True)`."""

    handle: HandleRef

    def python(self, index: int) -> str:
        """As `cache.lock_handle(h3, unlock=True)`."""
        return f"cache.lock_handle({_handle(self.handle)}, unlock=True)"


class Evict(_Operation, frozen=True):
    """`evict(size)`; what is not an int is there to be refused."""

    size: int | bool | float | None

    def python(self, index: int) -> str:
        """As `cache.evict(2)`."""
        return f"cache.evict({self.size!r})"


class Reset(_Operation, frozen=True):
    """`reset()`."""

    def python(self, index: int) -> str:
        """As `cache.reset()`."""
        return "cache.reset()"


Operation = Match | Insert | Lock | Unlock | Evict | Reset

_DECODER: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation, strict=True)


def encode(operation: Operation) -> bytes:
    """The operation as one line of JSON."""
    return msgspec.json.encode(operation)


def decode(line: bytes | str) -> Operation:
    """The operation that `encode` wrote; msgspec.ValidationError or DecodeError otherwise."""
    return _DECODER.decode(line)


def program(
    configuration: Configuration,
    operations: Sequence[Operation],
    refused: Collection[int] = (),
    skipped: Collection[int] = (),
) -> str:
    """The whole run as Python against the bare manager of this interface.

    Args:
        configuration: of the manager.
        operations: of the run.
        refused: the numbers of those that had to be refused; the program goes on after them.
        skipped: the numbers of those that were not issued.
    """
    lines = [
        "from contextlib import suppress",
        "",
        "import torch",
        "from kvgpu import RadixCacheManager",
        "",
        *tensor_functions(),
        "",
    ]
    if any(getattr(operation, "handle", None) == FOREIGN for operation in operations):
        lines += [
            'other = RadixCacheManager("cpu")',
            "other.insert_prefix(ids([0]), slots([0]))",
            "foreign, _ = other.match_prefix(ids([0]))",
        ]
    lines.append(configuration.python())
    for index, operation in enumerate(operations):
        line = operation.python(index)
        if index in skipped:
            line = f"# not issued: {line}"
        elif index in refused:
            line = f"with suppress(Exception): {line}  # has to be refused"
        lines.append(line)
    return "\n".join(lines) + "\n"


def tensor_functions(*, kept: bool = False) -> list[str]:
    """The functions that the lines of `Operation.python` call.

    Args:
        kept: each tensor passes through a function of that name, which is the caller's.
    """
    left, right = ("kept(", ")") if kept else ("", "")
    return [
        "def ids(tokens, dtype=torch.int64, stride=1):",
        # Between the tokens lies what is no token of any program, as in the bridge.
        f"    buffer = {left}torch.full((stride * len(tokens),), -(2**31) + 7, dtype=dtype){right}",
        "    buffer[::stride] = torch.tensor(tokens, dtype=dtype)",
        "    return buffer[::stride]",
        "",
        "def slots(places):",
        f"    return {left}torch.tensor(places, dtype=torch.int32){right}",
    ]


def _ids(tokens: tuple[int, ...], carried: Carried) -> str:
    extra = ""
    if carried.startswith("int32"):
        extra += ", dtype=torch.int32"
    if carried.endswith("strided"):
        extra += ", stride=2"
    return f"ids({list(tokens)}{extra})"


def _keyword(namespace: str | None) -> str:
    return "" if namespace is None else f", namespace={namespace!r}"


def _handle(handle: HandleRef) -> str:
    if handle == FOREIGN:
        return "foreign"
    return '"no handle"' if handle == NOT_A_HANDLE else f"h{handle}"
