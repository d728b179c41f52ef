"""What the judge talks to: a manager on plain ints and sequences, and how one is built."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kvref.configuration import Configuration
from kvref.operations import Carried
from kvref.oracle import NodeView
from kvref.promises import Promises

if TYPE_CHECKING:
    from kvref.requests.target import RequestTargetFactory

__all__ = ["CannotBuild", "InspectableTarget", "Target", "TargetFactory"]


class Target(Protocol):
    """A manager under test, bridged to plain values.

    `match_prefix` returns a handle (of whatever type the manager uses, with an attribute
    `cached_len`) and the slots. A refusal is an exception of the manager's own; the judge reads
    it by its class. A bridge should overwrite each buffer that it passed in, and each that it
    got back, as soon as it has read it: what a manager keeps must be its own.
    """

    def match_prefix(
        self, tokens: Sequence[int], *, namespace: str | None, carried: Carried
    ) -> tuple[Any, list[int]]:
        """`match_prefix` of the contract."""

    def insert_prefix(
        self,
        tokens: Sequence[int],
        slots: Sequence[int],
        *,
        namespace: str | None,
        carried: Carried,
    ) -> int:
        """`insert_prefix` of the contract."""

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        """`lock_handle` of the contract."""

    def evict(self, size: Any) -> list[int]:
        """`evict` of the contract."""

    def reset(self) -> list[int]:
        """`reset` of the contract."""

    def sizes(self) -> tuple[int, int]:
        """Evictable and protected size, in slots."""

    def check_integrity(self) -> None:
        """Raise if the cache is damaged."""

    def foreign_handle(self) -> Any:
        """A handle of a cached prefix of at least one page of *another* manager."""


@runtime_checkable
class InspectableTarget(Protocol):
    """A target that can also be looked into: faults are then seen when they happen.

    Both methods or neither: with one of them alone a target is not looked into.
    """

    def nodes(self) -> list[NodeView]:
        """Every node, in any order, without changing anything."""

    def fingerprint(self) -> Hashable:
        """A value that is equal if and only if nothing in the manager has changed."""


class CannotBuild(Exception):
    """The factory raised, for a configuration that its promises allow."""

    def __init__(self, configuration: Configuration, why: object) -> None:
        self.configuration = configuration
        super().__init__(
            f"the target cannot be built with {configuration}: {why} (what it cannot be built "
            "with, its promises have to rule out: page_sizes, policies)"
        )


@dataclass(frozen=True)
class TargetFactory:
    """How to build a target, and what it promises: what an entry point names.

    `requests` builds whole requests over such a manager, where it comes with them.
    """

    build: Callable[[Configuration], Target]
    promises: Promises = field(default_factory=Promises)
    description: str = ""
    requests: RequestTargetFactory | None = None

    def __call__(self, configuration: Configuration) -> Target:
        """A new, empty manager; CannotBuild if the factory raises."""
        try:
            return self.build(configuration)
        except (Exception, SystemExit) as error:  # sys.exit(0) would end kvref as a success
            raise CannotBuild(configuration, f"{type(error).__name__}: {error}") from error
