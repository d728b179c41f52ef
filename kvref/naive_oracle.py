"""The oracle of a manager that remembers nothing."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Sequence

from kvref.configuration import Configuration
from kvref.oracle import EMPTY, Handle, NodeView, Page
from kvref.refusals import RefusalKind, refuse

__all__ = ["NaiveOracle"]


class NaiveOracle:
    """The baseline that remembers nothing, with the oracle's methods."""

    evictable_size = 0
    protected_size = 0

    def __init__(self, configuration: Configuration) -> None:
        self.page_size = configuration.page_size

    def match_prefix(
        self,
        tokens: Sequence[int],
        namespace: str | None = None,
    ) -> tuple[Handle, list[int]]:
        """Nothing, always."""
        return EMPTY, []

    def match(self, path: Sequence[Page]) -> tuple[Handle, list[int]]:
        """Nothing, always."""
        return EMPTY, []

    def insert_prefix(
        self,
        tokens: Sequence[int],
        slots: Sequence[int],
        namespace: str | None = None,
    ) -> int:
        """Claims all whole pages to be cached, so that the caller frees them."""
        return self.insert(tokens, slots, namespace)[0]

    def insert(
        self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None = None
    ) -> tuple[int, list[Page]]:
        """As `insert_prefix`, and the pages of the prefix, of which none is there."""
        if len(tokens) != len(slots):
            refuse(RefusalKind.VALUE)
        return len(tokens) // self.page_size * self.page_size, []

    def lock_handle(self, handle: object, unlock: bool = False) -> None:
        """Any handle is right."""
        if not isinstance(handle, Handle):
            refuse(RefusalKind.TYPE)

    def evict(self, size: object) -> list[int]:
        """Nothing to evict."""
        if isinstance(size, bool) or not isinstance(size, int):
            refuse(RefusalKind.TYPE)
        if size < 0:
            refuse(RefusalKind.VALUE)
        if size > 0:
            refuse(RefusalKind.UNSUPPORTED, needed=size)
        return []

    def reset(self) -> list[int]:
        """Nothing to give up."""
        return []

    def cached_slots(self, tokens: Sequence[int], namespace: str | None = None) -> list[int]:
        """None."""
        return []

    def walk(self, tokens: Sequence[int], namespace: str | None = None) -> list[Page]:
        """None."""
        return []

    @property
    def held(self) -> KeysView[int]:
        """Nothing."""
        return dict[int, None]().keys()

    def pages(self) -> Iterable[Page]:
        """None."""
        return ()

    def nodes(self) -> list[NodeView]:
        """None."""
        return []

    def recompute(self) -> None:
        """Nothing is kept."""
