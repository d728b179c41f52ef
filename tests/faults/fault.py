"""Planted faults: small named variations of kvgpu classes that the harness has to find.

Each is a subclass with a method or two replaced, never a copied module, and says where in the
field such a fault was met (`origin`: an entry of docs/faults.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvgpu import PageAllocator, RadixCacheManager, RequestManager
from kvgpu.page_table import PageTable
from kvgpu.radix_core import RadixCore
from kvgpu.request import Request
from kvgpu.request_steps import RequestSteps
from kvref.requests.target import RequestTargetFactory
from kvref.target import TargetFactory
from kvref.targets.kvgpu import radix_factory
from kvref.targets.kvgpu_requests import radix_requests

MANAGER_FAULTS: dict[str, Fault] = {}
REQUEST_FAULTS: dict[str, Fault] = {}


@dataclass(frozen=True)
class Fault:
    """A planted fault. `target` builds the broken manager, or the broken requests.

    `manager` is the broken class of a manager, as the judge wants it, or that of requests.
    """

    name: str
    origin: str
    what: str
    target: TargetFactory | RequestTargetFactory
    manager: type | None = None


def fault(origin: str) -> Callable[[type], type]:
    """Register a subclass of RadixCore or of RadixCacheManager; its docstring says what it does."""

    def register(broken: type) -> type:
        manager: Any = broken
        if issubclass(broken, RadixCore):
            manager = type(broken.__name__, (RadixCacheManager,), {"core_class": broken})
        name, what = _name(broken), _what(broken)
        MANAGER_FAULTS[name] = Fault(name, origin, what, radix_factory(manager, what), manager)
        return broken

    return register


def request_fault(origin: str) -> Callable[[type], type]:
    """Register a subclass of a class that requests are made of."""

    def register(broken: type) -> type:
        name, what = _name(broken), _what(broken)
        manager = _manager_of(broken)
        target = radix_requests(requests=manager, description=what)
        REQUEST_FAULTS[name] = Fault(name, origin, what, target, manager)
        return broken

    return register


def _manager_of(broken: Any) -> type[RequestManager]:
    """A RequestManager whose part of that kind is the broken one."""
    if issubclass(broken, RequestManager):
        return broken
    if issubclass(broken, RequestSteps):
        return type(broken.__name__, (RequestManager,), {"steps_class": broken})
    if issubclass(broken, Request):

        class BreaksRequests(RequestManager):
            def begin(self, *args: Any, **keywords: Any) -> Request:
                request = super().begin(*args, **keywords)
                request.__class__ = broken
                return request

        return BreaksRequests
    if issubclass(broken, RadixCore):

        class BreaksTheCore(RequestManager):
            def __init__(self, manager: Any, *args: Any, **keywords: Any) -> None:
                manager.core.__class__ = broken
                super().__init__(manager, *args, **keywords)

        return BreaksTheCore
    attribute = {PageTable: "page_table", PageAllocator: "allocator"}[broken.__base__]

    class BreaksAPart(RequestManager):
        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__(*args, **keywords)
            getattr(self, attribute).__class__ = broken

    return BreaksAPart


def _name(broken: type) -> str:
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", broken.__name__).lower()
    assert name not in MANAGER_FAULTS
    assert name not in REQUEST_FAULTS
    return name


def _what(broken: type) -> str:
    what = (broken.__doc__ or "").strip()
    assert what, f"{broken.__name__} does not say what it breaks"
    return what
