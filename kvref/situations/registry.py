"""Every situation by its id, and the bits that all is counted by.

What an operation met, what kind it was and what it came upon is one int: a situation, a law, a
kind of operation is one bit of it. So an operation costs a single look into a table of counts,
however much it met.
"""

from __future__ import annotations

from kvref.situations.laws import CONTRACT
from kvref.situations.manager_list import MANAGER_SITUATIONS
from kvref.situations.request_list import REQUEST_SITUATIONS
from kvref.situations.situation import Situation, ruled_out

__all__ = [
    "ACCEPTED", "KINDS", "PAGE_SIZES", "POLICIES", "SHAPES", "SITUATIONS",
    "Situation", "bit", "kind_bit", "law_bit", "mark_bit", "names", "ruled_out",
]  # fmt: skip

SITUATIONS: dict[str, Situation] = {
    each.id: each for each in (*MANAGER_SITUATIONS, *REQUEST_SITUATIONS)
}
"""In the order of a report."""

KINDS = {
    "manager": ("match", "insert", "lock", "unlock", "evict", "reset"),
    "requests": (
        "begin", "extend", "append", "store", "commit", "finish", "abort", "preempt", "flush",
    ),
}  # fmt: skip
"""Of the operations of each machine, as a trace calls them."""

PAGE_SIZES = ("page size 1", "page size above 1")
POLICIES = ("lru", "fifo")
SHAPES = ("empty", "chain", "fan", "mixed")
"""Of the tree that an operation came upon: nothing; one path; paths that branch at the root
alone; paths that branch further down too."""

ACCEPTED = "accepted"


def _places() -> dict[tuple[str, str], int]:
    """A bare manager's first: it does more operations, and short ints are cheaper."""
    found = [("mark", name) for name in (ACCEPTED, *PAGE_SIZES, *POLICIES, *SHAPES)]
    for machine, kinds in KINDS.items():
        found += [("kind", name) for name in kinds]
        found += [("law", law.id) for law in CONTRACT.values() if law.machine == machine]
        found += [("situation", each.id) for each in SITUATIONS.values() if each.machine == machine]
    return {each: place for place, each in enumerate(found)}


_PLACES = _places()


def bit(situation: str) -> int:
    """The bit of a situation; KeyError if there is none of that id."""
    return 1 << _PLACES["situation", situation]


def law_bit(law: str) -> int:
    """The bit that says that a judgement of this law counts."""
    return 1 << _PLACES["law", law]


def kind_bit(kind: str) -> int:
    """The bit of a kind of operations."""
    return 1 << _PLACES["kind", kind]


def mark_bit(mark: str) -> int:
    """The bit of `ACCEPTED`, a page size, a policy or a shape."""
    return 1 << _PLACES["mark", mark]


def names(bits: int) -> dict[str, list[str]]:
    """What these bits stand for: "situation", "law", "kind", "mark", each in its order."""
    found: dict[str, list[str]] = {"situation": [], "law": [], "kind": [], "mark": []}
    for (what, name), place in _PLACES.items():
        if bits >> place & 1:
            found[what].append(name)
    return found
