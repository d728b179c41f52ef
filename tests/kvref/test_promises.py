"""What a target may take back, and that it is said aloud."""

from __future__ import annotations

import pytest

from kvref.laws import LAWS
from kvref.promises import Promises
from kvref.refusals import RefusalKind


def unjudged(**promises) -> dict[str, str]:
    return Promises(**promises).not_judged()


def test_the_whole_contract_leaves_out_only_the_weaker_law_of_victims():
    assert unjudged() == {"legal-victims": "victims, which says more, is judged"}


LESS = {
    "page_sizes": ({"page_sizes": (1, 16)}, "accepts", "in part: page sizes 1, 16 alone"),
    "policies": ({"policies": ("fifo",)}, "victims", "in part: policy fifo alone"),
    "keeps_prefixes": ({"keeps_prefixes": False}, "match-slots", "in part: it remembers nothing"),
    "eviction": ({"eviction": "legal"}, "victims", "its choice of victims is its own"),
    "granularity": (
        {"eviction": "legal", "granularity": "any"}, "legal-victims", "in part: not whether it was"
    ),
    "ordered_victims": ({"ordered_victims": False}, "victims", "in part: in any order"),
    "namespaces": ({"namespaces": False}, "match-length", "in part: without namespaces"),
    "refuses": ({"refuses": frozenset()}, "refusals", "it refuses nothing"),
    "refusal_errors": ({"refusal_errors": "builtin"}, "refusals", "in part: the builtin will do"),
    "refused_calls_change_nothing": (
        {"refused_calls_change_nothing": False}, "refused-unchanged", "a refused call may leave"
    ),
    "value_handles": ({"value_handles": False}, "handles", "its handles are not values"),
    "checked_inserts": (
        {"checked_inserts": False}, "refusals", "in part: without checked inserts"
    ),
    "integrity": ({"integrity": False}, "integrity", "it has no integrity check"),
}  # fmt: skip


@pytest.mark.parametrize("field", Promises.__struct_fields__)
def test_whatever_is_taken_back_is_named_with_its_reason(field):
    promises, law, reason = LESS[field]
    found = unjudged(**promises)
    assert found[law].startswith(reason)
    assert set(found) <= set(LAWS)


def test_reasons_for_one_law_are_all_named():
    stale = frozenset(RefusalKind) - {RefusalKind.STALE, RefusalKind.TYPE}
    found = unjudged(refuses=stale, refusal_errors="any", checked_inserts=False)
    assert found["refusals"] == (
        "in part: never wrong-type, stale-handle; any exception will do; without checked inserts"
    )
    assert unjudged(ordered_victims=False, policies=("lru",))["victims"] == (
        "in part: in any order; in part: policy lru alone"
    )


def test_with_victims_of_its_own_choice_the_weaker_law_is_judged():
    found = unjudged(eviction="legal")
    assert "legal-victims" not in found
    assert found["reset"] == "in part: in any order"


def test_units_of_its_own_cannot_be_predicted():
    with pytest.raises(ValueError, match="cannot be predicted"):
        Promises(granularity="any")
    assert Promises(granularity="any", eviction="legal").granularity == "any"


@pytest.mark.parametrize("promises", [{"policies": ()}, {"page_sizes": ()}])
def test_it_must_be_possible_to_build_one(promises):
    with pytest.raises(ValueError, match="at least one"):
        Promises(**promises)
