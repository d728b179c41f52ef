"""Targets in a process of their own: what kills them is a finding, and the next run goes on."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import msgspec
import pytest

from kvref.answers import Answer, Died, Hung, Malformed, Raised, Returned
from kvref.configuration import Configuration
from kvref.divergence import DivergenceKind
from kvref.isolated import (
    IsolatedExecutor,
    TargetProcess,
    _Call,
    _Fingerprint,
    _Integrity,
    _New,
    _Nodes,
    _Same,
    _serve,
)
from kvref.judge import Judge
from kvref.operations import Evict, Insert, Lock, Match, Reset, Unlock
from kvref.oracle import NodeView
from kvref.target import CannotBuild

BOTH = tuple[Answer, tuple[int, int]]
WRONG = "tests.kvref.wrong_targets:"
RUN = (
    Insert((0, 1), (0, 1)), Match((0, 1)), Lock(1), Match((0, 1)), Unlock(3), Match((0,)),
    Evict(5), Evict(1), Lock(1), Reset(),
)  # fmt: skip


def judged(process: TargetProcess, *operations) -> Judge:
    configuration = Configuration()
    executor = IsolatedExecutor(process, configuration)
    judge = Judge(executor, configuration)
    for operation in operations:
        if judge.apply(operation) is not None:
            break
    executor.close()
    return judge


@pytest.fixture
def process(request):
    hangs = request.param in ("BusyLoop", "Deadlock", "Swallows", "HangsUp")
    process = TargetProcess(WRONG + request.param, 0.4 if hangs else 10.0)
    yield process
    process.close()


@pytest.mark.parametrize("process", ["right"], indirect=True)
def test_a_right_target_is_judged_by_all_laws_and_one_process_serves_many_runs(process):
    for _ in range(2):
        judge = judged(process, *RUN)
        assert judge.divergence is None
        for law in ("structure", "integrity", "handles", "refused-unchanged"):
            assert judge.judged[law] > 0
    child = process._process
    assert judged(process, *RUN).divergence is None
    assert process._process is child


@pytest.mark.parametrize(
    ("process", "kind", "got"),
    [
        ("BusyLoop", DivergenceKind.HANG, "nothing within 0.4 s"),
        ("Deadlock", DivergenceKind.HANG, "nothing within 0.4 s"),
        ("Swallows", DivergenceKind.HANG, "nothing within 0.4 s"),
        ("Exits", DivergenceKind.CRASH, "the process ended: exit status 7"),
        ("Segfaults", DivergenceKind.CRASH, "the process ended: SIGSEGV"),
        (
            "HangsUp",
            DivergenceKind.CRASH,
            "the process ended: killed, since it had closed its pipe and ran on",
        ),
        ("SysExits", DivergenceKind.CRASH, "the process ended: sys.exit(0)"),
        ("SlotsAsTuple", DivergenceKind.MALFORMED, "a tuple: (0, 1)"),
    ],
    indirect=["process"],
)
def test_what_ends_a_run_is_named_and_the_next_run_goes_on(process, kind, got):
    for _ in range(2):
        assert judged(process, Insert((0, 1), (0, 1)), Reset()).divergence is None
        found = judged(process, Insert((0, 1), (0, 1)), Evict(1)).divergence
        assert (found.kind, found.index, found.got) == (kind, 1, got)


@pytest.mark.parametrize("process", ["NodesOfText", "NodesOfObjects"], indirect=True)
def test_nodes_that_are_none_are_malformed_and_break_nothing(process):
    found = judged(process, Insert((0,), (0,))).divergence
    assert (found.kind, found.law) == (DivergenceKind.MALFORMED, "structure")
    assert judged(process, Reset()).divergence is None


@pytest.mark.parametrize("process", ["Exits"], indirect=True)
def test_once_lost_every_answer_is_the_loss(process):
    executor = IsolatedExecutor(process, Configuration())
    lost = executor.call(0, Evict(0))
    assert lost == (Died("exit status 7"),) * 2
    assert executor.call(1, Reset()) == lost
    lost = lost[0]
    for again in (executor.nodes, executor.integrity, executor.fingerprint):
        assert again() == lost
    assert executor.same_handle(0, 1) == lost
    assert process._process is None  # and no child was started for nothing


@pytest.mark.parametrize("process", ["cannot_be_built"], indirect=True)
def test_a_target_that_cannot_be_built_is_no_finding(process):
    with pytest.raises(CannotBuild, match="ValueError: no such pool"):
        IsolatedExecutor(process, Configuration())


def test_a_target_that_cannot_be_found_by_the_child_is_lost_at_once():
    process = TargetProcess("no_such_module:factory")
    executor = IsolatedExecutor(process, Configuration())
    assert executor.call(0, Reset())[0] == Died("exit status 1")


@pytest.mark.parametrize("process", ["Prints"], indirect=True)
def test_what_a_target_prints_does_not_mix_with_the_report(process, capfd):
    assert judged(process, Insert((0,), (0,)), Evict(1)).divergence is None
    process.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "chatter"


def test_a_signal_without_a_name_has_its_number():
    class Ended:
        exitcode = -99

        def join(self) -> None: ...

        def close(self) -> None: ...

    process = TargetProcess("unused")
    process._process = process._connection = Ended()  # type: ignore[assignment]
    assert process._end() == "signal 99"


@pytest.fixture
def child(request):
    """`_serve` in a process that this test ends the way a parent's death does."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    served = context.Process(target=_serve, args=(theirs, WRONG + request.param), daemon=True)
    served.start()
    theirs.close()

    def ask(request: Any, kind: Any) -> Any:
        ours.send_bytes(msgspec.json.encode(request))
        assert ours.poll(30)
        return msgspec.json.decode(ours.recv_bytes(), type=kind)

    yield ask
    ours.close()
    served.join(30)
    assert served.exitcode == 0


