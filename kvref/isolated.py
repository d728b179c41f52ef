"""Runs a target in a process of its own, so that a hang or a crash is a finding like any other.

Parent and child speak JSON over a pipe. The child is killed when it does not answer in time,
and started anew for the next run; one child serves many runs, since importing a target may take
seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import monotonic, sleep
from typing import Any, TypeVar

import msgspec

from kvref.answers import Answer, Died, Hung, Malformed, from_exception
from kvref.configuration import Configuration
from kvref.executor import LocalExecutor, Sizes
from kvref.operations import Operation
from kvref.oracle import NodeView
from kvref.registry import find, find_requests, load
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.wire import NewRequests, RequestWire
from kvref.requests.wire import answer as answer_requests
from kvref.target import CannotBuild

__all__ = ["Isolated", "IsolatedExecutor", "TargetProcess"]

_T = TypeVar("_T")
_START_SECONDS = 120.0  # importing torch on a busy machine


class _New(msgspec.Struct, frozen=True, tag=True):
    configuration: Configuration


class _Call(msgspec.Struct, frozen=True, tag=True):
    index: int
    operation: Operation


class _Integrity(msgspec.Struct, frozen=True, tag=True):
    pass


class _Nodes(msgspec.Struct, frozen=True, tag=True):
    pass


class _Fingerprint(msgspec.Struct, frozen=True, tag=True):
    pass


class _Same(msgspec.Struct, frozen=True, tag=True):
    one: int
    other: int


_Request = _New | _Call | _Integrity | _Nodes | _Fingerprint | _Same | RequestWire


class TargetProcess:
    """The child, started when first asked and again after it was lost.

    Args:
        target: a name that `kvref.registry.find` knows.
        seconds: the time limit of one operation.
    """

    def __init__(self, target: str, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self._target = target
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def ask(
        self, request: Any, kind: type[_T], seconds: float | None = None
    ) -> _T | Malformed | Hung | Died:
        """Send a request and read the answer as `kind`; kills a child that does not answer."""
        limit = self.seconds if seconds is None else seconds
        connection = self._connection or self._start()
        try:
            connection.send_bytes(msgspec.json.encode(request))
            if connection.poll(limit):
                return msgspec.json.decode(connection.recv_bytes(), type=kind)
        except (EOFError, ConnectionError):
            return Died(self._end())
        except msgspec.ValidationError as error:
            return Malformed(str(error))
        self.close()
        return Hung(limit)

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._target), daemon=True)
        process.start()
        theirs.close()
        self._process, self._connection = process, ours
        return ours

    def _end(self) -> str:
        """Wait for the child's end, or bring it about, and say how it came."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        assert process is not None
        assert connection is not None
        # `exitcode` asks the system. A join with a timeout would wait for ever where the child
        # has closed all that it had open: that is how multiprocessing tells that it ended.
        deadline = monotonic() + self.seconds
        while process.exitcode is None and monotonic() < deadline:
            sleep(0.001)
        ran_on = process.exitcode is None
        if ran_on:
            process.kill()
        process.join()
        connection.close()
        code = process.exitcode or 0
        process.close()
        if ran_on:
            return "killed, since it had closed its pipe and ran on"
        if code >= 0:
            return f"exit status {code}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
        return f"signal {-code}"


class Isolated:
    """One run in a `TargetProcess`, which the caller owns and closes."""

    limited = True

    def __init__(self, process: TargetProcess, new: _New | NewRequests) -> None:
        self._process = process
        self._lost: Hung | Died | None = None
        started = process.ask(new, Answer | None, _START_SECONDS)  # type: ignore[arg-type]
        if started is not None:
            self._lost = started if isinstance(started, Hung | Died) else None
            if self._lost is None:
                raise CannotBuild(new.configuration, started)

    def close(self) -> None:
        """Nothing to give back: the process goes on to the next run."""

    def _ask(self, request: _Request, kind: Any) -> Any:  # as `kind` says
        if self._lost is not None:
            return self._lost
        answer = self._process.ask(request, kind)
        if isinstance(answer, Hung | Died):
            self._lost = answer
        return answer


class IsolatedExecutor(Isolated):
    """One run of a manager in a `TargetProcess`, which the caller owns and closes."""

    def __init__(self, process: TargetProcess, configuration: Configuration) -> None:
        super().__init__(process, _New(configuration))

    def call(self, index: int, operation: Operation) -> tuple[Answer, Sizes]:
        """Run the operation number `index`; its answer, and the sizes after it."""
        answers: tuple[Answer, Sizes] | Answer
        answers = self._ask(_Call(index, operation), tuple[Answer, Sizes])
        return answers if isinstance(answers, tuple) else (answers, answers)

    def integrity(self) -> Answer:
        """The target's own check."""
        answer: Answer = self._ask(_Integrity(), Answer)
        return answer

    def nodes(self) -> list[NodeView] | Answer | None:
        """The target's structure, or None where it shows none."""
        answer: list[NodeView] | Answer | None = self._ask(_Nodes(), list[NodeView] | Answer | None)
        return answer

    def fingerprint(self) -> Any:
        """A digest of the target's fingerprint; None where it has none."""
        return self._ask(_Fingerprint(), str | Answer | None)

    def same_handle(self, one: int, other: int) -> bool | Answer:
        """Whether the handles of two matches are equal (and then have equal hashes)."""
        answer: bool | Answer = self._ask(_Same(one, other), bool | Answer)
        return answer


def _serve(connection: Connection, target: str) -> None:
    """The child: answers requests until the parent is gone."""
    # Ctrl-C is the parent's business, which ends this process when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a target prints must not mix with the parent's report.
    os.dup2(2, 1)
    load(target)  # the parent waits long for the first answer, and for it alone
    executor: LocalExecutor | LocalRequestExecutor | None = None
    requests = msgspec.json.Decoder(_Request)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            request = requests.decode(connection.recv_bytes())
            answer: Any
            if isinstance(request, _New | NewRequests):
                try:
                    executor = _executor(target, request)
                    answer = None
                except CannotBuild as error:
                    answer = from_exception(error.__cause__ or error)
            else:
                assert executor is not None
                answer = _answer(executor, request)
            connection.send_bytes(_encode(answer))


def _executor(target: str, new: _New | NewRequests) -> LocalExecutor | LocalRequestExecutor:
    # No limit of its own: the parent's does not depend on signals.
    if isinstance(new, _New):
        return LocalExecutor(find(target)(new.configuration), seconds=None)
    return LocalRequestExecutor(find_requests(target)(new.configuration), seconds=None)


def _encode(answer: Any) -> bytes:
    try:
        return msgspec.json.encode(answer)
    except TypeError as error:  # only nodes hold what the executor has not looked at
        return msgspec.json.encode(Malformed(str(error)))


def _answer(executor: LocalExecutor | LocalRequestExecutor, request: _Request) -> Any:
    if isinstance(executor, LocalRequestExecutor):
        return answer_requests(executor, request)
    match request:
        case _Call(index, operation):
            return executor.call(index, operation)
        case _Integrity():
            return executor.integrity()
        case _Nodes():
            return executor.nodes()
        case _Fingerprint():
            value = executor.fingerprint()
            return None if value is None else hashlib.sha256(repr(value).encode()).hexdigest()
        case _Same(one, other):
            return executor.same_handle(one, other)
        case _:
            raise AssertionError("unreachable")
