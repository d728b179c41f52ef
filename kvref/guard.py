"""Calls into a target, whatever it does then: each comes back as a value or as an answer."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from kvref.answers import Answer, Died, Hung, Malformed, Raised, from_exception
from kvref.time_limit import TimeLimit, TimeLimitExceeded, in_progress

__all__ = ["Guard", "NotAsDeclared"]

_R = TypeVar("_R")


class NotAsDeclared(Exception):
    """Raised by what calls a target: what came back is not of the declared type; what it is."""


class Guard:
    """Calls functions under a time limit, where one can be had. Close it to end the timer.

    Attributes:
        seconds: the limit; 0 where there is none.
        limited: whether a call that does not return in time becomes an answer.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds or 0.0
        self._limit = TimeLimit(self.seconds)
        if seconds is not None:
            self._limit.open()
        self.limited = self._limit.available

    def __call__(self, function: Callable[..., _R], *args: Any) -> _R | Answer:
        """`function(*args)`, or what came instead of a result."""
        # The deadline inline: see `in_progress`.
        outer = in_progress.deadline
        in_progress.deadline = monotonic() + self.seconds if self.limited else None
        try:
            try:
                return function(*args)
            finally:
                in_progress.deadline = outer
        except BaseException as error:
            in_progress.deadline = outer  # the tick may have come before the `finally` got that far
            return self.failure(error)

    def failure(self, error: BaseException) -> Hung | Died | Raised | Malformed:
        """What a call that raised comes to."""
        if isinstance(error, NotAsDeclared):
            return Malformed(str(error))
        if isinstance(error, TimeLimitExceeded):
            return Hung(self.seconds)
        if isinstance(error, SystemExit):  # or a target could end the campaign, with status 0
            return Died(f"sys.exit({error.code!r})")
        if isinstance(error, KeyboardInterrupt):
            raise error
        return from_exception(error)  # a panic of a Rust extension is no Exception

    def close(self) -> None:
        """End the time limit's timer."""
        self._limit.close()
