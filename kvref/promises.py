"""What a target says that it does: it is held to that, and what it rules out is said aloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from kvref.configuration import Policy
from kvref.laws import LAWS
from kvref.oracle import Granularity
from kvref.refusals import OF_REQUESTS, RefusalKind

__all__ = ["Promises"]


class Promises(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults are the whole contract; a target takes back what it does not promise.

    Fields:
        page_sizes: the page sizes it can be built with, or None for any.
        policies: the policies it can be built with.
        keeps_prefixes: False for a manager that remembers nothing.
        eviction: "exact": the least-wanted unlocked leaf goes, by the configuration's policy.
            "legal": which one goes is its own choice; the judge asks whether it was allowed.
        granularity: an eviction takes whole nodes, or single pages from the end of one, or
            ("any", with "legal" alone) some other unit, and then the amount is not judged.
        ordered_victims: evict and reset return the victims in the order in which they went.
        namespaces: `match_prefix` and `insert_prefix` know namespaces.
        refuses: the kinds of misuse that it refuses. The others are never tried on it.
        refusal_errors: how exactly: by the contract's classes and fields ("named"), by the
            builtin that each derives from ("builtin"), or by whatever exception ("any").
        refused_calls_change_nothing: as it says.
        value_handles: handles of one incarnation are equal and hashable, others are not equal.
        checked_inserts: has a mode that verifies the slots given to an insert.
        integrity: `check_integrity` finds damage and never raises on a healthy cache.
    """

    page_sizes: tuple[int, ...] | None = None
    policies: tuple[Policy, ...] = ("lru", "fifo")
    keeps_prefixes: bool = True
    eviction: Literal["exact", "legal"] = "exact"
    granularity: Granularity = "node"
    ordered_victims: bool = True
    namespaces: bool = True
    refuses: frozenset[RefusalKind] = frozenset(RefusalKind)
    refusal_errors: Literal["named", "builtin", "any"] = "named"
    refused_calls_change_nothing: bool = True
    value_handles: bool = True
    checked_inserts: bool = True
    integrity: bool = True

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
        return {law: "; ".join(reasons[law]) for law in LAWS if law in reasons}

    def _taken_back(self) -> Iterator[tuple[str, str]]:
        legal = self.eviction == "legal"
        if legal:
            yield "victims", "its choice of victims is its own: legal-victims is judged"
        else:
            yield "legal-victims", "victims, which says more, is judged"
        if legal and self.granularity == "any":
            yield "legal-victims", "in part: not whether it was more than needed"
        if not (self.ordered_victims or legal):
            yield "victims", "in part: in any order"
        if not self.ordered_victims or legal:
            yield "reset", "in part: in any order"
        if not self.keeps_prefixes:
            yield "match-slots", "in part: it remembers nothing, so there are none"
        if not self.namespaces:
            yield "match-length", "in part: without namespaces"
        if not self.refuses:
            yield "refusals", "it refuses nothing"
        else:
            kinds = (kind for kind in RefusalKind if kind not in OF_REQUESTS)
            missing = [kind.value for kind in kinds if kind not in self.refuses]
            partly = [f"never {', '.join(missing)}"] if missing else []
            if self.refusal_errors != "named":
                how = "the builtin" if self.refusal_errors == "builtin" else "any exception"
                partly.append(f"{how} will do")
            if not self.checked_inserts:
                partly.append("without checked inserts")
            if partly:
                yield "refusals", f"in part: {'; '.join(partly)}"
        if not self.refused_calls_change_nothing:
            yield "refused-unchanged", "a refused call may leave traces"
        if not self.value_handles:
            yield "handles", "its handles are not values"
        if self.granularity == "any":
            yield "structure", "its nodes are its own"
        if not self.integrity:
            yield "integrity", "it has no integrity check"
        if self.page_sizes is not None:
            yield "accepts", f"in part: page sizes {', '.join(map(str, self.page_sizes))} alone"
        if len(set(self.policies)) < 2 and not legal:
            yield "victims", f"in part: policy {self.policies[0]} alone"
