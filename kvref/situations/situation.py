"""One situation: what it is called, what it is, why it is looked for, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvref.refusals import RefusalKind

__all__ = ["Situation", "ruled_out"]


@dataclass(frozen=True)
class Situation:
    """Something that can come up in a run, seen on the oracle's side: it counts for any target.

    Fields:
        id: what a report calls it.
        group: the heading that it stands under.
        sentence: what has happened, for somebody who knows the contract's words.
        why: what goes wrong where it goes wrong; names of threads are those of docs/faults.md.
        needs: what a target has to promise, or it cannot come up: "prefixes", "namespaces",
            "checked", "lru", "fifo", "large pages", "nodes" (evicts whole nodes), "order"
            (evicts in the order of the policy), "refuses KIND" (a value of RefusalKind).
        required: a whole session that never met it has failed.
        machine: "manager" or "requests": whose operations meet it.
    """

    id: str
    group: str
    sentence: str
    why: str
    needs: tuple[str, ...] = ()
    required: bool = True
    machine: str = "manager"


def ruled_out(needs: tuple[str, ...], promises: Any) -> str | None:
    """Why a target with these promises can never meet what needs this; None if it can."""
    for need in needs:
        reason = _lacking(need, promises)
        if reason is not None:
            return reason
    return None


def _lacking(need: str, promises: Any) -> str | None:
    match need.split(" ", 1):
        case ["prefixes"]:
            return None if promises.keeps_prefixes else "it remembers nothing"
        case ["namespaces"]:
            return None if promises.namespaces else "it has no namespaces"
        case ["checked"]:
            return None if promises.checked_inserts else "it does not verify slots"
        case ["lru" | "fifo" as policy]:
            return None if policy in promises.policies else f"it has no policy {policy}"
        case ["large", "pages"]:
            sizes = promises.page_sizes
            return None if sizes is None or max(sizes) > 1 else "its pages hold one token"
        case ["nodes"]:
            return None if promises.granularity == "node" else "it does not evict whole nodes"
        case ["order"]:
            return None if promises.eviction == "exact" else "its choice of victims is its own"
        case ["refuses", kind]:
            wanted = RefusalKind(kind)
            return None if wanted in promises.refuses else f"it does not refuse {kind}"
    raise ValueError(f"nobody knows what it is to need {need!r}")
