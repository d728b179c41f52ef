"""The limit for calls that never return, and that it leaves the process as it found it."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from kvref.answers import Hung
from kvref.guard import Guard
from kvref.time_limit import TimeLimit, in_progress


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    yield
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert (TimeLimit._open, in_progress.deadline) == (0, None)


@pytest.fixture
def guard():
    guard = Guard(0.1)
    assert guard.limited
    yield guard
    guard.close()


def busy() -> None:
    while True:
        pass


def busy_and_deaf() -> None:
    while True:
        try:
            busy()
        except Exception:
            continue


def deadlocked() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@pytest.mark.parametrize("hanging", [busy, busy_and_deaf, deadlocked, lambda: time.sleep(60)])
def test_a_call_that_hangs_is_interrupted(guard, hanging):
    began = time.monotonic()
    assert guard(hanging) == Hung(0.1)
    assert 0.1 <= time.monotonic() - began < 5
    assert guard(int, "7") == 7  # and the next call has its whole time


def test_a_call_that_returns_or_raises_does_so(guard):
    assert guard(divmod, 7, 2) == (3, 1)
    assert guard(divmod, 7, 0).error == "ZeroDivisionError"


def test_between_calls_nothing_is_interrupted(guard):
    guard(int)
    time.sleep(0.25)


def test_a_call_within_a_call_gives_the_outer_one_its_deadline_back(guard):
    def nested() -> None:
        guard(int)
        busy()

    assert guard(nested) == Hung(0.1)


def test_a_call_that_hung_leaves_the_one_around_it_its_deadline(guard):
    def nested() -> None:
        assert guard(busy) == Hung(0.1)
        busy()

    assert guard(nested) == Hung(0.1)


def test_two_limits_at_once_and_the_first_closed_first():
    first, second = TimeLimit(0.1), Guard(0.1)
    first.open()
    assert TimeLimit._open == 2
    first.close()
    first.close()  # again: nothing
    assert not first.available
    assert second(busy) == Hung(0.1)
    second.close()


def test_without_opening_there_is_no_limit():
    limit = TimeLimit(0.01)
    assert not limit.available
    limit.close()
    guard = Guard(None)
    assert not guard.limited
    assert guard(time.sleep, 0.03) is None
    guard.close()


def test_a_handler_that_somebody_took_is_respected():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        guard = Guard(0.01)
        assert not guard.limited
        assert guard(time.sleep, 0.03) is None
        guard.close()
        signal.raise_signal(signal.SIGALRM)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_in_another_thread_there_is_no_limit():
    available = []

    def run() -> None:
        guard = Guard(0.01)
        available.append(guard.limited)
        available.append(guard(time.sleep, 0.03))
        guard.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert available == [False, None]


def test_where_there_are_no_interval_timers_there_is_no_limit(monkeypatch):
    with monkeypatch.context() as patched:
        patched.delattr(signal, "setitimer")
        limit = TimeLimit(0.01)
        limit.open()
        assert not limit.available
        limit.close()
