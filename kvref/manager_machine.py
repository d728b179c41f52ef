"""The operations on a bare manager, for traces and shrinking."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from kvref import manager_parts
from kvref.configuration import Configuration
from kvref.divergence import Divergence
from kvref.executor import Executor, LocalExecutor
from kvref.isolated import IsolatedExecutor, TargetProcess
from kvref.judge import Judge
from kvref.listener import Listener
from kvref.machine import Bench, Program
from kvref.manager_repair import partners, repaired, untangled
from kvref.manager_simplify import PASSES
from kvref.operations import Evict, Insert, Lock, Match, Operation, Unlock, decode, encode, program
from kvref.oracle import Oracle
from kvref.promises import Promises
from kvref.registry import find
from kvref.target import TargetFactory

__all__ = ["MANAGER", "ManagerBench", "ManagerMachine", "rightly_owned"]

_LARGEST_SLOT = 2**31 - 1  # indices are int32
_LARGEST_PAGE = 2**16  # a file that somebody sent must not make one of gigabytes


class ManagerMachine:
    """See `kvref.machine.Machine`."""

    name = "manager"
    passes: Sequence[Callable[[Program, Any], Iterator[Program]]] = PASSES

    def encode(self, operation: Operation) -> bytes:
        """The operation as JSON."""
        return encode(operation)

    def decode(self, data: bytes) -> Operation:
        """The operation that `encode` wrote."""
        operation = decode(data)
        _check(operation)
        return operation

    def decode_configuration(self, data: bytes) -> Configuration:
        """A configuration."""
        configuration = msgspec.json.decode(data, type=Configuration)
        if configuration.num_slots > _LARGEST_SLOT or configuration.page_size > _LARGEST_PAGE:
            raise ValueError(
                f"{configuration.num_pages} pages of {configuration.page_size} slots: at most "
                f"{_LARGEST_SLOT} slots, and {_LARGEST_PAGE} in a page"
            )
        return configuration

    def decode_promises(self, data: bytes) -> Promises:
        """Promises."""
        return msgspec.json.decode(data, type=Promises)

    def reference(self, operation: Operation) -> int | None:
        """The index of the match whose handle this names."""
        handle = operation.handle if isinstance(operation, Lock | Unlock) else None
        return handle if isinstance(handle, int) else None

    def renumbered(self, operation: Operation, reference: int) -> Operation:
        """The same, naming another match."""
        return Lock(reference) if isinstance(operation, Lock) else Unlock(reference)

    def repaired(self, program: Program, promises: Promises) -> Program:
        """See `kvref.manager_repair`."""
        return repaired(program, promises)

    def untangled(self, program: Program, promises: Promises) -> Program:
        """See `kvref.manager_repair`."""
        return untangled(program, promises)

    def partners(self, program: Program) -> dict[int, int]:
        """See `kvref.manager_repair`."""
        return partners(program)

    def size(self, program: Program) -> tuple[int, ...]:
        """See `kvref.manager_parts`."""
        return manager_parts.size(program)

    def canonical(self, program: Program) -> Program:
        """See `kvref.manager_parts`."""
        return manager_parts.canonical(program)

    def python(self, program_: Program, refused: Sequence[int], skipped: Sequence[int]) -> str:
        """The program as Python."""
        return program(program_.configuration, program_.operations, refused, skipped)

    @contextmanager
    def bench(
        self, target: str, *, seconds: float, isolate: bool, look_every: int
    ) -> Iterator[Bench]:
        """The target of that name, in this process or in one of its own."""
        factory = find(target)
        if not isolate:
            yield ManagerBench(factory, seconds=seconds, look_every=look_every)
            return
        process = TargetProcess(target, seconds)
        try:
            yield ManagerBench(
                factory,
                start=lambda configuration: IsolatedExecutor(process, configuration),
                look_every=look_every,
            )
        finally:
            process.close()


class ManagerBench:
    """Runs programs on managers of one factory. See `kvref.machine.Bench`.

    Args:
        start: gives the executor of a new manager; by default one in this process.
        seconds: the limit of one operation there.
    """

    def __init__(
        self,
        factory: TargetFactory,
        *,
        look_every: int,
        seconds: float = 10.0,
        start: Callable[[Configuration], Executor] | None = None,
    ) -> None:
        self.promises = factory.promises
        self.look_every = look_every
        self.judge: Judge | None = None
        self._start = start or (
            lambda configuration: LocalExecutor(factory(configuration), seconds)
        )

    def run(
        self,
        program: Program,
        listener: Listener | None = None,
        *,
        look_every: int | None = None,
    ) -> Divergence | None:
        """Judge the program to its first divergence, and look at the end; the judge stays."""
        configuration: Configuration = program.configuration
        executor = self._start(configuration)
        try:
            judge = self.judge = Judge(
                executor,
                configuration,
                self.promises,
                look_every=look_every or self.look_every,
                listener=listener,
            )
            # A checked manager refuses what is not the caller's to give. Any other has to trust.
            trusting = not configuration.checked and isinstance(judge.oracle, Oracle)
            for operation in program.operations:
                if trusting and isinstance(operation, Insert):
                    assert isinstance(judge.oracle, Oracle)
                    if not rightly_owned(judge.oracle, operation):
                        return None
                if judge.apply(operation) is not None:
                    return judge.divergence
            return judge.look()
        finally:
            executor.close()


def rightly_owned(oracle: Oracle, insert: Insert) -> bool:
    """Whether the slots of an insert are what the contract has a caller give."""
    size, slots = oracle.page_size, insert.slots
    if len(slots) != len(insert.tokens):
        return True  # refused whatever they are
    own = oracle.cached_slots(insert.tokens, insert.namespace)
    whole = len(slots) // size * size
    new = slots[len(own) : whole]
    firsts = new[::size]
    pages = tuple(slot for first in firsts for slot in range(first, first + size))
    return (
        new == pages
        and all(first % size == 0 and 0 <= first < oracle.num_slots for first in firsts)
        and len(set(firsts)) == len(firsts)
        and not any(first in oracle.held for first in firsts)
        and all(
            slot == mine or not (slot // size * size in oracle.held or slot in new)
            for slot, mine in zip(slots, own, strict=False)
        )
    )


def _check(operation: Operation) -> None:
    """ValueError for numbers that no tensor of the interface can hold."""
    if isinstance(operation, Match | Insert):
        for token in operation.tokens:
            if not -(2**63) <= token < 2**63:
                raise ValueError("a token that does not fit int64")
    if isinstance(operation, Insert):
        for slot in operation.slots:
            if not -(2**31) <= slot <= _LARGEST_SLOT:
                raise ValueError("a slot that does not fit int32")
    if isinstance(operation, Evict) and not abs(operation.size or 0) < 2**63:
        raise ValueError("a size that does not fit int64")
    reference = MANAGER.reference(operation)
    if reference is not None and reference < 0:
        raise ValueError("a handle of a negative index")


MANAGER = ManagerMachine()
