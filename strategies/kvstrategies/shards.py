"""Machines as test classes that pytest collects, each for one worker."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis.stateful import RuleBasedStateMachine

__all__ = ["shards_of"]


def shards_of(
    machine: Callable[[str], type[RuleBasedStateMachine]], shards: int, name: str, module: str
) -> dict[str, type]:
    """Classes `Test{name}Shard{number}`, each of a machine of its own, by name.

    A machine is one test, which one worker of pytest-xdist runs; shards are what `-n auto`
    spreads.
    """
    found: dict[str, type] = {}
    for number in range(shards):
        case = machine(f"{name}{number}").TestCase
        case.__name__ = case.__qualname__ = f"Test{name}Shard{number}"
        case.__module__ = module or case.__module__
        found[case.__name__] = case
    return found
