"""What a manager or a life of requests may refuse, and how a target's exception is read as that."""

from __future__ import annotations

import enum
from typing import NoReturn

import msgspec

__all__ = [
    "BUILTIN",
    "NAMES",
    "OF_REQUESTS",
    "Refusal",
    "RefusalKind",
    "Refused",
    "classify",
    "refuse",
]


class RefusalKind(enum.Enum):
    """The rows of the contract's table of refusals, as far as a judge can tell them apart."""

    TYPE = "wrong-type"
    VALUE = "wrong-value"
    STALE = "stale-handle"
    FOREIGN = "foreign-handle"
    UNBALANCED = "unbalanced-unlock"
    NOT_EVICTABLE = "not-evictable"
    IN_USE = "in-use"
    UNSUPPORTED = "unsupported"
    NO_ROOM = "no-room"
    TOO_MANY = "too-many-requests"
    ENDED = "request-ended"


BUILTIN: dict[RefusalKind, type[Exception]] = {
    RefusalKind.TYPE: TypeError,
    RefusalKind.VALUE: ValueError,
    RefusalKind.STALE: RuntimeError,
    RefusalKind.FOREIGN: RuntimeError,
    RefusalKind.UNBALANCED: RuntimeError,
    RefusalKind.NOT_EVICTABLE: RuntimeError,
    RefusalKind.IN_USE: RuntimeError,
    RefusalKind.UNSUPPORTED: NotImplementedError,
    RefusalKind.NO_ROOM: RuntimeError,
    RefusalKind.TOO_MANY: RuntimeError,
    RefusalKind.ENDED: RuntimeError,
}
"""The builtin error that each refusal has to be an instance of."""

OF_REQUESTS = frozenset({RefusalKind.NO_ROOM, RefusalKind.TOO_MANY, RefusalKind.ENDED})
"""What only whole requests meet: no manager by itself refuses any of them."""

# The contract's names; a target need not import anything of ours to use them.
_NAMED = {
    "StaleHandle": RefusalKind.STALE,
    "ForeignHandle": RefusalKind.FOREIGN,
    "UnbalancedUnlock": RefusalKind.UNBALANCED,
    "NotEvictable": RefusalKind.NOT_EVICTABLE,
    "CacheInUse": RefusalKind.IN_USE,
    "NoRoom": RefusalKind.NO_ROOM,
    "TooManyRequests": RefusalKind.TOO_MANY,
    "RequestEnded": RefusalKind.ENDED,
}
NAMES = {kind: name for name, kind in _NAMED.items()}
"""The name of the class that a refusal has in the contract, where it has one of its own."""


class Refusal(msgspec.Struct, frozen=True):
    """One refusal: its kind, and the numbers that the error must carry as fields."""

    kind: RefusalKind
    fields: dict[str, int] = {}

    def __str__(self) -> str:
        numbers = ", ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"refused: {self.kind.value}" + (f" ({numbers})" if numbers else "")


class Refused(Exception):
    """Raised by the oracle: the call is refused and nothing has changed."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(str(refusal))


def refuse(kind: RefusalKind, **fields: int) -> NoReturn:
    """Raise `Refused`."""
    raise Refused(Refusal(kind, fields))


def classify(error: BaseException) -> RefusalKind | None:
    """The kind that an exception announces by its class, or None for one that announces none.

    A class of the contract's name counts wherever it is defined; then the builtin decides. A
    bare RuntimeError could be any of eight refusals, so it is none of them.
    """
    for ancestor in type(error).__mro__:
        if ancestor.__name__ in _NAMED:
            return _NAMED[ancestor.__name__]
    for kind in (RefusalKind.UNSUPPORTED, RefusalKind.TYPE, RefusalKind.VALUE):
        if isinstance(error, BUILTIN[kind]):
            return kind
    return None
