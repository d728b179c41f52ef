"""What comes back from a target of requests is checked before it is compared."""

from __future__ import annotations

from typing import Any

import pytest

from kvref.answers import Died, Hung, Malformed, Raised, Returned
from kvref.isolated import TargetProcess
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import Done, LocalRequestExecutor, Pool
from kvref.requests.isolated import IsolatedRequestExecutor
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    Store,
)
from kvref.target import CannotBuild
from tests.kvref.requests.wrong_lives import Life, MovesRows

HERE = "tests.kvref.requests.wrong_lives:"
PAIRS = RequestConfiguration(page_size=2, num_pages=4)


@pytest.fixture
def start():
    opened = []

    def make(target: Any, seconds: float | None = None) -> LocalRequestExecutor:
        opened.append(LocalRequestExecutor(target, seconds))
        return opened[-1]

    yield make
    for executor in opened:
        executor.close()


STEPS = (
    (Begin((1, 2, 3), max_tokens=2), (), Done(Pool(0, 0, 3), None, 0, 2, [0, 1], [])),
    (Extend(0, 1), (), Done(Pool(0, 0, 2), None, 0, 3, [2])),
    (Store(0), (5, 6, 7), Done(Pool(0, 0, 2), None, 0, 3)),
    (Append(0, (9,)), (), Done(Pool(0, 0, 2), None, 0, 3)),
    (Commit(0), (), Done(Pool(0, 2, 2), 2, 2, 3, [0, 1, 2])),
    (Begin((1, 2, 4)), (), Done(Pool(0, 2, 1), None, 2, 3, [0, 1, 4], [5, 6])),
    (Preempt(5), (), Done(Pool(0, 2, 2), [1, 2, 4])),
    (Finish(0), (), Done(Pool(2, 0, 3))),
    (Flush(), (), Done(Pool(0, 0, 4))),
)


@pytest.mark.parametrize("isolated", [False, True])
def test_one_call_answers_all_that_is_judged(start, isolated):
    process = TargetProcess(HERE + "moves_rows", 30.0)
    executor: Any = IsolatedRequestExecutor(process, PAIRS) if isolated else start(MovesRows(PAIRS))
    for index, (operation, tags, answer) in enumerate(STEPS):
        assert executor.call(index, operation, tags) == answer, operation
        if index == 4:
            assert executor.row(0, 1, 3) == [1, 2]
            assert executor.read([0, 3]) == [5, "nothing was stored there"]
            assert executor.check() == Returned(None)
            assert [node.lock_count for node in executor.nodes()] == [1]
            before = executor.fingerprint()
            assert executor.fingerprint() == before
    assert executor.fingerprint() != before
    assert executor.pool() == Pool(0, 0, 4)
    late = executor.call(9, Abort(0))
    assert isinstance(late, Raised)
    assert late.error == "RequestEnded"
    executor.forget(0)
    executor.close()
    process.close()


def test_victims_are_passed_on_where_a_target_tells_them(start):
    class Tells(Life):
        def victims(self) -> Any:
            return self.evicted

    executor = start(Tells(PAIRS))
    assert executor.call(0, Begin((1,))).victims == []
    assert executor.call(1, Extend(0, 2)).victims == []


class _Loose:
    """A request whose lengths are no ints."""

    cached_len = 0
    extended_len = "2"


@pytest.mark.parametrize(
    ("method", "result", "operation", "what"),
    [
        ("begin", _Loose(), Begin((1,)), "a request with cached_len a int: 0 and extended_len"),
        ("commit", True, Commit(0), "a bool: True"),
        ("preempt", (1,), Preempt(0), "a tuple: (1,)"),
        ("preempt", [1.0], Preempt(0), "a list: [1.0]"),
        ("row", (1,), Extend(0, 1), "a tuple: (1,)"),
        ("row", [None], Extend(0, 1), "a list: [None]"),
        ("sizes", (1, 2.0), Store(0), "sizes a tuple: (1, 2.0), free pages a int: 3"),
        ("sizes", (1,), Store(0), "sizes a tuple: (1,)"),
        ("num_free_pages", True, Store(0), "sizes a tuple: (0, 0), free pages a bool: True"),
    ],
)
def test_what_is_of_another_type_is_malformed(start, method, result, operation, what):
    target = Life(PAIRS)
    executor = start(target)
    if not isinstance(operation, Begin):
        executor.call(0, Begin((1,)))
    setattr(target, method, lambda *_, **__: result)
    answer = executor.call(1, operation, (3,) if isinstance(operation, Store) else ())
    assert isinstance(answer, Malformed)
    assert what in str(answer)


def test_a_hang_is_an_answer(start):
    class Slow(Life):
        def check(self) -> None:
            while True:
                pass

    assert start(Slow(), 0.1).check() == Hung(0.1)


@pytest.mark.parametrize(("target", "how"), [("exits", Died), ("hangs", Hung)])
def test_isolated_an_end_and_a_hang_are_answers(target, how):
    process = TargetProcess(HERE + target, 30.0)
    executor = IsolatedRequestExecutor(process, PAIRS)
    executor.call(0, Begin((1, 2)))
    executor.call(1, Store(0), (0, 1))
    process.seconds = 30.0 if how is Died else 0.3
    answer = executor.call(2, Commit(0))
    assert isinstance(answer, how)
    assert executor.pool() == answer
    process.close()


def test_isolated_a_bare_manager_is_put_under_the_reference_life():
    process = TargetProcess("tests.kvref.wrong_targets:right", 30.0)
    executor = IsolatedRequestExecutor(process, PAIRS)
    assert executor.call(0, Begin((1,))).slots == [0]  # type: ignore[union-attr]
    process.close()


def test_isolated_what_cannot_be_built_says_so():
    process = TargetProcess("tests.kvref.wrong_targets:cannot_be_built", 30.0)
    with pytest.raises(CannotBuild, match="no such pool"):
        IsolatedRequestExecutor(process, PAIRS)
    process.close()
