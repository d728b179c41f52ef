"""Configurations, promises and programs of requests."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import msgspec
import pytest

from kvref.configuration import Configuration
from kvref.refusals import OF_REQUESTS, RefusalKind
from kvref.requests.composer import RequestComposer
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.drawing import draw_configuration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.laws import REQUEST_LAWS
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    Store,
)
from kvref.requests.promises import RequestPromises
from kvref.targets.kvgpu_requests import naive_requests, radix_requests


class TestConfiguration:
    def test_it_is_one_of_the_manager_and_more(self):
        made = RequestConfiguration(page_size=4, num_pages=3)
        assert isinstance(made, Configuration)
        assert (made.num_slots, made.longest) == (12, 12)
        assert RequestConfiguration(max_len=5).longest == 5

    def test_it_survives_json(self):
        made = RequestConfiguration(dtype="int8", layout="PageFirst", max_len=3)
        assert msgspec.json.decode(msgspec.json.encode(made), type=RequestConfiguration) == made

    @pytest.mark.parametrize(
        "field",
        ["page_size", "max_requests", "max_len", "layers", "kv_heads", "head_dim"],
    )
    def test_no_size_is_below_one(self, field):
        with pytest.raises(ValueError, match="at least 1"):
            RequestConfiguration(**{field: 0})


LESS: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "page_sizes": ({"page_sizes": (1, 16)}, "request-accepts", "in part: page sizes 1, 16 alone"),
    "policies": ({"policies": ("lru",)}, "shortfall", "in part: policy lru alone"),
    "keeps_prefixes": ({"keeps_prefixes": False}, "content-cached", "it remembers nothing"),
    "eviction": ({"eviction": "legal"}, "shortfall", "in part: its choice of victims is its own"),
    "granularity": (
        {"granularity": "any", "eviction": "legal"}, "request-structure", "its nodes are its own",
    ),
    "namespaces": ({"namespaces": False}, "admission-match", "in part: without namespaces"),
    "refuses": (
        {"refuses": frozenset(RefusalKind) - {RefusalKind.ENDED}}, "request-refusals",
        "in part: never request-ended",
    ),
    "refusal_errors": (
        {"refusal_errors": "any"}, "request-refusals", "in part: any exception will do",
    ),
    "refused_calls_change_nothing": (
        {"refused_calls_change_nothing": False}, "request-refused-unchanged",
        "a refused step may leave traces",
    ),
    "refused_begin": (
        {"refused_begin": "match"}, "request-refused-unchanged", "in part: a refused begin matches",
    ),
    "checked_inserts": ({"checked_inserts": False}, None, ""),
}  # fmt: skip


class TestPromises:
    def test_the_whole_contract_leaves_nothing_out(self):
        assert RequestPromises().not_judged() == {}

    @pytest.mark.parametrize("field", RequestPromises.__struct_fields__)
    def test_whatever_is_taken_back_is_named_with_its_reason(self, field):
        promises, law, reason = LESS[field]
        found = RequestPromises(**promises).not_judged()
        assert set(found) <= set(REQUEST_LAWS)
        if law is None:
            assert found == {}  # the manager's own business
        else:
            assert found[law].startswith(reason)

    def test_reasons_for_one_law_are_all_named(self):
        none = RequestPromises(refuses=frozenset(), refusal_errors="builtin", keeps_prefixes=False)
        assert none.not_judged()["request-refusals"] == (
            "in part: never wrong-value, no-room, too-many-requests, request-ended; "
            "the builtin will do"
        )
        other = RequestPromises(eviction="legal", granularity="any").not_judged()
        assert other["shortfall"] == "in part: its choice of victims, and the amount is its own"

    def test_units_of_its_own_cannot_be_predicted(self):
        with pytest.raises(ValueError, match="cannot be predicted"):
            RequestPromises(granularity="any")

    @pytest.mark.parametrize("promises", [{"policies": ()}, {"page_sizes": ()}])
    def test_it_must_be_possible_to_build_one(self, promises):
        with pytest.raises(ValueError, match="at least one"):
            RequestPromises(**promises)

    def test_no_manager_by_itself_meets_what_only_requests_do(self):
        assert {kind.value for kind in OF_REQUESTS} == {
            "no-room", "too-many-requests", "request-ended"
        }  # fmt: skip


@pytest.mark.parametrize("factory", [radix_requests(), naive_requests], ids=["radix", "naive"])
def test_the_requests_of_kvgpu_are_clean(factory):
    for seed in range(40):
        judged(factory, seed)


@pytest.mark.parametrize("seed", range(6))
def test_a_program_runs_as_it_is_printed(seed):
    """It raises where something is refused that had not to be; it ends with the same requests."""
    judge = judged(radix_requests(), seed, least=20)
    exec(compile(judge.program(), "<program>", "exec"), names := {})
    running = {
        f"r{request.number}": (len(request.row), request.stored_len, request.cached_len)
        for request in judge.oracle.running()
    }
    assert running
    for name, lengths in running.items():
        request = names[name]
        assert (request.extended_len, request.stored_len, request.cached_len) == lengths


def judged(factory: Any, seed: int, least: int = 120) -> RequestJudge:
    """A run of 120 operations, or from `least` on as long as nothing runs."""
    random = Random(seed)
    configuration = draw_configuration(random, factory.promises)
    executor = LocalRequestExecutor(factory(configuration), None)
    judge = RequestJudge(executor, configuration, factory.promises, look_every=16)
    for operation in itertools.islice(RequestComposer(random, judge).program(), 120):
        assert judge.apply(operation) is None, str(judge.divergence)
        if judge.count >= least and judge.oracle.num_running:
            break
    assert judge.look() is None
    return judge


def test_operations_print_as_python():
    operations = (
        Begin((1, 2), "a", 3, "int32-strided"), Begin((1,)), Extend(0), Extend(0, 2, (5, 6)),
        Append(0, (7,)), Store(0), Commit(0), Finish(0), Abort(0), Preempt(0), Flush(),
    )  # fmt: skip
    assert [str(operation) for operation in operations] == [
        "requests.begin(ids([1, 2], dtype=torch.int32, stride=2), namespace='a', max_tokens=3)",
        "requests.begin(ids([1]))",
        "r0.extend(1)",
        "r0.extend(2)  # their values come late: [5, 6]",
        "r0.append([7])",
        "store(r0)",
        "r0.commit()",
        "r0.finish()",
        "r0.abort()",
        "r0.preempt()",
        "requests.flush()",
    ]
