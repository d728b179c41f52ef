"""What is asked of requests in another process, and how it is answered there."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.operations import RequestOperation

__all__ = ["Forget", "Look", "NewRequests", "Read", "RequestWire", "Row", "Step", "answer"]


class NewRequests(msgspec.Struct, frozen=True, tag=True):
    """A new target, without requests."""

    configuration: RequestConfiguration


class Step(msgspec.Struct, frozen=True, tag=True):
    """`RequestExecutor.call`."""

    index: int
    operation: RequestOperation
    tags: list[int]


class Look(msgspec.Struct, frozen=True, tag=True):
    """The method of this name, which takes nothing."""

    what: Literal["pool", "check", "nodes", "fingerprint"]


class Row(msgspec.Struct, frozen=True, tag=True):
    """`RequestExecutor.row`."""

    request: int
    start: int
    stop: int


class Read(msgspec.Struct, frozen=True, tag=True):
    """`RequestExecutor.read`."""

    slots: list[int]


class Forget(msgspec.Struct, frozen=True, tag=True):
    """`RequestExecutor.forget`."""

    request: int


RequestWire = NewRequests | Step | Look | Row | Read | Forget


def answer(executor: LocalRequestExecutor, asked: Any) -> Any:
    """What the executor says."""
    match asked:
        case Step(index, operation, tags):
            return executor.call(index, operation, tags)
        case Look("fingerprint"):
            value = executor.fingerprint()
            return None if value is None else hashlib.sha256(repr(value).encode()).hexdigest()
        case Look(what):
            return getattr(executor, what)()
        case Row(request, start, stop):
            return executor.row(request, start, stop)
        case Read(slots):
            return executor.read(slots)
        case Forget(request):
            return executor.forget(request)
        case _:
            raise AssertionError("unreachable")
