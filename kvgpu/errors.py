"""The error family: every refusal of kvgpu is a `KVCacheError` and a builtin error as well.

The numbers of a refusal are fields of the error, so that a scheduler can act on them
(`OutOfPages.free`) without reading its text. A call that raised one of these changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvgpu.request import RequestState

__all__ = [
    "CacheInUse",
    "EvictionUnsupported",
    "ForeignHandle",
    "IntegrityError",
    "InvalidIndex",
    "InvalidType",
    "InvalidValue",
    "KVCacheError",
    "LedgerError",
    "NoRoom",
    "NotEvictable",
    "OutOfPages",
    "RequestEnded",
    "StaleHandle",
    "TooManyRequests",
    "UnbalancedUnlock",
]


class KVCacheError(Exception):
    """Any refusal of kvgpu. It can be pickled and copied, fields and all."""

    def __reduce__(self) -> tuple[Any, ...]:
        # What Exception does would call the class with the message, where it wants the fields.
        return _again, (type(self), self.args, vars(self))


def _again(kind: type[KVCacheError], args: tuple[Any, ...], fields: dict[str, Any]) -> KVCacheError:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


class _InvalidArgument(KVCacheError):
    """An argument that can never be right, whatever the state of the cache.

    Fields: `argument` (its name), `got` and `expected` (in words).
    """

    def __init__(self, argument: str, got: str, expected: str) -> None:
        self.argument = argument
        self.got = got
        self.expected = expected
        super().__init__(f"{argument}: got {got}, expected {expected}")


class InvalidType(_InvalidArgument, TypeError):
    """An argument of the wrong type or dtype."""


class InvalidValue(_InvalidArgument, ValueError):
    """An argument of the right type and a wrong value, shape or device."""


class InvalidIndex(_InvalidArgument, IndexError):
    """A slot or a layer outside the pool."""


class _HandleError(KVCacheError, RuntimeError):
    """A handle that this manager cannot act on. Field: `cached_len` of the handle, in tokens."""

    def __init__(self, cached_len: int, reason: str) -> None:
        self.cached_len = cached_len
        super().__init__(f"handle of {cached_len} tokens: {reason}")


class StaleHandle(_HandleError):
    """The prefix was evicted or reset since the match; a new match gives a new handle."""

    def __init__(self, cached_len: int) -> None:
        super().__init__(cached_len, "stale: its prefix was evicted since; match again")


class ForeignHandle(_HandleError):
    """The handle comes from another manager."""

    def __init__(self, cached_len: int) -> None:
        super().__init__(cached_len, "made by another manager")


class UnbalancedUnlock(_HandleError):
    """More unlocks than locks at that very prefix."""

    def __init__(self, cached_len: int) -> None:
        super().__init__(cached_len, "not locked at this prefix, so there is no lock to give back")


class NotEvictable(KVCacheError, RuntimeError):
    """More slots asked for than are evictable. Fields, in slots: `needed`, `evictable`."""

    def __init__(self, needed: int, evictable: int) -> None:
        self.needed = needed
        self.evictable = evictable
        super().__init__(f"size: {needed} slots asked for, {evictable} evictable")


class EvictionUnsupported(KVCacheError, NotImplementedError):
    """A manager that keeps nothing has nothing to evict. Field: `needed`, in slots."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        super().__init__(f"size: {needed} slots asked of a manager that caches nothing")


class CacheInUse(KVCacheError, RuntimeError):
    """Reset while something is locked. Field: `protected_size`, in slots."""

    def __init__(self, protected_size: int) -> None:
        self.protected_size = protected_size
        super().__init__(f"reset: {protected_size} slots are locked; unlock them first")


class OutOfPages(KVCacheError, RuntimeError):
    """More pages asked for than are free. Fields, in pages: `needed`, `free`."""

    def __init__(self, needed: int, free: int) -> None:
        self.needed = needed
        self.free = free
        super().__init__(f"num_pages: {needed} pages asked for, {free} free")


class NoRoom(OutOfPages):
    """A request needs more pages than are free or evictable. Fields, in pages: `needed`, `free`,
    `evictable` (what could be evicted for this request: its own matched prefix is not counted).
    """

    def __init__(self, needed: int, free: int, evictable: int) -> None:
        super().__init__(needed, free)
        self.evictable = evictable
        self.args = (f"{needed} pages needed, {free} free and {evictable} evictable",)


class TooManyRequests(KVCacheError, RuntimeError):
    """Every row of the page table is taken. Field: `running`, the number of requests."""

    def __init__(self, running: int) -> None:
        self.running = running
        super().__init__(f"max_requests: {running} requests run already")


class RequestEnded(KVCacheError, RuntimeError):
    """The request has ended and owns nothing any more. Field: `state`, how it ended."""

    def __init__(self, state: RequestState) -> None:
        self.state = state
        super().__init__(f"the request has ended: {state.name.lower()}")


class IntegrityError(KVCacheError, RuntimeError):
    """A damaged cache. Fields: `damage` (its kind, a stable name), `path` (of the node)."""

    def __init__(self, damage: str, path: str, details: str) -> None:
        self.damage = damage
        self.path = path
        super().__init__(f"{damage} at {path}: {details}")


class LedgerError(KVCacheError, RuntimeError):
    """Pages, rows or locks that are not where they belong.

    Fields: `damage` (its kind, a stable name), `pages` (their numbers, where pages are
    concerned), `details` (in words; they name the owners).
    """

    def __init__(self, damage: str, pages: Sequence[int], details: str) -> None:
        self.damage = damage
        self.pages = tuple(pages)
        self.details = details
        super().__init__(f"{damage}: {details}")
