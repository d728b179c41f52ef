"""One law of the contract, as a report counts it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Law"]


@dataclass(frozen=True)
class Law:
    """One law of the contract.

    Fields:
        id: what a report calls it.
        sentence: what it says.
        counts_when: what has to be so for a judgement to count; "" if each one counts.
        judged_by: the laws of the judge (kvref/laws.py) that hold it, or "accepted KIND" for an
            operation that was accepted, its sizes compared after it. Empty: it is judged
            exactly when it counts.
        needs, machine: as those of a situation.
    """

    id: str
    sentence: str
    counts_when: str
    judged_by: tuple[str, ...]
    needs: tuple[str, ...] = ()
    machine: str = "manager"
