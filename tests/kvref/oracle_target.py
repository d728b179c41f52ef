"""A target that is right by construction: the oracle behind a target's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvref.configuration import Configuration
from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.operations import Operation
from kvref.oracle import Granularity, Handle, NodeView, Oracle
from kvref.promises import Promises
from kvref.refusals import BUILTIN, RefusalKind, Refused
from kvref.target import Target


class _Numbered(Exception):
    """Carries the numbers of a refusal as fields."""

    def __init__(self, **fields: int) -> None:
        super().__init__(str(fields))
        self.__dict__.update(fields)


class StaleHandle(_Numbered, RuntimeError):
    pass


class ForeignHandle(_Numbered, RuntimeError):
    pass


class UnbalancedUnlock(_Numbered, RuntimeError):
    pass


class NotEvictable(_Numbered, RuntimeError):
    pass


class CacheInUse(_Numbered, RuntimeError):
    pass


class EvictionUnsupported(_Numbered, NotImplementedError):
    pass


NAMED: dict[RefusalKind, type[_Numbered]] = {
    RefusalKind.STALE: StaleHandle,
    RefusalKind.FOREIGN: ForeignHandle,
    RefusalKind.UNBALANCED: UnbalancedUnlock,
    RefusalKind.NOT_EVICTABLE: NotEvictable,
    RefusalKind.IN_USE: CacheInUse,
    RefusalKind.UNSUPPORTED: EvictionUnsupported,
}


def picture(oracle: Oracle) -> tuple[Any, ...]:
    """All that a call can change in an oracle, as one value."""
    pages = [
        (
            page.namespace, page.depth, page.tokens, page.slots, page.own_locks, page.locks,
            page.children, page.recency, page.created, page.node_ends,
        )
        for page in oracle._table.values()
    ]  # fmt: skip
    leaves = tuple(page.slots for page in oracle._leaves)
    sizes = (oracle.evictable_size, oracle.protected_size)
    return tuple(pages), leaves, tuple(oracle._holder), tuple(oracle._roots), sizes, oracle._now


class OracleTarget:
    """The oracle as a target; a wrong one overrides one method."""

    def __init__(
        self, configuration: Configuration | None = None, granularity: Granularity = "node"
    ) -> None:
        self.configuration = configuration or Configuration()
        self.oracle = Oracle(self.configuration, granularity=granularity)

    def refuse(self, refused: Refused) -> Exception:
        """The exception that a refusal of the oracle becomes."""
        kind, fields = refused.refusal.kind, refused.refusal.fields
        return NAMED[kind](**fields) if kind in NAMED else BUILTIN[kind](str(refused))

    def ask(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        """The oracle's answer, or the exception of the contract."""
        try:
            return method(*args, **kwargs)
        except Refused as refused:
            raise self.refuse(refused) from None

    def match_prefix(
        self, tokens: Sequence[int], *, namespace: str | None = None, carried: str = "int64"
    ) -> tuple[Any, Any]:
        return self.ask(self.oracle.match_prefix, tokens, namespace)

    def insert_prefix(
        self,
        tokens: Sequence[int],
        slots: Sequence[int],
        *,
        namespace: str | None = None,
        carried: str = "int64",
    ) -> Any:
        return self.ask(self.oracle.insert_prefix, tokens, slots, namespace)

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        self.ask(self.oracle.lock_handle, handle, unlock)

    def evict(self, size: Any) -> Any:
        return self.ask(self.oracle.evict, size)

    def reset(self) -> Any:
        return self.ask(self.oracle.reset)

    def sizes(self) -> Any:
        return self.oracle.evictable_size, self.oracle.protected_size

    def check_integrity(self) -> Any:
        self.oracle.recompute()

    def foreign_handle(self) -> Handle:
        other = Oracle(self.configuration)
        page = range(other.page_size)
        other.insert_prefix(page, page)
        return other.match_prefix(page)[0]

    def nodes(self) -> list[NodeView]:
        return self.oracle.nodes()

    def fingerprint(self) -> Any:
        return picture(self.oracle)


def judge_of(
    target: Target,
    *operations: Operation,
    promises: Promises | None = None,
    configuration: Configuration | None = None,
    look_every: int = 1,
    seconds: float | None = None,
) -> Judge:
    """A judge that has applied the operations, up to the first divergence."""
    configuration = configuration or getattr(target, "configuration", Configuration())
    executor = LocalExecutor(target, seconds)
    judge = Judge(executor, configuration, promises, look_every=look_every)
    try:
        for operation in operations:
            if judge.apply(operation) is not None:
                break
    finally:
        executor.close()
    return judge
