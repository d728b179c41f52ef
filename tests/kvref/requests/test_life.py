"""The reference life is right over right managers, and finds wrong ones."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import islice
from typing import Any

import pytest

from kvref.campaign import Totals, campaign, start_locally
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.life import ReferenceLife, life
from kvref.requests.target import RequestTargetFactory
from kvref.target import CannotBuild, TargetFactory
from kvref.targets.kvgpu import naive, radix, radix_factory
from tests.faults.manager_faults import MANAGER_FAULTS
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.test_legal_targets import MostRecentFirst
from tests.kvref.wrong_targets import ForgetsRecency, cannot_be_built, modest, right


def failures(factory: RequestTargetFactory, runs: int = 60) -> list[Any]:
    found = campaign(start_locally(factory, 10.0), factory, 2, Totals())
    return [failure for failure in islice(found, runs) if failure is not None]


@pytest.mark.parametrize(
    "factory",
    [right, modest, radix, naive, TargetFactory(OracleTarget, Promises(integrity=False))],
    ids=["oracle", "modest", "kvgpu-radix", "kvgpu-naive", "no integrity"],
)
def test_over_a_right_manager_nothing_differs(factory):
    assert failures(life(factory)) == []


def test_over_one_that_chooses_its_victims_itself_too():
    promises = Promises(eviction="legal", policies=("lru",))
    factory = TargetFactory(radix_factory(MostRecentFirst).build, promises)
    assert failures(life(factory)) == []
    assert failures(life(TargetFactory(factory.build, Promises(policies=("lru",))))) != []


def test_over_one_that_evicts_single_pages_too():
    promises = Promises(granularity="page")
    build = lambda configuration: OracleTarget(configuration, "page")  # noqa: E731
    assert failures(life(TargetFactory(build, promises))) == []


def test_a_manager_without_recency_is_found_though_seldom():
    """A request locks what it matched, and mostly inserts it again: the bare machine sees more."""
    assert failures(life(TargetFactory(ForgetsRecency)), 100) != []


@pytest.mark.parametrize(
    "name",
    [
        "keeps-the-callers-indices", "evicted-stays-in-the-index", "match-drops-the-namespace",
        "split-drops-the-lock-count", "locked-by-length-alone", "evicts-one-more",
    ],
)  # fmt: skip
def test_planted_faults_of_managers_are_found(name):
    assert failures(life(MANAGER_FAULTS[name].target), 150) != []


def test_it_promises_what_its_manager_does():
    promises = life(modest).promises
    assert promises.refuses == {
        RefusalKind.VALUE, RefusalKind.NO_ROOM, RefusalKind.TOO_MANY, RefusalKind.ENDED,
        RefusalKind.IN_USE,
    }  # fmt: skip
    assert promises.refused_begin == "match"
    assert RefusalKind.IN_USE not in life(naive).promises.refuses
    assert not life(naive).promises.keeps_prefixes


def test_what_its_manager_does_not_promise_it_does_not_either():
    modest = Promises(
        page_sizes=(2,), policies=("fifo",), keeps_prefixes=False, eviction="legal",
        granularity="page", namespaces=False, refusal_errors="builtin",
        refused_calls_change_nothing=False, checked_inserts=False,
    )  # fmt: skip
    promises = life(TargetFactory(OracleTarget, modest)).promises
    for name in (
        "page_sizes", "policies", "keeps_prefixes", "eviction", "granularity", "namespaces",
        "refusal_errors", "refused_calls_change_nothing", "checked_inserts",
    ):  # fmt: skip
        assert getattr(promises, name) == getattr(modest, name), name


def test_its_own_check_sees_a_page_in_two_places_and_one_in_none():
    made: Any = life(right).build(RequestConfiguration(num_pages=4))
    made.check()
    made.begin((1,), namespace=None, max_tokens=None, carried="int64")
    made.check()
    made.free.append(0)
    with pytest.raises(RuntimeError, match="free and owned"):
        made.check()
    made.free.pop()
    made.free.pop()
    with pytest.raises(RuntimeError, match="2 pages free, 1 owned, 0 slots cached: not the 4"):
        made.check()
    made.free.append(made.free[0])
    with pytest.raises(RuntimeError, match="free twice"):
        made.check()


def test_a_check_that_its_manager_does_not_promise_is_not_asked_for():
    class Unchecked(OracleTarget):
        def check_integrity(self) -> None:
            raise NotImplementedError

    for integrity in (True, False):
        factory = TargetFactory(Unchecked, Promises(integrity=integrity))
        made: Any = life(factory).build(RequestConfiguration())
        with nullcontext() if not integrity else pytest.raises(NotImplementedError):
            made.check()


def test_the_victims_are_those_of_the_latest_step():
    made: Any = life(right).build(RequestConfiguration(num_pages=2))
    first = made.begin((1, 2), namespace=None, max_tokens=None, carried="int64")
    made.store(first, [0, 1])
    made.finish(first)
    second = made.begin((3,), namespace=None, max_tokens=None, carried="int64")
    assert sorted(made.victims()) == [0, 1]
    made.abort(second)
    made.begin((4,), namespace=None, max_tokens=None, carried="int64")
    assert made.victims() == []


def test_its_fingerprint_is_of_the_cache_the_free_pages_and_each_request():
    made: Any = life(right).build(RequestConfiguration(num_pages=4))
    seen = [made.fingerprint()]
    request = made.begin((1,), namespace=None, max_tokens=None, carried="int64")
    for change in (
        lambda: None,
        lambda: made.append(request, [2]),
        lambda: made.store(request, [0]),
        lambda: made.free.reverse(),
        lambda: made.commit(request),
        lambda: request.row.reverse() or request.row.append(3),
    ):
        change()
        seen.append(made.fingerprint())
    assert len(set(seen)) == len(seen)


def test_what_cannot_be_looked_into_is_not():
    class Closed:
        def __init__(self, configuration: Any) -> None:
            self._inside = OracleTarget(configuration)

        def __getattr__(self, name: str) -> Any:
            if name in ("nodes", "fingerprint"):
                raise AttributeError(name)
            return getattr(self._inside, name)

    made = life(TargetFactory(Closed)).build(RequestConfiguration())
    assert type(made) is ReferenceLife
    assert failures(life(TargetFactory(Closed)), 20) == []


def test_what_cannot_be_built_says_so():
    with pytest.raises(CannotBuild, match="no such pool"):
        life(TargetFactory(cannot_be_built))(RequestConfiguration())
