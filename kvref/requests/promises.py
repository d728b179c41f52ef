"""What a target of requests says that it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from kvref.configuration import Policy
from kvref.oracle import Granularity
from kvref.refusals import RefusalKind
from kvref.requests.laws import REQUEST_LAWS

__all__ = ["RequestPromises"]


class RequestPromises(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults are the whole contract; fields of the same name are as in `Promises`.

    Fields:
        eviction: "legal" needs a target that tells its victims (`TellsVictims`).
        refused_begin: what a `begin` without room leaves behind: "nothing", or the traces of a
            "match", which is what a life of requests over a bare manager comes to: it has to
            match before it can know, and a match splits and refreshes.
    """

    page_sizes: tuple[int, ...] | None = None
    policies: tuple[Policy, ...] = ("lru", "fifo")
    keeps_prefixes: bool = True
    eviction: Literal["exact", "legal"] = "exact"
    granularity: Granularity = "node"
    namespaces: bool = True
    refuses: frozenset[RefusalKind] = frozenset(RefusalKind)
    refusal_errors: Literal["named", "builtin", "any"] = "named"
    refused_calls_change_nothing: bool = True
    refused_begin: Literal["nothing", "match"] = "nothing"
    checked_inserts: bool = True

    def __post_init__(self) -> None:
        if self.granularity == "any" and self.eviction != "legal":
            raise ValueError('granularity "any" cannot be predicted: it needs eviction="legal"')
        if not self.policies or self.page_sizes == ():
            raise ValueError("a target needs at least one page size and one policy")

    def not_judged(self) -> dict[str, str]:
        """Each law that is not judged for what is not promised, or only in part, and why."""
        reasons: dict[str, list[str]] = {}
        for law, reason in self._taken_back():
            reasons.setdefault(law, []).append(reason)
        return {law: "; ".join(reasons[law]) for law in REQUEST_LAWS if law in reasons}

    def _taken_back(self) -> Iterator[tuple[str, str]]:
        if self.eviction == "legal":
            amount = ", and the amount" if self.granularity == "any" else ""
            yield "shortfall", f"in part: its choice of victims{amount} is its own"
        elif len(set(self.policies)) < 2:
            yield "shortfall", f"in part: policy {self.policies[0]} alone"
        if not self.keeps_prefixes:
            yield "content-cached", "it remembers nothing"
        if not self.namespaces:
            yield "admission-match", "in part: without namespaces"
        if self.page_sizes is not None:
            sizes = ", ".join(map(str, self.page_sizes))
            yield "request-accepts", f"in part: page sizes {sizes} alone"
        possible = _REFUSED if self.keeps_prefixes else _REFUSED[:-1]
        missing = [kind.value for kind in possible if kind not in self.refuses]
        partly = [f"never {', '.join(missing)}"] if missing else []
        if self.refusal_errors != "named":
            how = "the builtin" if self.refusal_errors == "builtin" else "any exception"
            partly.append(f"{how} will do")
        if partly:
            yield "request-refusals", f"in part: {'; '.join(partly)}"
        if not self.refused_calls_change_nothing:
            yield "request-refused-unchanged", "a refused step may leave traces"
        elif self.refused_begin == "match":
            yield "request-refused-unchanged", "in part: a refused begin matches"
        if self.granularity == "any":
            yield "request-structure", "its nodes are its own"


_REFUSED = (
    RefusalKind.VALUE,
    RefusalKind.NO_ROOM,
    RefusalKind.TOO_MANY,
    RefusalKind.ENDED,
    RefusalKind.IN_USE,
)
"""What a step of a request is refused for."""
