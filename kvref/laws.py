"""The laws that the judge holds a target to, each with the sentence that a report prints."""

from __future__ import annotations

__all__ = ["LAWS"]

LAWS: dict[str, str] = {
    "match-length": "match finds exactly the leading whole pages that are cached",
    "match-slots": "match returns the slots that were inserted for that prefix",
    "already-cached": "insert returns how much of the prefix was cached before",
    "victims": "evict takes the least wanted unlocked leaves, in order, and stops in time",
    "legal-victims": "evict takes unlocked leaves only, enough, and no more than needed",
    "reset": "reset gives up every slot",
    "sizes": "evictable and protected size are those of the cached pages",
    "accepts": "what the contract allows is not refused",
    "refusals": "what the contract forbids is refused, with the right error",
    "refused-unchanged": "a refused call leaves no trace",
    "handles": "handles of one incarnation are equal, all others differ",
    "structure": "nodes, their slots and their lock counts are those of the oracle",
    "integrity": "the target's own integrity check passes on a healthy cache",
    "answers-in-time": "every operation returns, in time, and the process survives it",
}
"""Id and sentence, in the order of a report."""
