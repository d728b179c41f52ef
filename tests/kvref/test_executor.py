"""Whatever happens in a target becomes an answer, and never an exception of the judge's."""

from __future__ import annotations

import signal
from typing import Any

import msgspec
import pytest

from kvref.answers import Died, Hung, Malformed, Raised, Returned
from kvref.executor import LocalExecutor
from kvref.operations import FOREIGN, NOT_A_HANDLE, Evict, Insert, Lock, Match, Reset, Unlock
from kvref.oracle import NodeView
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.wrong_targets import BusyLoop, Deadlock, Swallows, SysExits


@pytest.fixture
def start():
    opened = []

    def make(target: Any, seconds: float | None = None) -> LocalExecutor:
        opened.append(LocalExecutor(target, seconds))
        return opened[-1]

    yield make
    for executor in opened:
        executor.close()


def test_each_operation_becomes_the_call_of_that_name(start):
    calls: list[Any] = []

    class Recorder(OracleTarget):
        def match_prefix(self, *args: Any, **kwargs: Any) -> Any:
            calls.append(("match", args, kwargs))
            return super().match_prefix(*args, **kwargs)

        def insert_prefix(self, *args: Any, **kwargs: Any) -> Any:
            calls.append(("insert", args, kwargs))
            return super().insert_prefix(*args, **kwargs)

    executor = start(Recorder())
    inserted = executor.call(0, Insert((1, 2), (0, 1), "a", "int32"))
    assert inserted == (Returned(0), (2, 0))
    matched = executor.call(1, Match((1, 2), "a", "int64-strided"))
    assert matched == (Returned([0, 1], 2), (2, 0))
    assert calls == [
        ("insert", ((1, 2), (0, 1)), {"namespace": "a", "carried": "int32"}),
        ("match", ((1, 2),), {"namespace": "a", "carried": "int64-strided"}),
    ]
    assert executor.call(2, Lock(1)) == (Returned(None), (0, 2))
    assert executor.call(3, Unlock(1)) == (Returned(None), (2, 0))
    assert executor.nodes() == [NodeView("a", (1, 2), (0, 1), 0)]
    assert executor.integrity() == Returned(None)
    assert executor.call(4, Evict(1)) == (Returned([0, 1]), (0, 0))
    assert executor.call(5, Reset()) == (Returned([]), (0, 0))


def test_a_handle_is_named_by_the_match_that_made_it(start):
    executor = start(OracleTarget())
    for index, token in enumerate((1, 2)):
        executor.call(index, Insert((token,), (token,)))
        executor.call(index + 2, Match((token,)))
    executor.call(4, Match((1,)))
    assert executor.same_handle(2, 4) is True
    assert executor.same_handle(2, 3) is False


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Lock(FOREIGN), "ForeignHandle"),
        (Unlock(FOREIGN), "ForeignHandle"),
        (Lock(NOT_A_HANDLE), "TypeError"),
        (Evict(1), "NotEvictable"),
        (Evict(-1), "ValueError"),
    ],
)
def test_an_exception_is_an_answer(start, operation, error):
    answer, sizes = start(OracleTarget()).call(0, operation)
    assert isinstance(answer, Raised)
    assert answer.error == error
    assert sizes == (0, 0)


@pytest.mark.parametrize("hanging", [BusyLoop, Deadlock, Swallows])
def test_a_hang_is_an_answer(start, hanging):
    executor = start(hanging(), 0.1)
    assert executor.call(0, Evict(0)) == (Hung(0.1), Hung(0.1))
    assert executor.call(1, Reset()) == (Returned([]), (0, 0))


def hang(*_: Any) -> Any:
    while True:
        pass


def test_a_hang_in_the_sizes_leaves_the_answer_as_it_was(start):
    executor = start(type("Hangs", (OracleTarget,), {"sizes": hang})(), 0.1)
    assert executor.call(0, Reset()) == (Returned([]), Hung(0.1))
    answer, sizes = executor.call(1, Evict(1))
    assert (type(answer), sizes) == (Raised, Hung(0.1))