@pytest.mark.parametrize("child", ["right"], indirect=True)
def test_the_child_answers_every_request_and_ends_when_the_parent_is_gone(child):
    assert child(_New(Configuration()), None) is None
    first = child(_Fingerprint(), str)
    assert child(_Fingerprint(), str) == first
    assert child(_Call(0, Insert((1,), (5,), "a")), BOTH) == (Returned(0), (1, 0))
    assert child(_Fingerprint(), str) != first
    assert child(_Call(1, Match((1,), "a")), BOTH) == (Returned([5], 1), (1, 0))
    assert child(_Call(2, Match((), "a")), BOTH) == (Returned([], 0), (1, 0))
    assert child(_Same(1, 1), bool) is True
    assert child(_Same(1, 2), bool) is False
    assert child(_Nodes(), list[NodeView]) == [NodeView("a", (1,), (5,), 0)]
    assert child(_Integrity(), Answer) == Returned(None)
    refused, sizes = child(_Call(3, Evict(9)), BOTH)
    assert (type(refused), sizes) == (Raised, (1, 0))
    assert child(_New(Configuration(page_size=2)), None) is None
    assert child(_Call(0, Reset()), BOTH) == (Returned([]), (0, 0))


@pytest.mark.parametrize("child", ["cannot_be_built"], indirect=True)
def test_the_child_says_why_a_target_cannot_be_built(child):
    refused = child(_New(Configuration()), Answer)
    assert isinstance(refused, Raised)
    assert str(refused) == "ValueError: no such pool"


@pytest.mark.parametrize("child", ["NodesOfObjects"], indirect=True)
def test_the_child_says_what_json_cannot(child):
    child(_New(Configuration()), None)
    child(_Call(0, Insert((1,), (5,))), BOTH)
    malformed = child(_Nodes(), Answer)
    assert isinstance(malformed, Malformed)
    assert "object" in malformed.what


def test_a_limit_is_kept_whatever_the_child_does_with_signals():
    process = TargetProcess(WRONG + "BusyLoop", 0.2)
    IsolatedExecutor(process, Configuration())
    began = time.monotonic()
    assert process.ask(_Call(0, Evict(0)), Returned) == Hung(0.2)
    assert time.monotonic() - began < 5
    process.close()
    process.close()  # again: nothing


def test_an_answer_that_is_not_one_is_malformed():
    process = TargetProcess(WRONG + "right", 5.0)
    IsolatedExecutor(process, Configuration())
    assert isinstance(process.ask(_Integrity(), str), Malformed)
    process.close()
