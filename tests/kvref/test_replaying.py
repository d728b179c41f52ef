"""Where a replay first differs from the recording."""

from __future__ import annotations

from kvref.replaying import Replayed, first_difference
from kvref.traces.format import Record

RECORDED = [Record("e0", "g0", "t0"), Record("e1", "raised Odd: at 0x1", "t1"), Record("e2")]


def test_nothing():
    assert first_difference(RECORDED, RECORDED) is None
    assert first_difference(RECORDED, []) is None


def test_the_text_of_an_exception_does_not_count_but_its_class_does():
    again = [RECORDED[0], Record("e1", "raised Odd: at 0x2", "t1")]
    assert first_difference(RECORDED, again) is None
    other = [RECORDED[0], Record("e1", "raised Even: at 0x1", "t1")]
    assert first_difference(RECORDED, other) == (1, "came back raised Odd, now raised Even")


def test_what_was_not_recorded_does_not_count():
    assert first_difference(RECORDED, [*RECORDED[:2], Record("e2", "g", "t")]) is None


def test_the_first_one_is_named_with_both():
    assert first_difference(RECORDED, [Record("e0", "x", "t0"), Record("y", "z", "t")]) == (
        0, "came back g0, now x",
    )  # fmt: skip
    assert first_difference(RECORDED, [Record("x", "g0", "t0")]) == (0, "expected was e0, now x")
    assert first_difference(RECORDED, [Record("e0", "g0", None)]) == (
        0, "the oracle's tree was t0, now None",
    )  # fmt: skip


def test_what_did_not_run_to_its_end_does_not_agree():
    assert Replayed(None, None).agrees
    assert not Replayed(None, None, 3).agrees
