"""What came back from a target: a value, junk, an exception, silence, or its process's end."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec

from kvref.refusals import BUILTIN, Refusal, RefusalKind, classify

__all__ = [
    "Answer",
    "Died",
    "Hung",
    "Malformed",
    "Raised",
    "Returned",
    "from_exception",
    "short",
    "words",
]

_BUILTINS = frozenset(BUILTIN.values())
_FIELDS = ("needed", "evictable", "protected_size", "cached_len", "free", "running")


class Returned(msgspec.Struct, frozen=True, tag=True):
    """A result: the slots of a match, an evict or a reset, or the length of an insert.

    `cached_len` is that of the handle which a match returned.
    """

    value: list[int] | int | None
    cached_len: int | None = None


class Malformed(msgspec.Struct, frozen=True, tag=True):
    """A result that is not of the type that the interface names."""

    what: str

    def __str__(self) -> str:
        return self.what


class Raised(msgspec.Struct, frozen=True, tag=True):
    """An exception: what it announces itself to be, and how it read."""

    kind: RefusalKind | None
    builtins: list[str]
    error: str
    message: str
    fields: dict[str, int]

    def __str__(self) -> str:
        return f"{self.error}: {self.message}"

    def announces(self, refusal: Refusal, how: Literal["named", "builtin", "any"]) -> bool:
        """Whether this is the refusal, as exactly as `Promises.refusal_errors` says."""
        if how == "any":
            return True
        if BUILTIN[refusal.kind].__name__ not in self.builtins:
            return False
        return how == "builtin" or (
            self.kind is refusal.kind and refusal.fields.items() <= self.fields.items()
        )


class Hung(msgspec.Struct, frozen=True, tag=True):
    """No answer within the time limit, in seconds."""

    seconds: float


class Died(msgspec.Struct, frozen=True, tag=True):
    """The process of the target ended; `how` says its exit status or signal."""

    how: str


Answer = Returned | Malformed | Raised | Hung | Died


def words(how: Callable[[Any], str], value: object) -> str:
    """`how(value)`, whatever the value does then, in letters that JSON and a terminal can hold."""
    try:
        text = how(value)
    except Exception as error:
        text = f"<no text: {type(error).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def short(value: object) -> str:
    """What something is that should have been something else."""
    return f"a {type(value).__name__}: {words(repr, value)[:200]}"


def from_exception(error: BaseException) -> Raised:
    """The exception as an answer."""
    kind, builtins = _of_class(type(error))  # type: ignore[arg-type]  # a class has a hash
    return Raised(
        kind=kind,
        builtins=builtins.copy(),
        error=type(error).__name__,
        message=words(str, error)[:500],
        fields={
            name: value
            for name, value in vars(error).items()
            if name in _FIELDS and isinstance(value, int)
        },
    )


@lru_cache(maxsize=64)
def _of_class(error: type[BaseException]) -> tuple[RefusalKind | None, list[str]]:
    """What an exception announces by its class, and the builtins that it is."""
    return classify(error), sorted(base.__name__ for base in _BUILTINS if issubclass(error, base))
