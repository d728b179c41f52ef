"""What a random program contains: a generator that never hits the cache finds nothing."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kvref.composer import Composer, drain, draw_configuration, fresh_pages, slots_for
from kvref.configuration import Configuration
from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.naive_oracle import NaiveOracle
from kvref.operations import FOREIGN, NOT_A_HANDLE, Evict, Insert, Lock, Match, Reset, Unlock
from kvref.oracle import Oracle
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from tests.kvref.oracle_target import OracleTarget


def run(seed: object, promises: Promises | None = None, configuration=None) -> Judge:
    """One whole program on a right target."""
    random, promises = Random(str(seed)), promises or Promises()
    configuration = configuration or draw_configuration(random, promises)
    target = OracleTarget(configuration, promises.granularity)
    judge = Judge(LocalExecutor(target, None), configuration, promises, look_every=10**6)
    for part in (Composer(random, judge).program(), drain(judge)):
        for operation in part:
            assert judge.apply(operation) is None, judge.divergence
    return judge


@pytest.fixture(scope="module")
def judges() -> list[Judge]:
    return [run(seed) for seed in range(150)]


def test_the_same_seed_gives_the_same_program(judges):
    again = run(7)
    assert again.operations == judges[7].operations
    assert again.configuration == judges[7].configuration
    assert judges[8].operations != again.operations


def test_all_operations_occur_and_most_are_accepted(judges):
    kinds = Counter(type(operation).__name__ for judge in judges for operation in judge.operations)
    assert set(kinds) == {"Match", "Insert", "Lock", "Unlock", "Evict", "Reset"}
    accepted = sum(judge.accepted for judge in judges)
    refused = sum(len(judge.refused) for judge in judges)
    assert 0.7 < accepted / (accepted + refused) < 0.98
    assert all(judge.skipped == [] for judge in judges)


def test_the_ends_leave_nothing_behind(judges):
    for judge in judges:
        assert judge.outstanding() == []
        assert judge.oracle.nodes() == []
        assert isinstance(judge.operations[-1], Evict)


def met(judges: list[Judge]) -> Counter[str]:
    """How often each telling situation came up, found by running the programs again."""
    seen: Counter[str] = Counter()
    for judge in judges:
        again = Judge(
            LocalExecutor(OracleTarget(judge.configuration), None), judge.configuration,
            look_every=10**6,
        )  # fmt: skip
        for operation in judge.operations:
            oracle, size = again.oracle, judge.configuration.page_size
            refused = len(again.refused)
            match operation:
                case Match(tokens, namespace, carried):
                    seen["hit"] += bool(oracle.cached_slots(tokens, namespace))
                    seen[f"carried {carried}"] += 1
                    seen[f"namespace {namespace}"] += 1
                    seen["part page"] += len(tokens) % size > 0
                    seen["wide token"] += any(abs(token) >= 2**31 for token in tokens)
                case Insert(tokens, slots, namespace):
                    own = oracle.cached_slots(tokens, namespace)
                    differs = tuple(slots[: len(own)]) != tuple(own)
                    seen["own slots"] += bool(own) and not differs
                    seen["duplicate"] += differs and len(tokens) == len(slots)
                    seen["lengths differ"] += len(tokens) != len(slots)
                case Lock(reference) | Unlock(reference):
                    unlock = "unlock" if isinstance(operation, Unlock) else "lock"
                    if isinstance(reference, str):
                        seen[f"{unlock} {reference}"] += 1
                    elif (page := again._handles[reference].page) is not None:
                        seen[f"{unlock} stale"] += not page.cached
                        seen["unlock too often"] += (
                            page.cached and unlock == "unlock" and page.own_locks == 0
                        )
                        seen["locked twice"] += unlock == "lock" and page.own_locks > 0
                case Evict(wanted) if type(wanted) is not int:
                    seen["junk size"] += 1
                case Evict(wanted):
                    seen["negative size"] += wanted < 0
                    seen["evict too much"] += wanted > oracle.evictable_size
                    seen["evict some"] += 0 < wanted < oracle.evictable_size
                    seen["evict nothing"] += wanted == 0
                    seen["evict while locked"] += wanted > 0 and oracle.protected_size > 0
                case Reset():
                    seen["reset while locked"] += oracle.protected_size > 0
                    seen["reset"] += oracle.evictable_size > 0 and oracle.protected_size == 0
            again.apply(operation)
            if isinstance(operation, Insert) and len(operation.tokens) == len(operation.slots):
                seen["wrong slots"] += len(again.refused) - refused
    return seen


def test_what_finds_faults_comes_up(judges):
    seen = met(judges)
    expected = [
        "hit", "part page", "wide token", "own slots", "duplicate", "lengths differ", "wrong slots",
        "lock stale", "unlock stale", "unlock too often", "locked twice", "junk size",
        "negative size", "evict too much", "evict some", "evict nothing", "evict while locked",
        "reset", "reset while locked", "namespace None", "namespace ", "namespace a",
        *(f"{call} {junk}" for call in ("lock", "unlock") for junk in (FOREIGN, NOT_A_HANDLE)),
        *(f"carried {form}" for form in ("int64", "int32", "int64-strided", "int32-strided")),
    ]  # fmt: skip
    assert [situation for situation in expected if seen[situation] < 5] == []
    matches = seen["namespace None"] + seen["namespace "] + seen["namespace a"]
    assert seen["hit"] > matches / 3


def test_configurations_vary_and_some_are_large(judges):
    drawn = [judge.configuration for judge in judges]
    assert {configuration.page_size for configuration in drawn} == {1, 2, 3, 4, 5, 16}
    assert {configuration.policy for configuration in drawn} == {"lru", "fifo"}
    assert {configuration.checked for configuration in drawn} == {True, False}
    large = [configuration for configuration in drawn if configuration.num_pages >= 50]
    assert 0 < len(large) < len(drawn) / 3


def test_what_a_target_does_not_promise_is_not_drawn():
    promises = Promises(
        page_sizes=(4,), policies=("fifo",), namespaces=False, checked_inserts=False,
        granularity="page", refuses=frozenset({RefusalKind.NOT_EVICTABLE}),
    )  # fmt: skip
    for seed in range(20):
        judge = run(seed, promises)
        configuration = judge.configuration
        assert (configuration.page_size, configuration.policy) == (4, "fifo")
        assert not configuration.checked
        assert {getattr(op, "namespace", None) for op in judge.operations} == {None}
        assert len(judge.skipped) < len(judge.operations) / 2


@pytest.mark.parametrize("num_pages", [1, 2, 3])
def test_the_smallest_pools_work(num_pages):
    for seed in range(10):
        run(seed, configuration=Configuration(page_size=1, num_pages=num_pages))


class TestDrain:
    def test_locks_first_and_then_everything(self):
        configuration = Configuration()
        judge = Judge(LocalExecutor(OracleTarget(configuration), None), configuration)
        insert = Insert((1, 2), (1, 2))
        for operation in (insert, Match((1, 2)), Lock(1), Lock(1), Match((1,)), Lock(4)):
            judge.apply(operation)
        ending = []
        for operation in drain(judge):
            ending.append(operation)
            judge.apply(operation)
        assert Counter(ending) == {Unlock(1): 2, Unlock(4): 1, Evict(2): 1}
        assert ending[-1] == Evict(2)
        assert judge.divergence is None


class TestFreshPages:
    def oracle(self) -> tuple[Oracle, Configuration]:
        configuration = Configuration(page_size=2, num_pages=6)
        oracle = Oracle(configuration)
        oracle.insert_prefix([1, 1, 2, 2], [0, 1, 6, 7])
        return oracle, configuration

    @pytest.mark.parametrize("seed", range(10))
    def test_distinct_pages_that_the_cache_does_not_hold(self, seed):
        below = Random(seed).randrange
        assert sorted(fresh_pages(*self.oracle(), 4, below)) == [2, 4, 8, 10]
        assert sorted(fresh_pages(*self.oracle(), 9, below)) == [2, 4, 8, 10]
        assert len(set(fresh_pages(*self.oracle(), 2, below))) == 2

    def test_none_are_wanted(self):
        assert fresh_pages(*self.oracle(), 0, Random(0).randrange) == []

    def test_own_slots_or_duplicates_as_told(self):
        oracle, configuration = self.oracle()
        tokens = (1, 1, 2, 2, 3)
        answers = iter([True, False])
        kept, slots = slots_for(
            oracle, configuration, tokens, None, lambda below: 0, lambda: next(answers)
        )
        assert kept == tokens
        assert slots[:2] == (0, 1)
        assert not {*slots[2:]} & {0, 1, 6, 7}
        assert slots[2] % 2 == 0
        assert slots[3] == slots[2] + 1

    def test_tokens_are_cut_to_what_is_free(self):
        oracle, configuration = self.oracle()
        kept, slots = slots_for(
            oracle, configuration, (9,) * 99, None, lambda below: 0, lambda: True
        )
        assert kept == (9,) * 8
        assert sorted(slots) == [2, 3, 4, 5, 8, 9, 10, 11]

    def test_a_manager_that_holds_nothing_has_every_page_free(self):
        configuration = Configuration(num_pages=4)
        pages = fresh_pages(NaiveOracle(configuration), configuration, 9, Random(0).randrange)
        assert sorted(pages) == [0, 1, 2, 3]
