"""The limit for calls that never return, and that it leaves the process as it found it."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from kvref.time_limit import TimeLimit, TimeLimitExceeded, in_progress


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    yield
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert (TimeLimit._open, in_progress.deadline) == (0, None)


@pytest.fixture
def limit():
    limit = TimeLimit(0.1)
    limit.open()
    yield limit
    limit.close()


def call(limit, function, *args):
    outer = limit.begin()
    try:
        return function(*args)
    finally:
        limit.end(outer)


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
def test_a_call_that_hangs_is_interrupted(limit, hanging):
    began = time.monotonic()
    with pytest.raises(TimeLimitExceeded):
        call(limit, hanging)
    assert 0.1 <= time.monotonic() - began < 5
    assert call(limit, int, "7") == 7  # and the next call has its whole time


def test_a_call_that_returns_or_raises_does_so(limit):
    assert call(limit, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        call(limit, divmod, 7, 0)


def test_between_calls_nothing_is_interrupted(limit):
    call(limit, int)
    time.sleep(0.25)


def test_a_call_within_a_call_gives_the_outer_one_its_deadline_back(limit):
    def nested() -> None:
        call(limit, int)
        busy()

    with pytest.raises(TimeLimitExceeded):
        call(limit, nested)


def test_two_limits_at_once_and_the_first_closed_first():
    first, second = TimeLimit(0.1), TimeLimit(0.1)
    first.open()
    second.open()
    first.close()
    first.close()  # again: nothing
    assert not first.available
    with pytest.raises(TimeLimitExceeded):
        call(second, busy)
    second.close()


def test_without_opening_there_is_no_limit():
    limit = TimeLimit(0.01)
    assert not limit.available
    call(limit, time.sleep, 0.03)
    limit.close()


def test_a_handler_that_somebody_took_is_respected():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        limit = TimeLimit(0.01)
        limit.open()
        assert not limit.available
        call(limit, time.sleep, 0.03)
        limit.close()
        signal.raise_signal(signal.SIGALRM)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_in_another_thread_there_is_no_limit():
    available = []

    def run() -> None:
        limit = TimeLimit(0.01)
        limit.open()
        available.append(limit.available)
        call(limit, time.sleep, 0.03)
        limit.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert available == [False]


def test_where_there_are_no_interval_timers_there_is_no_limit(monkeypatch):
    with monkeypatch.context() as patched:
        patched.delattr(signal, "setitimer")
        limit = TimeLimit(0.01)
        limit.open()
        assert not limit.available
        limit.close()
