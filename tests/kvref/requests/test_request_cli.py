"""`kvref fuzz --machine`, and how a name becomes requests."""

from __future__ import annotations

import re
import sys

import msgspec
import pytest
from typer.testing import CliRunner

from kvref.cli.app import app
from kvref.divergence import DivergenceKind
from kvref.laws import LAWS
from kvref.registry import UnknownTarget, find, find_requests, load
from kvref.requests.laws import REQUEST_LAWS
from kvref.requests.target import RequestTargetFactory
from kvref.target import TargetFactory
from kvref.targets import kvgpu
from kvref.traces.reader import read
from tests.kvref import wrong_targets
from tests.kvref.requests import wrong_lives

BARE = "tests.kvref.wrong_targets:"
HERE = "tests.kvref.requests.wrong_lives:"
NOT_JUDGED = "whole requests were not judged: the target is a bare manager"


@pytest.fixture
def kvref(tmp_path, monkeypatch):
    """Runs a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: str, status: int) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == status, result.output
        return result.output

    return run


def titles(text: str) -> list[str]:
    return re.findall(r"^(manager|requests): [\d,]+ operations in", text, re.MULTILINE)


class TestChoice:
    def test_a_target_that_offers_both_is_judged_by_both(self, kvref):
        text = kvref("fuzz", "kvgpu-radix", "--ops", "3000", "--seed", "1", status=0)
        assert titles(text) == ["manager", "requests"]
        assert NOT_JUDGED not in text
        assert "every 256 operations" in text
        assert "every 64 operations" in text
        for law, sentence in (LAWS | REQUEST_LAWS).items():
            assert (f"{law}: {sentence}" in text) == (law != "legal-victims")
        assert text.endswith("clean: no difference from the oracle\n")

    def test_a_bare_manager_is_judged_alone_and_that_is_said(self, kvref):
        text = kvref("fuzz", BARE + "right", "--ops", "300", "--seed", "1", status=0)
        assert titles(text) == []
        assert NOT_JUDGED in text
        assert "token-left" not in text

    def test_asked_for_requests_it_gets_the_reference_life(self, kvref):
        arguments = ("fuzz", BARE + "right", "--ops", "300", "--seed", "1", "--machine")
        alone = kvref(*arguments, "requests", status=0)
        assert "token-left" in alone
        assert "match-length" not in alone
        assert "request-refused-unchanged: a refused step leaves no trace  (in part" in alone
        assert titles(kvref(*arguments, "both", status=0)) == ["manager", "requests"]
        assert NOT_JUDGED not in kvref(*arguments, "manager", status=0)

    def test_requests_alone_are_judged_alone(self, kvref):
        arguments = ("fuzz", HERE + "right", "--ops", "300", "--seed", "1")
        text = kvref(*arguments, status=0)
        assert "token-left" in text
        assert "match-length" not in text
        kvref(*arguments, "--machine", "requests", status=0)
        for machine in ("manager", "both"):
            text = kvref(*arguments, "--machine", machine, status=2)
            assert "runs whole requests alone" in text

    def test_both_get_about_the_same_time(self, kvref):
        text = kvref("fuzz", "kvgpu-radix", "--seconds", "1.5", status=0)
        one, other = map(float, re.findall(r"runs and ([\d.]+) s", text))
        assert abs(one - other) < 1.5

    def test_one_run_is_one_of_each(self, kvref):
        text = kvref("fuzz", "kvgpu-radix", "--seed", "1", "--run", "4", status=0)
        assert text.count("in 1 runs") == 2

    def test_how_often_it_looks_may_be_said_for_both(self, kvref):
        text = kvref("fuzz", "kvgpu-radix", "--ops", "10", "--look-every", "7", status=0)
        assert text.count("every 7 operations") == 2


class TestFailures:
    def test_the_line_that_has_it_again_names_the_machine(self, kvref, tmp_path):
        text = kvref(
            "fuzz", HERE + "leaks", "--machine", "requests", "--seed", "1", "--max-failures", "1",
            status=1,
        )  # fmt: skip
        assert "DIFFERENCE free-pages at operation" in text
        assert re.search(r"found 1: free-pages at (Abort|Preempt) \(1\)", text)
        again = re.search(r"run again: kvref (fuzz .* --machine requests --seed 1 .*)\n", text)
        assert again is not None
        assert "free-pages at operation" in kvref(*again.group(1).split(), status=1)

    def test_the_file_carries_its_machine(self, kvref, tmp_path):
        kvref("fuzz", HERE + "leaks", "--seed", "1", "--max-failures", "1", status=1)
        path, shrunk = sorted(
            tmp_path.glob("kvref-failures/*-requests-seed1-run*.jsonl"), key=lambda each: each.stem
        )
        assert shrunk.stem == f"{path.stem}-shrunk"
        assert len(read(shrunk).program.operations) == 2
        assert read(path).divergence.kind is DivergenceKind.FREE_PAGES
        header, first, *_ = map(msgspec.json.decode, path.read_bytes().splitlines())
        assert header["machine"] == "requests"
        assert header["configuration"]["max_requests"] >= 1
        assert first["operation"]["do"] == "begin"
        assert "RequestManager(" in path.with_suffix(".py").read_text()

    def test_with_both_each_failure_names_its_own(self, kvref):
        text = kvref(
            "fuzz", BARE + "SlotsAsTuple", "--machine", "both", "--seed", "3", "--ops", "4000",
            "--max-failures", "9", status=1,
        )  # fmt: skip
        assert re.search(r"--machine manager --seed 3 --run \d+", text)
        assert re.search(r"--machine requests --seed 3 --run \d+", text)
        assert re.search(r"found 9: .*malformed-answer at Evict", text)

    def test_isolated_an_end_of_the_process_is_a_finding(self, kvref):
        text = kvref(
            "fuzz", HERE + "exits", "--isolate", "--seed", "1", "--max-failures", "2", status=1
        )
        assert "the process ended: exit status 7" in text
        assert "found 2: crash at Commit (2)" in text

    def test_isolated_and_clean(self, kvref):
        kvref(
            "fuzz", BARE + "right", "--machine", "both", "--isolate", "--ops", "150", "--seed",
            "1", status=0,
        )  # fmt: skip


class TestNames:
    def test_a_target_may_come_with_its_requests(self):
        assert isinstance(find("kvgpu-radix"), TargetFactory)
        assert find_requests("kvgpu-radix") is kvgpu.radix.requests
        assert find_requests("kvgpu-naive") is kvgpu.naive.requests

    def test_a_bare_manager_gets_the_reference_life(self):
        found = find_requests(BARE + "modest")
        assert found.description == "the reference life of requests over: promises little"
        assert load(BARE + "modest") is wrong_targets.modest

    def test_requests_may_be_named_themselves(self):
        assert find_requests(HERE + "leaks") is load(HERE + "leaks") is wrong_lives.leaks
        assert isinstance(load(HERE + "leaks"), RequestTargetFactory)
        with pytest.raises(UnknownTarget, match="no bare manager"):
            find(HERE + "leaks")

    def test_what_a_target_offers_is_listed(self, kvref, tmp_path, monkeypatch):
        info = tmp_path / "forks-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: forks\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[kvref.targets]\nmine = {HERE}leaks\nbare = {BARE}modest\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        text = kvref("targets", status=0)
        assert re.search(r"mine .* leaks\s+whole requests alone\s", text)
        assert re.search(r"bare .* promises little\s+a bare manager\s", text)
        assert re.search(r"kvgpu-radix .* eviction\s+a manager, and whole requests\s", text)
