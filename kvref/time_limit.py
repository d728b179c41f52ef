"""A time limit for a call into a target that may never return."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

__all__ = ["TimeLimit", "TimeLimitExceeded"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class TimeLimitExceeded(BaseException):
    """Raised inside the call. No Exception, so that a target does not swallow it."""


class TimeLimit:
    """Interrupts calls that take longer than `seconds` of wall time.

    It works through a signal, so only in the main thread, only where there are interval timers,
    and only while the target runs Python; `available` says whether. Elsewhere calls run without
    a limit: judge the target in a process of its own instead.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.available = (
            hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        )

    def call(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function; TimeLimitExceeded if it took too long."""
        if not self.available:
            return function(*args, **kwargs)
        previous = signal.signal(signal.SIGALRM, _interrupt)
        # Repeated, since a target's own `except:` or a finalizer may eat the first one.
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 0.1)
        try:
            return function(*args, **kwargs)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise TimeLimitExceeded
