"""A time limit for calls into a target that may never return."""

from __future__ import annotations

import atexit
import signal
import threading
from time import monotonic
from types import FrameType

__all__ = ["TimeLimit", "TimeLimitExceeded", "in_progress"]


class TimeLimitExceeded(BaseException):
    """Raised inside the call. No Exception, so that a target does not swallow it."""


class _InProgress:
    """The call in progress, of all limits together.

    Whoever calls a target sets the deadline before, and puts back what it was after: `Guard` and
    `LocalExecutor.call`, each in its own body, since a call to do so would cost as much as all
    else there. An object of its own: what is set on a class costs three times as much, since
    Python then forgets what it knew of the class.
    """

    __slots__ = ("deadline",)

    def __init__(self) -> None:
        self.deadline: float | None = None
        """In `monotonic` time, or None."""


in_progress = _InProgress()


class TimeLimit:
    """Interrupts calls that take longer than `seconds` of wall time.

    From `open` to `close` an interval timer ticks, and a tick that comes after the deadline of
    the call in progress raises in it: setting a timer for each call would cost more than a small
    call. Only the main thread gets signals, and only while it runs Python or waits for a lock;
    somebody else may have taken the signal (pytest-timeout). `available` says whether the limit
    is in force. Where it is not, judge the target in a process of its own.
    """

    _open = 0

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.available = False

    def open(self) -> None:
        """Start ticking."""
        if not hasattr(signal, "setitimer"):
            return
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, _tick):
            return
        if TimeLimit._open == 0:
            signal.signal(signal.SIGALRM, _tick)
            atexit.unregister(_stop)
            atexit.register(_stop)
        tick = min(0.25, self.seconds / 2)
        signal.setitimer(signal.ITIMER_REAL, tick, tick)
        TimeLimit._open += 1
        self.available = True

    def close(self) -> None:
        """Stop ticking, unless another limit is still open."""
        if self.available:
            self.available = False
            TimeLimit._open -= 1
            if TimeLimit._open == 0:
                _stop()


def _stop() -> None:
    """End the timer. At exit too: a tick after Python gave up its handlers kills the process."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    if signal.getsignal(signal.SIGALRM) is _tick:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _tick(number: int, frame: FrameType | None) -> None:
    deadline = in_progress.deadline
    if deadline is not None and monotonic() > deadline:
        raise TimeLimitExceeded
