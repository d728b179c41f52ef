"""Which match made a handle, without keeping the handle."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

__all__ = ["Handles"]

_STRONG = 1 << 14


class _Reference(weakref.ref[Any]):
    """A weak reference that knows the identity of what it pointed to."""

    __slots__ = ("key",)
    key: int


class Handles:
    """Numbers by handle object. For one thread at a time, but for what the collector does.

    A handle is held weakly: a manager that gives memory back when its handles are gone still does.
    One that cannot be is kept, the newest so many of them.
    """

    def __init__(self, strong: int = _STRONG) -> None:
        # By identity: handles need not be hashable, and of two equal ones either may go first.
        self._weak: dict[int, tuple[_Reference, int, int]] = {}
        self._strong: OrderedDict[int, tuple[Any, int, int]] = OrderedDict()
        self._most = strong
        weak = self._weak

        def gone(reference: Any) -> None:
            # Before the memory is given back, so before another object can have the identity.
            weak.pop(reference.key, None)

        self._gone = gone

    def __len__(self) -> int:
        return len(self._weak) + len(self._strong)

    def add(self, handle: Any, generation: int, index: int) -> None:
        """The match number `index` made it; what was known of the same object is forgotten."""
        key = id(handle)
        try:
            reference = _Reference(handle, self._gone)
        except TypeError:
            self._strong.pop(key, None)
            self._strong[key] = handle, generation, index
            if len(self._strong) > self._most:
                self._strong.popitem(last=False)
        else:
            reference.key = key
            self._weak[key] = reference, generation, index

    def find(self, handle: Any, generation: int) -> int | None:
        """The match that made it in this generation, if one did."""
        key = id(handle)
        weak = self._weak.get(key)
        if weak is not None and weak[0]() is handle:
            return weak[2] if weak[1] == generation else None
        strong = self._strong.get(key)
        return strong[2] if strong is not None and strong[1] == generation else None
