"""Tallies: written, read strictly, merged, and asked for what was missed."""

from __future__ import annotations

import copy
import json
from itertools import islice
from typing import Any

import msgspec
import pytest

from kvref.campaign import Totals, campaign, start_locally
from kvref.promises import Promises
from kvref.requests.promises import RequestPromises
from kvref.situations import tally as tally_module
from kvref.situations.counting import Counting
from kvref.situations.registry import SITUATIONS
from kvref.situations.tally import (
    SCHEMA,
    ManagerTally,
    RequestTally,
    SituationTally,
    TallyError,
    decode,
    encode,
    merge,
    missed,
    read,
    write,
)
from tests.kvref.situations.test_witnesses import ON_ORACLE


def tally_of(machine: str, seed: int, runs: int = 5, name: str = "here"):
    factory = ON_ORACLE[machine]
    counting = Counting(name, factory.promises)
    start = start_locally(factory, 10.0)
    list(islice(campaign(start, factory, seed, Totals(), counting=counting), runs))
    return counting.tally()


@pytest.fixture(scope="module")
def tallies():
    return [tally_of("manager", 1), tally_of("requests", 1)]


class TestFiles:
    def test_what_is_written_is_read(self, tallies, tmp_path):
        path = tmp_path / "report.json"
        write(path, tallies)
        assert read(path) == tallies
        assert [type(each) for each in read(path)] == [ManagerTally, RequestTally]
        assert [each.machine for each in read(path)] == ["manager", "requests"]
        assert list(tmp_path.iterdir()) == [path]

    def test_the_same_tallies_are_the_same_bytes(self, tallies):
        assert encode(tallies) == encode(decode(encode(tallies)))
        assert json.loads(encode(tallies))["schema"] == SCHEMA

    def test_ids_that_nobody_knows_any_more_are_kept(self, tallies):
        fields = json.loads(encode(tallies))
        fields["tallies"][0]["situations"]["of-old"] = {"met": 0}
        (manager, _) = decode(json.dumps(fields))
        assert manager.situations["of-old"] == SituationTally()

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda file: file.pop("schema"), "schema"),
            (lambda file: file.update(schema="kvref.situations/2"), "Invalid enum value"),
            (lambda file: file.update(more=1), "unknown field `more`"),
            (lambda file: file.update(tallies={}), "Expected `array`"),
            (lambda file: file["tallies"][0].update(machine="magic"), "Invalid value 'magic'"),
            (lambda file: file["tallies"][0].update(machine="requests"), "promises"),
            (lambda file: file["tallies"][0].update(runs=-1), ">= 0"),
            (lambda file: file["tallies"][0].update(runs=1.5), "Expected `int`"),
            (lambda file: file["tallies"][0].update(runs=True), "Expected `int`"),
            (lambda file: file["tallies"][0].update(runs=2**60), "<= "),
            (lambda file: file["tallies"][0].update(target="x" * 2000), "length <= 1000"),
            (lambda file: file["tallies"][0].update(situation={}), "unknown field `situation`"),
            (lambda file: file["tallies"][0]["accepted"].update({"<b>": 1}), "regex"),
            (lambda file: situation(file).update(met=3), "as often as all its operations"),
            (lambda file: situation(file).update(first="insert"), "first by one of its operations"),
            (lambda file: situation(file).update(first=""), "first by one of its operations"),
            (lambda file: situation(file).update(first="<i>"), "regex"),
            (
                lambda file: file["tallies"][0].update(accepted={}, refused={}),
                "situations were met, and there were no operations",
            ),
            (lambda file: situation(file)["shapes"].update({"x" * 99: 1}), "regex"),
        ],
    )
    def test_what_no_report_says_is_refused(self, tallies, change, words, tmp_path):
        file = json.loads(encode(tallies))
        change(file)
        path = tmp_path / "report.json"
        path.write_text(json.dumps(file))
        with pytest.raises(TallyError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path} is not a report of kvref: ")
        assert words in str(caught.value)

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"schema": "\xed\xa0\x80"}'],
        ids=["empty", "cut off", "null", "list", "binary", "deep", "surrogate"],
    )
    def test_what_is_no_report_at_all_is_refused(self, content, tmp_path):
        path = tmp_path / "report.json"
        path.write_bytes(content)
        with pytest.raises(TallyError, match="is not a report of kvref"):
            read(path)

    def test_a_file_that_is_not_there_or_too_large(self, tmp_path, monkeypatch):
        with pytest.raises(TallyError, match="cannot be read: No such file"):
            read(tmp_path / "none.json")
        with pytest.raises(TallyError, match="cannot be read: Is a directory"):
            read(tmp_path)
        monkeypatch.setattr(tally_module, "_LARGEST", 2**20)
        (tmp_path / "large.json").write_bytes(b" " * (2**20 + 1))
        with pytest.raises(TallyError, match="larger than 1 MiB"):
            read(tmp_path / "large.json")

    def test_every_cut_of_a_file_is_refused(self, tallies):
        data = encode(tallies)
        for length in range(0, len(data) - 1, 997):
            with pytest.raises(msgspec.MsgspecError):
                decode(data[:length])


