"""The lists of situations and laws: whole, named once, and the same as in the documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvref.laws import LAWS
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.requests.laws import REQUEST_LAWS
from kvref.requests.promises import RequestPromises
from kvref.situations.laws import CONTRACT
from kvref.situations.manager_list import MANAGER_SITUATIONS
from kvref.situations.registry import (
    ACCEPTED,
    KINDS,
    SITUATIONS,
    bit,
    kind_bit,
    law_bit,
    mark_bit,
    names,
    ruled_out,
)
from kvref.situations.request_list import REQUEST_SITUATIONS
from kvref.targets.kvgpu import naive

DOCS = Path(__file__).parents[3] / "docs"


def test_no_id_is_there_twice():
    assert len(SITUATIONS) == len(MANAGER_SITUATIONS) + len(REQUEST_SITUATIONS)
    assert len(SITUATIONS) > 140
    assert not set(SITUATIONS) & set(CONTRACT)


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=lambda each: each.id)
def test_a_situation_says_what_it_is_and_why(situation):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", situation.id)
    assert not situation.sentence.endswith(".")
    assert situation.why.endswith(".")
    assert situation.machine in KINDS


def test_every_law_of_the_judges_is_in_the_contract_and_the_other_way_round():
    for machine, laws in (("manager", LAWS), ("requests", REQUEST_LAWS)):
        mine = [law for law in CONTRACT.values() if law.machine == machine]
        judged = {each for law in mine for each in law.judged_by}
        accepted = {f"accepted {kind}" for kind in KINDS[machine]}
        assert set(laws) <= judged <= set(laws) | accepted


def test_what_counts_together_is_told_apart_again():
    bits = bit("evict-exactly") | law_bit("sizes") | kind_bit("evict") | mark_bit(ACCEPTED)
    assert names(bits) == {
        "situation": ["evict-exactly"], "law": ["sizes"], "kind": ["evict"], "mark": ["accepted"],
    }  # fmt: skip
    assert names(0) == {"situation": [], "law": [], "kind": [], "mark": []}


class TestWhatPromisesRuleOut:
    def test_the_whole_contract_rules_out_nothing(self):
        for situation in SITUATIONS.values():
            promises = Promises() if situation.machine == "manager" else RequestPromises()
            assert ruled_out(situation.needs, promises) is None

    @pytest.mark.parametrize(
        ("taken_back", "name", "reason"),
        [
            (Promises(keeps_prefixes=False), "match-finds-all", "it remembers nothing"),
            (Promises(namespaces=False), "namespace-hides-a-prefix", "it has no namespaces"),
            (Promises(page_sizes=(1,)), "page-agrees-in-part", "its pages hold one token"),
            (Promises(policies=("lru",)), "evict-spares-what-is-new", "it has no policy fifo"),
            (Promises(policies=("fifo",)), "evict-spares-what-was-used", "it has no policy lru"),
            (Promises(checked_inserts=False), "insert-of-a-held-page", "it does not verify slots"),
            (Promises(eviction="legal"), "evict-past-a-locked-leaf",
             "its choice of victims is its own"),
            (Promises(granularity="page"), "evict-more-than-asked",
             "it does not evict whole nodes"),
            (Promises(refuses=frozenset({RefusalKind.TYPE})), "stale-after-evict",
             "it does not refuse stale-handle"),
            (RequestPromises(refuses=frozenset()), "begin-without-room",
             "it does not refuse no-room"),
        ],
    )  # fmt: skip
    def test_each_promise_taken_back_rules_out_what_needs_it(self, taken_back, name, reason):
        assert ruled_out(SITUATIONS[name].needs, taken_back) == reason

    def test_of_the_naive_manager_little_is_left(self):
        left = [
            each.id for each in MANAGER_SITUATIONS if ruled_out(each.needs, naive.promises) is None
        ]
        assert left == [
            "match-of-nothing", "match-of-less-than-a-page", "insert-of-no-page",
            "insert-with-part-of-a-page", "insert-of-different-lengths", "empty-handle",
            "not-a-handle", "evict-of-no-number", "evict-of-less-than-nothing", "reset-of-nothing",
        ]  # fmt: skip

    def test_a_need_that_nobody_knows_is_an_error(self):
        with pytest.raises(ValueError, match="to need 'wings'"):
            ruled_out(("wings",), Promises())


def test_every_situation_and_every_law_has_its_line_in_the_documents():
    page = (DOCS / "situations.md").read_text(encoding="utf-8")
    lines = [f"| `{each.id}` | {each.sentence} | {each.why} |" for each in SITUATIONS.values()]
    lines += [
        f"| `{law.id}` | {law.sentence} | {law.counts_when or 'each judgement'} |"
        for law in CONTRACT.values()
    ]
    for line in lines:
        assert line in page, f"docs/situations.md lacks the line:\n{line}"
    assert len(re.findall(r"^\| `", page, re.MULTILINE)) == len(lines)


def test_every_fault_that_a_situation_names_is_of_a_project_in_the_documents():
    page = (DOCS / "faults.md").read_text(encoding="utf-8")
    for situation in SITUATIONS.values():
        for letters in re.findall(r"\b([A-Z]{2,})-\w+", situation.why):
            assert f"| {letters} | " in page, situation.id
