"""How the tree looks that an operation comes upon."""

from __future__ import annotations

from kvref.oracle import Oracle
from kvref.situations.registry import SHAPES, mark_bit

__all__ = ["EMPTY_TREE", "shape"]

EMPTY_TREE, _CHAIN, _FAN, _MIXED = map(mark_bit, SHAPES)


def shape(oracle: Oracle) -> int:
    """One path, branches at the root alone, or branches further down too; as a bit."""
    leaves = len(oracle.leaves)
    if leaves == 0:
        return EMPTY_TREE
    if leaves == 1:
        return _CHAIN
    branches = 0
    for root in oracle.roots:
        branches += root.children
    return _FAN if leaves == branches else _MIXED
