"""Calls into a target, whatever it does then: each comes back as a value or as an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kvref.answers import Answer, Died, Hung, Malformed, from_exception
from kvref.time_limit import TimeLimit, TimeLimitExceeded

__all__ = ["Guard", "NotAsDeclared"]

_R = TypeVar("_R")


class NotAsDeclared(Exception):
    """Raised by what calls a target: what came back is not of the declared type; what it is."""


class Guard:
    """Calls functions under a time limit, where one can be had. Close it to end the timer."""

    def __init__(self, seconds: float | None) -> None:
        self._limit = TimeLimit(seconds or 0.0)
        if seconds is not None:
            self._limit.open()

    def __call__(self, function: Callable[..., _R], *args: Any) -> _R | Answer:
        """`function(*args)`, or what came instead of a result."""
        limit = self._limit
        outer = limit.begin()
        try:
            try:
                return function(*args)
            finally:
                limit.end(outer)
        except TimeLimitExceeded:
            limit.end(outer)  # the tick may have come before the `finally` got that far
            return Hung(limit.seconds)
        except SystemExit as end:  # or a target could end the campaign, and with status 0
            return Died(f"sys.exit({end.code!r})")
        except KeyboardInterrupt:
            raise
        except NotAsDeclared as wrong:
            return Malformed(str(wrong))
        except BaseException as error:  # a panic of a Rust extension is no Exception
            return from_exception(error)

    def close(self) -> None:
        """End the time limit's timer."""
        self._limit.close()
