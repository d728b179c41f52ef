"""Planted faults: small named variations of kvgpu classes that the harness has to find.

Each is a subclass with a method or two replaced, never a copied module, and says where in the
field such a fault was met (`origin`: an entry of docs/faults.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvgpu import RadixCacheManager
from kvgpu.radix_core import RadixCore
from kvref.target import TargetFactory
from kvref.targets.kvgpu import radix_factory

MANAGER_FAULTS: dict[str, Fault] = {}


@dataclass(frozen=True)
class Fault:
    """A planted fault. `target` builds `manager`, the broken class, as the judge wants it."""

    name: str
    origin: str
    what: str
    manager: type
    target: TargetFactory


def fault(origin: str) -> Callable[[type], type]:
    """Register a subclass of RadixCore or of RadixCacheManager; its docstring says what it does."""

    def register(broken: type) -> type:
        manager: Any = broken
        if issubclass(broken, RadixCore):
            manager = type(broken.__name__, (RadixCacheManager,), {"core_class": broken})
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", broken.__name__).lower()
        assert name not in MANAGER_FAULTS
        what = (broken.__doc__ or "").strip()
        assert what, f"{name} does not say what it breaks"
        MANAGER_FAULTS[name] = Fault(name, origin, what, manager, radix_factory(manager, what))
        return broken

    return register
