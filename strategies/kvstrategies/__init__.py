"""Hypothesis strategies and state machines that put a KV-cache manager beside the oracle.

What is named here is imported when it is first asked for: the tensor strategies need torch and no
oracle, the machines need the oracle and no torch, and neither has to pay for the other.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvstrategies.configuration import configurations, request_configurations
    from kvstrategies.manager import ManagerMachine, manager_machine, manager_shards
    from kvstrategies.requests import RequestMachine, request_machine, request_shards
    from kvstrategies.sequences import Recipe, recipes, token_sequences

__all__ = [
    "ManagerMachine",
    "Recipe",
    "RequestMachine",
    "configurations",
    "manager_machine",
    "manager_shards",
    "recipes",
    "request_configurations",
    "request_machine",
    "request_shards",
    "token_sequences",
]

_HOMES = {
    "ManagerMachine": "kvstrategies.manager",
    "Recipe": "kvstrategies.sequences",
    "RequestMachine": "kvstrategies.requests",
    "configurations": "kvstrategies.configuration",
    "manager_machine": "kvstrategies.manager",
    "manager_shards": "kvstrategies.manager",
    "recipes": "kvstrategies.sequences",
    "request_configurations": "kvstrategies.configuration",
    "request_machine": "kvstrategies.requests",
    "request_shards": "kvstrategies.requests",
    "token_sequences": "kvstrategies.sequences",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
