"""What traces and shrinking need to know of a kind of operations, and of how they are run.

There are operations on a bare manager and operations on whole requests. Both are lists of small
values that name what an earlier one made by its index; all that is done with such lists (writing,
reading, shrinking, replaying, showing) is done once, through what is declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from kvref.divergence import Divergence
from kvref.listener import Listener

__all__ = ["Bench", "Machine", "Program", "encode_promises", "keep", "unsuited"]


class Program(NamedTuple):
    """Operations, and the configuration of what they run on."""

    operations: tuple[Any, ...]
    configuration: Any


class Bench(Protocol):
    """A target that programs can be run on, each from a new and empty start.

    Attributes:
        promises: what the target is held to.
        look_every: how often what is costly is looked at, unless a run asks for another.
    """

    promises: Any
    look_every: int

    def run(
        self,
        program: Program,
        listener: Listener | None = None,
        *,
        look_every: int | None = None,
    ) -> Divergence | None:
        """Judge the program to its first divergence; CannotBuild if there is no such target.

        A program that breaks the contract itself, so that nothing can be said about the target,
        has no divergence.
        """


class Machine(Protocol):
    """One kind of operations.

    Attributes:
        name: what the header of a trace calls it.
        passes: each gives simplifications in one respect of what is in the operations and of the
            configuration, the boldest first, and each of a smaller `size`, so that taking one
            after the other ends. Leaving whole operations out is the shrinker's own business.
    """

    name: str
    passes: Sequence[Callable[[Program, Any], Iterator[Program]]]

    def encode(self, operation: Any) -> bytes:
        """The operation as JSON."""

    def decode(self, data: bytes) -> Any:
        """The operation that `encode` wrote; ValueError or a msgspec error otherwise."""

    def decode_configuration(self, data: bytes) -> Any:
        """A configuration; ValueError or a msgspec error otherwise."""

    def decode_promises(self, data: bytes) -> Any:
        """Promises; ValueError or a msgspec error otherwise."""

    def reference(self, operation: Any) -> int | None:
        """The index of the operation whose handle (or request) this one names, if it names one."""

    def renumbered(self, operation: Any, reference: int) -> Any:
        """The same, naming another index."""

    def repaired(self, program: Program, promises: Any) -> Program:
        """The program as its caller would go on after something was left out of it.

        What an operation is given may depend on what came before it. Where that does not fit any
        more it may be chosen anew; the program itself if there is nothing of the kind.
        """

    def untangled(self, program: Program, promises: Any) -> Program:
        """The program with names that stay right when something is left out; runs alike."""

    def partners(self, program: Program) -> dict[int, int]:
        """The index of the operation that each one goes with, as a lock and its unlock.

        Without the other one it would change what all later operations find.
        """

    def size(self, program: Program) -> tuple[int, ...]:
        """What simplifying makes smaller; compares with that of any other program."""

    def canonical(self, program: Program) -> Program:
        """The same up to names: tokens, slots and namespaces are numbered as they occur."""

    def python(self, program: Program, refused: Sequence[int], skipped: Sequence[int]) -> str:
        """The program as Python."""

    def bench(
        self, target: str, *, seconds: float, isolate: bool, look_every: int
    ) -> AbstractContextManager[Bench]:
        """The target of that name; UnknownTarget if there is none.

        `seconds` is the limit of one operation.
        """


def encode_promises(promises: Any) -> bytes:
    """The promises of any machine as JSON, always in the same order."""
    fields = msgspec.to_builtins(promises)
    fields["refuses"] = sorted(fields["refuses"])  # a set has no order
    return msgspec.json.encode(fields)


def unsuited(configuration: Any, promises: Any) -> str | None:
    """Why a target with these promises cannot be built so, in words, or None if it can."""
    sizes = promises.page_sizes
    if sizes is not None and configuration.page_size not in sizes:
        return f"a page size of {configuration.page_size}, where it has {sizes}"
    if configuration.policy not in promises.policies:
        return f"policy {configuration.policy}, where it has {promises.policies}"
    return None


def keep(
    machine: Machine, operations: Sequence[Any] | Mapping[int, Any], indices: Iterable[int]
) -> tuple[Any, ...]:
    """Only the operations of these indices (ascending), and of these only what still makes sense.

    One that names what another made goes where that one went; else the name follows it.
    """
    number: dict[int, int] = {}
    kept: list[Any] = []
    for index in indices:
        operation = operations[index]
        reference = machine.reference(operation)
        if reference is not None:
            if reference not in number:
                continue
            if number[reference] != reference:
                operation = machine.renumbered(operation, number[reference])
        number[index] = len(kept)
        kept.append(operation)
    return tuple(kept)
