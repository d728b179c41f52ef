"""Listening to a judge: what was asked, what had to come back, and what did.

Words and not values: they are for files and for people, and alike for every machine.
"""

from __future__ import annotations

from typing import Any, Protocol

from kvref.answers import Answer, Died, Hung, Malformed, Raised
from kvref.naive_oracle import NaiveOracle
from kvref.operations import Evict, Insert, Match, Reset
from kvref.oracle import Oracle
from kvref.refusals import Refusal

__all__ = ["Listener", "answer_in_words", "expected_in_words"]


class Listener(Protocol):
    """What a judge tells; the oracle that comes with it may be looked at, and not be changed."""

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        """The operation is about to run. `expected` is the oracle's answer, or a Refusal."""

    def answers(self, index: int, answer: Answer) -> None:
        """What came back."""

    def ends(self, index: int, oracle: Oracle | NaiveOracle) -> None:
        """The operation was judged."""

    def skips(self, index: int, operation: Any, oracle: Oracle | NaiveOracle) -> None:
        """It is not issued: this target does not promise it, or it names what is not there."""


def expected_in_words(operation: object, expected: Any) -> str:
    """What had to come back."""
    if isinstance(expected, Refusal):
        return str(expected)
    if isinstance(operation, Match):
        handle, slots = expected
        return _match(handle.cached_len, slots)
    if isinstance(operation, Insert):
        return f"{expected} cached before"
    if isinstance(operation, Evict | Reset):
        # A number where the target's choice is its own.
        return f"at least {expected} slots" if isinstance(expected, int) else f"slots {expected}"
    return "done"


def answer_in_words(operation: object, answer: Answer) -> str:
    """What came back, in the same words where it is the same."""
    match answer:
        case Raised():
            return f"raised {answer}"
        case Malformed(what):
            return f"malformed: {what}"
        case Hung(seconds):
            return f"nothing within {seconds:g} s"
        case Died(how):
            return f"the process ended: {how}"
    value: Any = answer.value
    if isinstance(operation, Match):
        return _match(answer.cached_len, value)
    if isinstance(operation, Insert):
        return f"{value} cached before"
    return f"slots {value}" if isinstance(operation, Evict | Reset) else "done"


def _match(cached_len: int | None, slots: Any) -> str:
    return f"{cached_len} cached, slots {slots}"
