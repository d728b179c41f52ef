"""What differed between a target and the oracle, in words."""

from __future__ import annotations

import enum

import msgspec

from kvref.answers import Answer, Died, Hung, Malformed
from kvref.operations import Operation
from kvref.requests.operations import RequestOperation

__all__ = ["Divergence", "DivergenceKind", "blame"]


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
    # Of whole requests.
    NOTHING_LEFT = "nothing-left-to-compute"
    ADMISSION = "admission-match"
    LENGTHS = "request-lengths"
    ROW = "row"
    PAGES = "pages"
    SHORTFALL = "shortfall"
    FREE_PAGES = "free-pages"
    CONTENT = "content"
    TOKENS = "preempted-tokens"
    NOT_DRAINED = "not-drained"


class Divergence(msgspec.Struct, frozen=True):
    """The first difference of a run. `law` is the id of the law that was broken."""

    kind: DivergenceKind
    law: str
    index: int
    operation: Operation | RequestOperation
    expected: str
    got: str

    def __str__(self) -> str:
        return (
            f"{self.kind.value} at operation {self.index}, "
            f"{self.operation.python(self.index)}\n"
            f"  expected: {self.expected}\n"
            f"  got:      {self.got}"
        )


def blame(
    kind: DivergenceKind, law: str, got: str | Answer, in_time: str
) -> tuple[DivergenceKind, str, str]:
    """The kind, the law (`in_time` where there was no answer at all), and what came, in words."""
    match got:
        case Hung(seconds):
            return DivergenceKind.HANG, in_time, f"nothing within {seconds:g} s"
        case Died(how):
            return DivergenceKind.CRASH, in_time, f"the process ended: {how}"
        case Malformed():
            return DivergenceKind.MALFORMED, law, str(got)
    return kind, law, str(got)
