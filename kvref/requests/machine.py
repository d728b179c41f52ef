"""The operations on whole requests, for traces and shrinking."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from kvref.divergence import Divergence
from kvref.isolated import TargetProcess
from kvref.listener import Listener
from kvref.machine import Bench, Program
from kvref.registry import find_requests
from kvref.requests import simplify
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import LocalRequestExecutor, RequestExecutor
from kvref.requests.isolated import IsolatedRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.operations import Append, Begin, Extend, Flush, RequestOperation
from kvref.requests.program import program
from kvref.requests.promises import RequestPromises
from kvref.requests.target import RequestTargetFactory

__all__ = ["REQUESTS", "RequestBench", "RequestsMachine"]

_MOST_ELEMENTS = 2**28  # a file that somebody sent must not make a pool of gigabytes
_MOST_ENTRIES = 2**28
_MOST_PAGES = 2**23  # the ledger has a place for each
_DECODER: msgspec.json.Decoder[RequestOperation] = msgspec.json.Decoder(RequestOperation)


class RequestsMachine:
    """See `kvref.machine.Machine`."""

    name = "requests"
    passes: Sequence[Callable[[Program, Any], Iterator[Program]]] = simplify.PASSES

    def encode(self, operation: RequestOperation) -> bytes:
        """The operation as JSON."""
        return msgspec.json.encode(operation)

    def decode(self, data: bytes) -> RequestOperation:
        """The operation that `encode` wrote."""
        operation = _DECODER.decode(data)
        _check(operation)
        return operation

    def decode_configuration(self, data: bytes) -> RequestConfiguration:
        """A configuration."""
        configuration = msgspec.json.decode(data, type=RequestConfiguration)
        sizes = (configuration.layers, configuration.kv_heads, configuration.head_dim)
        elements = configuration.num_slots
        for size in sizes:
            elements *= size
        if configuration.num_pages > _MOST_PAGES:
            raise ValueError(f"{configuration.num_pages} pages: at most {_MOST_PAGES}")
        if elements > _MOST_ELEMENTS:
            raise ValueError(f"a pool of {elements} elements: at most {_MOST_ELEMENTS}")
        if configuration.max_requests * configuration.longest > _MOST_ENTRIES:
            raise ValueError(
                f"{configuration.max_requests} requests of up to {configuration.longest} tokens"
            )
        return configuration

    def decode_promises(self, data: bytes) -> RequestPromises:
        """Promises."""
        return msgspec.json.decode(data, type=RequestPromises)

    def reference(self, operation: RequestOperation) -> int | None:
        """The index of the begin of the request that this names."""
        return None if isinstance(operation, Begin | Flush) else operation.request

    def renumbered(self, operation: RequestOperation, reference: int) -> RequestOperation:
        """The same, naming another request."""
        changed: RequestOperation = msgspec.structs.replace(operation, request=reference)
        return changed

    def repaired(self, program: Program, promises: RequestPromises) -> Program:
        """The program itself: the pages of a request are the target's choice."""
        return program

    def untangled(self, program: Program, promises: RequestPromises) -> Program:
        """The program itself: a request has one name."""
        return program

    def partners(self, program: Program) -> dict[int, int]:
        """None: without its begin a request is not there."""
        return {}

    def size(self, program: Program) -> tuple[int, ...]:
        """See `kvref.requests.simplify`."""
        return simplify.size(program)

    def canonical(self, program: Program) -> Program:
        """See `kvref.requests.simplify`."""
        return simplify.canonical(program)

    def python(self, program_: Program, refused: Sequence[int], skipped: Sequence[int]) -> str:
        """The program as Python."""
        return program(program_.configuration, program_.operations, refused, skipped)

    @contextmanager
    def bench(
        self, target: str, *, seconds: float, isolate: bool, look_every: int
    ) -> Iterator[Bench]:
        """The target of that name, in this process or in one of its own."""
        factory = find_requests(target)
        if not isolate:
            yield RequestBench(factory, seconds=seconds, look_every=look_every)
            return
        process = TargetProcess(target, seconds)
        try:
            yield RequestBench(
                factory,
                start=lambda configuration: IsolatedRequestExecutor(process, configuration),
                look_every=look_every,
            )
        finally:
            process.close()


class RequestBench:
    """Runs programs on targets of one factory. See `kvref.machine.Bench`.

    Args:
        start: gives the executor of a new target; by default one in this process.
        seconds: the limit of one operation there, or None for none.
    """

    def __init__(
        self,
        factory: RequestTargetFactory,
        *,
        look_every: int,
        seconds: float | None = 10.0,
        start: Callable[[RequestConfiguration], RequestExecutor] | None = None,
    ) -> None:
        self.promises = factory.promises
        self.look_every = look_every
        self._start = start or (
            lambda configuration: LocalRequestExecutor(factory(configuration), seconds)
        )

    def run(
        self,
        program: Program,
        listener: Listener | None = None,
        *,
        look_every: int | None = None,
    ) -> Divergence | None:
        """Judge the program to its first divergence, and look at the end."""
        executor = self._start(program.configuration)
        try:
            judge = RequestJudge(
                executor,
                program.configuration,
                self.promises,
                look_every=look_every or self.look_every,
                listener=listener,
            )
            for operation in program.operations:
                if judge.apply(operation) is not None:
                    return judge.divergence
            return judge.look()
        finally:
            executor.close()


def _check(operation: RequestOperation) -> None:
    """ValueError for numbers that no tensor of the interface can hold."""
    tokens: tuple[int, ...] = ()
    if isinstance(operation, Begin | Append):
        tokens = operation.tokens
    elif isinstance(operation, Extend):
        tokens = operation.ahead
        if not abs(operation.count) < 2**31:
            raise ValueError("a count that no pool has")
    for token in tokens:
        if not -(2**63) <= token < 2**63:
            raise ValueError("a token that does not fit int64")
    reference = REQUESTS.reference(operation)
    if reference is not None and reference < 0:
        raise ValueError("a request of a negative index")


REQUESTS = RequestsMachine()
