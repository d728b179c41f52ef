"""What a target may take back, and that it is said aloud."""

from __future__ import annotations

import pytest

from kvref.laws import LAWS
from kvref.promises import Promises
from kvref.refusals import RefusalKind


def unjudged(**promises) -> dict[str, str]:
    return dict(Promises(**promises).not_judged())


def test_the_whole_contract_leaves_out_only_the_weaker_law_of_victims():
    assert unjudged() == {"legal-victims": "the stricter law of victims is judged"}


@pytest.mark.parametrize(
    ("promises", "law", "reason"),
    [
        ({"eviction": "legal"}, "victims", "its choice of victims is its own"),
        ({"value_handles": False}, "handles", "its handles are not values"),
        ({"integrity": False}, "integrity", "it has no integrity check"),
        ({"refused_calls_change_nothing": False}, "refused-unchanged",
         "a refused call may leave traces"),
        ({"refuses": frozenset()}, "refusals", "it refuses nothing"),
        ({"refuses": frozenset(RefusalKind) - {RefusalKind.STALE, RefusalKind.TYPE}}, "refusals",
         "not promised: wrong-type, stale-handle"),
    ],
)  # fmt: skip
def test_what_is_taken_back_is_named_with_its_reason(promises, law, reason):
    found = unjudged(**promises)
    assert found[law] == reason
    assert set(found) <= set(LAWS)


def test_with_victims_of_its_own_choice_the_weaker_law_is_judged():
    assert "legal-victims" not in unjudged(eviction="legal")


def test_units_of_its_own_cannot_be_predicted():
    with pytest.raises(ValueError, match="cannot be predicted"):
        Promises(granularity="any")
    assert Promises(granularity="any", eviction="legal").granularity == "any"


@pytest.mark.parametrize("promises", [{"policies": ()}, {"page_sizes": ()}])
def test_it_must_be_possible_to_build_one(promises):
    with pytest.raises(ValueError, match="at least one"):
        Promises(**promises)
