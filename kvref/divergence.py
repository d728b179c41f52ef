"""What differed between a target and the oracle, in words."""

from __future__ import annotations

import enum

import msgspec

from kvref.operations import Operation

__all__ = ["Divergence", "DivergenceKind"]


class DivergenceKind(enum.Enum):
    """How a target can be wrong."""

    MATCH_LENGTH = "match-length"
    MATCH_SLOTS = "match-slots"
    ALREADY_CACHED = "already-cached"
    VICTIMS = "victims"
    RESET_SLOTS = "reset-slots"
    SIZES = "sizes"
    HANDLES = "handles"
    STRUCTURE = "structure"
    INTEGRITY = "integrity"
    REFUSED = "refused-what-is-allowed"
    ACCEPTED = "accepted-what-is-forbidden"
    WRONG_REFUSAL = "refused-with-the-wrong-error"
    LEFT_A_TRACE = "refused-call-left-a-trace"
    MALFORMED = "malformed-answer"
    HANG = "hang"
    CRASH = "crash"


class Divergence(msgspec.Struct, frozen=True):
    """The first difference of a run. `law` is the id of the law that was broken."""

    kind: DivergenceKind
    law: str
    index: int
    operation: Operation
    expected: str
    got: str

    def __str__(self) -> str:
        return (
            f"{self.kind.value} at operation {self.index}, "
            f"{self.operation.python(self.index)}\n"
            f"  expected: {self.expected}\n"
            f"  got:      {self.got}"
        )