def test_a_refusal_whose_text_hangs_is_a_hang(start):
    class Refuses(OracleTarget):
        def evict(self, size: Any) -> Any:
            raise type("Endless", (ValueError,), {"__str__": hang})

    assert start(Refuses(), 0.1).call(0, Evict(1)) == (Hung(0.1), Hung(0.1))


@pytest.mark.parametrize("method", ["check_integrity", "nodes", "fingerprint"])
def test_a_hang_in_what_only_looks_is_an_answer_too(start, method):
    executor = start(type("Hangs", (OracleTarget,), {method: hang})(), 0.1)
    look = {"check_integrity": "integrity"}.get(method, method)
    assert getattr(executor, look)() == Hung(0.1)


def test_a_hang_in_comparing_handles_is_an_answer_too(start):
    class Slow:
        cached_len = 0

        def __eq__(self, other: object) -> bool:
            while True:
                pass

        def __hash__(self) -> int:
            return 0

    class Target(OracleTarget):
        def match_prefix(self, *_: Any, **__: Any) -> Any:
            return Slow(), []

    executor = start(Target(), 0.1)
    executor.call(0, Match(()))
    executor.call(1, Match(()))
    assert executor.same_handle(0, 1) == Hung(0.1)


def test_a_target_that_exits_does_not_end_the_campaign(start):
    died = Died("sys.exit(0)")
    assert start(SysExits()).call(0, Evict(0)) == (died, died)


def test_ctrl_c_goes_through(start):
    class Interrupted(OracleTarget):
        def evict(self, size: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(Interrupted()).call(0, Evict(0))


def test_sizes_of_any_sequence_type_are_compared_as_a_tuple(start):
    class Sizes(OracleTarget):
        def sizes(self) -> Any:
            return [1, 2]

    assert start(Sizes()).call(0, Reset())[1] == (1, 2)
    empty = type("Empty", (OracleTarget,), {"sizes": lambda _: ""})
    assert start(empty()).call(0, Reset())[1] == Malformed("a str: ''")


def test_a_target_that_cannot_be_looked_into_shows_nothing(start):
    executor = start(object())
    assert executor.nodes() is None
    assert executor.fingerprint() is None


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_the_timer_runs_only_while_there_is_a_limit(seconds):
    executor = LocalExecutor(OracleTarget(), seconds)
    assert executor.limited is (seconds is not None)
    assert (signal.getitimer(signal.ITIMER_REAL)[1] > 0) is (seconds is not None)
    executor.close()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


class Panic(BaseException):
    """As an extension in Rust raises it."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Panic("index out of bounds"), "index out of bounds"),
        (Unspeakable(), "<no text: RuntimeError>"),
        (ValueError("half a pair: \ud800"), "half a pair: \\ud800"),
    ],
    ids=["panic", "no-text", "surrogate"],
)
def test_whatever_is_raised_becomes_an_answer_that_json_can_hold(start, error, message):
    class Raises(OracleTarget):
        def evict(self, size: Any) -> Any:
            raise error

    answer, sizes = start(Raises()).call(0, Evict(0))
    assert sizes == (0, 0)
    assert isinstance(answer, Raised)
    assert answer.message == message
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Raised) == answer


@pytest.mark.parametrize(
    "node",
    [
        NodeView(None, [1], (0,), 0),  # type: ignore[arg-type]
        NodeView(None, (1,), [0], 0),  # type: ignore[arg-type]
        NodeView(None, (1,), (0.5,), 0),  # type: ignore[arg-type]
        NodeView(3, (1,), (0,), 0),  # type: ignore[arg-type]
        NodeView(None, (1,), (0,), None),  # type: ignore[arg-type]
        "a node",
    ],
)
def test_nodes_that_are_no_nodes_are_malformed(start, node):
    class Shows(OracleTarget):
        def nodes(self) -> Any:
            return [node]

    assert isinstance(start(Shows()).nodes(), Malformed)
