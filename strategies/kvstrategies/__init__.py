"""Hypothesis strategies and state machines that put a KV-cache manager beside the oracle."""

from kvstrategies.configurations import configurations
from kvstrategies.manager_machine import ManagerMachine, manager_machine, manager_shards
from kvstrategies.sequences import Recipe, recipes, token_sequences

__all__ = [
    "ManagerMachine",
    "Recipe",
    "configurations",
    "manager_machine",
    "manager_shards",
    "recipes",
    "token_sequences",
]