def situation(file: dict[str, Any]) -> dict[str, Any]:
    return file["tallies"][0]["situations"]["match-finds-all"]


class TestMerge:
    @pytest.mark.parametrize("machine", ["manager", "requests"])
    def test_two_halves_are_the_whole(self, machine):
        factory = ON_ORACLE[machine]
        start, counting = start_locally(factory, 10.0), Counting("here", factory.promises)
        for seed in (1, 2):
            list(islice(campaign(start, factory, seed, Totals(), counting=counting), 5))
        assert merge([tally_of(machine, 1), tally_of(machine, 2)]) == counting.tally()

    def test_what_is_merged_stays_as_it_was(self, tallies):
        before = copy.deepcopy(tallies[0])
        merge([tallies[0], tallies[0]])
        assert tallies[0] == before

    def test_other_versions_are_listed_beside(self, tallies):
        other = copy.deepcopy(tallies[0])
        other.versions = {"kvref": ["0.0.1"], "python": tallies[0].versions["python"]}
        versions = merge([tallies[0], other]).versions
        assert versions["kvref"][1:] == ["0.0.1"]
        assert len(versions["python"]) == 1

    def test_of_two_targets_machines_or_promises_there_is_no_sum(self, tallies):
        manager = tallies[0]
        for other in (
            tallies[1], msgspec.structs.replace(manager, target="another"),
            msgspec.structs.replace(manager, promises=Promises(namespaces=False)),
        ):  # fmt: skip
            with pytest.raises(ValueError, match="not of one machine on one target"):
                merge([manager, other])
        with pytest.raises(ValueError, match="nothing to merge"):
            merge([])


class TestMissed:
    def test_what_was_never_met_is_named_in_order(self):
        nothing = Counting("here", Promises()).tally()
        assert missed(nothing) == [
            name for name, each in SITUATIONS.items() if each.machine == "manager"
        ]
        assert nothing.operations == 0
        of_requests = Counting("here", RequestPromises()).tally()
        assert "begin-evicts" in missed(of_requests)
        assert "evict-exactly" not in missed(of_requests)

    def test_what_the_promises_rule_out_is_not_missed(self):
        never = missed(Counting("here", Promises(namespaces=False)).tally())
        assert "namespace-hides-a-prefix" not in never
        assert "match-finds-all" in never

    def test_a_situation_that_is_not_required_is_not_missed(self, monkeypatch):
        name = "match-finds-all"
        spared = SITUATIONS[name].__class__(name, "match", "x", "y.", required=False)
        monkeypatch.setitem(SITUATIONS, name, spared)
        assert name not in missed(Counting("here", Promises()).tally())
