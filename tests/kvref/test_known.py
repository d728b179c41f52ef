"""Known failures: what counts as the same, and the file they are in."""

from __future__ import annotations

import pytest

from kvref.configuration import Configuration
from kvref.divergence import Divergence, DivergenceKind
from kvref.known import Known, KnownFailures, add, fingerprint, load
from kvref.machine import Program
from kvref.manager_machine import MANAGER
from kvref.operations import Evict, Insert, Match
from kvref.traces.format import TraceError

DIVERGENCE = Divergence(DivergenceKind.VICTIMS, "victims", 2, Evict(1), "[0]", "[1]")


def known(tokens=(0, 1), slots=(0, 1), note="", divergence=DIVERGENCE, **configuration) -> Known:
    operations = (Insert(tokens, slots), Match(tokens[:1]), Evict(1))
    program = Program(operations, Configuration(**configuration))
    return fingerprint(MANAGER, program, divergence, note)


def test_names_and_notes_do_not_count():
    assert known().same(known((7, 3), (5, 2), "another note"))


@pytest.mark.parametrize(
    "other",
    [
        known((0, 0)),
        known((0, 1, 2), (0, 1, 2)),
        known(page_size=2),
        known(policy="fifo"),
        known(divergence=Divergence(DivergenceKind.SIZES, "victims", 2, Evict(1), "", "")),
        known(divergence=Divergence(DivergenceKind.VICTIMS, "legal-victims", 2, Evict(1), "", "")),
    ],
)
def test_all_else_does(other):
    assert not known().same(other)


def test_a_file_is_made_added_to_and_read(tmp_path):
    path = tmp_path / "new" / "known.jsonl"
    assert add(path, known(note="one"))
    assert add(path, known((0, 0), note="two"))
    assert not add(path, known((5, 6), note="three"))
    assert [each.note for each in load(path)] == ["one", "two"]
    assert all(map(Known.same, load(path), [known(), known((0, 0))]))
    assert len(path.read_text().splitlines()) == 2


def test_they_are_counted_and_those_that_did_not_occur_are_named():
    failures = KnownFailures([known(note="one"), known((0, 0), note="two")])
    assert failures.meet(known((0, 1, 2), (0, 1, 2))) is None
    assert failures.meet(known((4, 5))).note == "one"
    assert failures.meet(known((4, 5))).note == "one"
    assert [(each.note, count) for each, count in failures.met] == [("one", 2)]
    assert [each.note for each in failures.not_met] == ["two"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}\n", "missing required field"),
        ("x\n", "no JSON"),
        ('{"machine":"x","kind":"victims","law":"","configuration":{},"operations":[]}\n', "'x'"),
        ('{"machine":"manager","kind":"bad","law":"","configuration":{},"operations":[]}\n', "bad"),
        ('{"machine":"manager","kind":"victims","law":"","configuration":[],"operations":[]}\n',
         "Expected `object`"),
        ('{"machine":"manager","kind":"victims","law":"","configuration":{},"operations":[{}]}\n',
         "missing required field `do`"),
        ('{"machine":"manager","kind":"victims","law":"","a":1}\n', "unknown field `a`"),
        ("{}", "cut off"),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(tmp_path, text, reason):
    (tmp_path / "known.jsonl").write_text(text)
    with pytest.raises(TraceError, match=reason) as caught:
        load(tmp_path / "known.jsonl")
    assert caught.value.line == 1


def test_they_are_true_where_something_is_known():
    assert not KnownFailures([])
    assert KnownFailures([known()])


def test_what_other_processes_met_adds_up():
    failures = KnownFailures([known(note="one"), known((0, 0), note="two")])
    failures.meet(known())
    failures.add_counts({0: 2, 1: 1})
    failures.add_counts({0: 1})
    assert failures.counts() == {0: 4, 1: 1}
    assert failures.not_met == []
    assert failures.anew().counts() == {}
    assert failures.counts() == {0: 4, 1: 1}
