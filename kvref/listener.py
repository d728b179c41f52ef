"""Listening to a judge: what was asked, what had to come back, and what did.

Words and not values: they are for files and for people, and alike for every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from kvref.answers import Answer, Died, Hung, Malformed, Raised
from kvref.naive_oracle import NaiveOracle
from kvref.operations import Evict, Insert, Match, Reset
from kvref.oracle import Oracle
from kvref.refusals import Refusal
from kvref.requests.executor import Done, RequestAnswer
from kvref.requests.operations import Begin, Commit, Extend, Preempt
from kvref.requests.oracle import RequestOracle

__all__ = ["AnyOracle", "Foreseen", "Listener", "answer_in_words", "both", "expected_in_words"]

AnyOracle = Oracle | NaiveOracle | RequestOracle


class Foreseen(NamedTuple):
    """What a step of a request has to come to: what of it is cached, and what it is given."""

    cached_len: int = 0
    more_slots: int = 0
    tokens: Sequence[int] | None = None


class Listener(Protocol):
    """What a judge tells; the oracle that comes with it may be looked at, and not be changed."""

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        """The operation is about to run. `expected` is the oracle's answer, or a Refusal."""

    def answers(self, index: int, answer: Answer | RequestAnswer) -> None:
        """What came back."""

    def ends(self, index: int, oracle: AnyOracle) -> None:
        """The operation was judged."""

    def skips(self, index: int, operation: Any, oracle: AnyOracle) -> None:
        """It is not issued: this target does not promise it, or it names what is not there."""


def both(one: Listener | None, other: Listener | None) -> Listener | None:
    """A listener that passes all on to two, or the one that is there, or None."""
    if one is None or other is None:
        return one or other
    return _Both(one, other)


class _Both:
    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def begins(self, index: int, operation: Any, expected: Any) -> None:
        for listener in self._listeners:
            listener.begins(index, operation, expected)

    def answers(self, index: int, answer: Answer | RequestAnswer) -> None:
        for listener in self._listeners:
            listener.answers(index, answer)

    def ends(self, index: int, oracle: AnyOracle) -> None:
        for listener in self._listeners:
            listener.ends(index, oracle)

    def skips(self, index: int, operation: Any, oracle: AnyOracle) -> None:
        for listener in self._listeners:
            listener.skips(index, operation, oracle)


def expected_in_words(operation: object, expected: Any) -> str:
    """What had to come back."""
    if isinstance(expected, Refusal):
        return str(expected)
    if isinstance(expected, Foreseen):
        return _step(operation, expected)
    if isinstance(operation, Match):
        handle, slots = expected
        return _match(handle.cached_len, slots)
    if isinstance(operation, Insert):
        return f"{expected} cached before"
    if isinstance(operation, Evict | Reset):
        # A number where the target's choice is its own.
        return f"at least {expected} slots" if isinstance(expected, int) else f"slots {expected}"
    return "done"


def answer_in_words(operation: object, answer: Answer | RequestAnswer) -> str:
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
        case Done():
            cached = answer.cached_len or 0
            more = len(answer.slots) - (cached if isinstance(operation, Begin) else 0)
            tokens = answer.value if isinstance(answer.value, list) else None
            return _step(operation, Foreseen(cached, more, tokens))
    value: Any = answer.value
    if isinstance(operation, Match):
        return _match(answer.cached_len, value)
    if isinstance(operation, Insert):
        return f"{value} cached before"
    return f"slots {value}" if isinstance(operation, Evict | Reset) else "done"


def _match(cached_len: int | None, slots: Any) -> str:
    return f"{cached_len} cached, slots {slots}"


def _step(operation: object, step: Foreseen) -> str:
    if isinstance(operation, Begin):
        return f"{step.cached_len} matched, {step.more_slots} more slots"
    if isinstance(operation, Extend):
        return f"{step.more_slots} more slots"
    if isinstance(operation, Commit):
        return f"{step.cached_len} cached"
    if isinstance(operation, Preempt) and step.tokens is not None:
        return f"tokens {list(step.tokens)}"
    return "done"
