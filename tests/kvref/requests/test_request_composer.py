"""Random programs of requests meet what real schedulers meet, and stumble over."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random
from typing import Any

import pytest

from kvref.campaign import REQUESTS_LOOK_EVERY, Totals, campaign, start_locally
from kvref.requests.composer import RequestComposer, drain
from kvref.requests.drawing import draw_configuration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.judge import RequestJudge
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
from kvref.requests.target import RequestTargetFactory
from tests.kvref.requests import wrong_lives
from tests.kvref.requests.wrong_lives import PROMISES, Life, right


def run(seed: int, seen: Counter[str]) -> RequestJudge:
    """One run, whose situations are counted."""
    random = Random(seed)
    configuration = draw_configuration(random, right.promises)
    executor = LocalRequestExecutor(right(configuration), None)
    judge = RequestJudge(executor, configuration, right.promises, look_every=10**9)
    for part in (RequestComposer(random, judge).program(), drain(judge)):
        for operation in part:
            before = _before(judge, operation)
            assert judge.apply(operation) is None
            seen.update(_situations(judge, operation, before))
    executor.close()
    seen["page size 1" if configuration.page_size == 1 else "page size above 1"] += 1
    return judge


def _before(judge: RequestJudge, operation: Any) -> dict[str, Any]:
    oracle = judge.oracle
    known: dict[str, Any] = {"running": oracle.running(), "room": sum(oracle.room())}
    if isinstance(operation, Begin):
        matched = oracle.cache.walk(operation.tokens[:-1], operation.namespace)
        known["room"] = sum(oracle.room(matched))
    request = oracle.requests.get(getattr(operation, "request", -1))
    if request is not None:
        known.update(
            request=request, slots=len(request.row), stored=request.stored_len,
            cached=request.cached_len, known=len(request.tokens), ended=not request.running,
            pending=len(judge.sequences.get(request.number, ())) - len(request.tokens),
        )  # fmt: skip
    return known


def _situations(judge: RequestJudge, operation: Any, before: dict[str, Any]) -> set[str]:
    oracle, outcome, size = judge.oracle, judge.outcome, judge.configuration.page_size
    refused = outcome.refused.kind.value if outcome.refused else None
    name = type(operation).__name__.lower()
    found = {f"{name}, {refused}" if refused else name}
    if refused:
        needed = outcome.refused.fields.get("needed", 0)
        if needed == before["room"] + 1:
            found.add(f"{name} a page too large")
        if isinstance(operation, Begin) and not operation.tokens:
            found.add("an empty prompt")
        return found
    if isinstance(operation, Begin):
        equal = [r for r in before["running"] if tuple(r.tokens) == operation.tokens]
        unstored = [r for r in oracle.running() if r.stored_len < len(r.row)]
        found |= {
            "begin that matches" if outcome.matched else "begin that matches nothing",
            "equal prompts in flight" if equal else "",
            "several begins before a store" if len(unstored) > 2 else "",
            "begin of a chunk" if operation.max_tokens else "",
            "begin in a namespace" if operation.namespace is not None else "",
            "a whole prompt is cached" if outcome.matched == len(operation.tokens) - 1 else "",
        }
    if outcome.needed:
        found.add(f"{name} that just fits" if outcome.needed == before["room"] else "")
        found.add(f"{name} that evicts" if outcome.evicted else "")
    if isinstance(operation, Extend):
        across = before["slots"] % size + operation.count > size
        found.add("extend across a page's end" if across else "")
        found.add("extend ahead" if operation.ahead else "")
        found.add("extend by a chunk" if not operation.ahead and operation.count > 1 else "")
    if isinstance(operation, Append):
        found.add("append late" if before["pending"] else "")
        found.add("append of nothing" if not operation.tokens else "")
        found.add("append before there are slots" if before["known"] >= before["slots"] else "")
    if isinstance(operation, Store):
        found.add("store of what is unknown" if before["slots"] > before["known"] else "")
        found.add("store of nothing" if before["slots"] == before["stored"] else "")
    if isinstance(operation, Commit):
        found.add("commit of an unfinished prompt" if before["known"] > before["slots"] else "")
        found.add("commit with results pending" if before["pending"] else "")
        found.add("commit again" if before["cached"] else "")
    if isinstance(operation, Finish | Abort | Preempt):
        stages = {
            "before a store": before["stored"] == before["cached"] < before["slots"],
            "with results pending": before["pending"] > 0,
            "stored in part": before["cached"] < before["stored"] < before["slots"],
            "in a prompt": before["known"] > before["slots"],
            "after a commit": before["cached"] > 0,
        }
        found |= {f"{name} {stage}" for stage, is_it in stages.items() if is_it}
    return found - {""}


WANTED = [
    "page size 1", "page size above 1",
    "begin that matches", "begin that matches nothing", "a whole prompt is cached",
    "equal prompts in flight", "several begins before a store", "begin of a chunk",
    "begin in a namespace", "begin that just fits", "begin a page too large", "begin that evicts",
    "begin, no-room", "begin, too-many-requests", "begin, wrong-value", "an empty prompt",
    "extend across a page's end", "extend ahead", "extend by a chunk", "extend that just fits",
    "extend a page too large", "extend that evicts", "extend, no-room", "extend, wrong-value",
    "append late", "append of nothing", "append before there are slots",
    "store of what is unknown", "store of nothing",
    "commit of an unfinished prompt", "commit with results pending", "commit again",
    *(
        f"{end} {stage}"
        for end in ("finish", "abort", "preempt")
        for stage in (
            "before a store", "with results pending", "stored in part", "in a prompt",
            "after a commit",
        )
    ),
    "flush", "flush, in-use",
    *(
        f"{step}, request-ended"
        for step in ("extend", "append", "store", "commit", "finish", "abort", "preempt")
    ),
]  # fmt: skip


def test_every_situation_is_met():
    seen: Counter[str] = Counter()
    judges = [run(seed, seen) for seed in range(150)]
    missing = {name: seen[name] for name in WANTED if seen[name] < 3}
    assert missing == {}
    accepted = sum(judge.accepted for judge in judges)
    assert accepted > 0.8 * sum(judge.count for judge in judges)
    assert not any(judge.skipped for judge in judges)
    assert all(judge.judged["drained"] for judge in judges)


def test_prompts_that_were_refused_or_preempted_are_begun_again():
    judge = run(3, Counter())
    begun = Counter(op.tokens for op in judge.operations if isinstance(op, Begin))
    assert any(count > 1 for count in begun.values())


def test_the_same_seed_makes_the_same_program():
    one, other = run(5, Counter()).operations, run(5, Counter()).operations
    assert one == other != run(6, Counter()).operations


def test_a_configuration_keeps_to_the_promises():
    promises = RequestPromises(page_sizes=(4,), policies=("fifo",), checked_inserts=False)
    drawn = [draw_configuration(Random(seed), promises) for seed in range(50)]
    assert {each.page_size for each in drawn} == {4}
    assert {each.policy for each in drawn} == {"fifo"}
    assert {each.checked for each in drawn} == {False}
    assert len({each.dtype for each in drawn}) == 7


def test_without_namespaces_none_is_named():
    random = Random(0)
    promises = RequestPromises(namespaces=False)
    for _ in range(10):
        configuration = draw_configuration(random, promises)
        executor = LocalRequestExecutor(Life(configuration), None)
        judge = RequestJudge(executor, configuration, PROMISES, look_every=10**9)
        judge.promises = promises
        composer = RequestComposer(random, judge)
        judge.promises = PROMISES
        for operation in composer.program():
            assert judge.apply(operation) is None
            assert getattr(operation, "namespace", None) is None


FAULTS = {
    name: fault
    for name, fault in vars(wrong_lives).items()
    if isinstance(fault, type)
    and issubclass(fault, Life)
    and fault is not Life
    and name not in ("Exits", "Hangs")
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_campaign_finds_each_fault(name):
    factory = RequestTargetFactory(FAULTS[name], PROMISES)
    runs = campaign(
        start_locally(factory, 10.0), factory, 1, Totals(), look_every=REQUESTS_LOOK_EVERY
    )
    failure = next((failure for failure in islice(runs, 150) if failure is not None), None)
    assert failure is not None
    assert failure.machine == "requests"
    assert failure.operations[-1] == failure.divergence.operation


def test_a_campaign_of_requests_can_be_had_again():
    factory = wrong_lives.leaks
    start = start_locally(factory, 10.0)
    one, other = (list(islice(campaign(start, factory, 7, Totals()), 12)) for _ in range(2))
    assert one == other
    failure = next(each for each in one if each is not None)
    (again,) = islice(campaign(start, factory, 7, Totals(), first_run=failure.run), 1)
    assert again == failure


def test_flushing_is_not_the_rule():
    judge = run(1, Counter())
    flushes = sum(isinstance(operation, Flush) for operation in judge.operations)
    assert flushes < len(judge.operations) / 5
