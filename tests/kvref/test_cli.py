"""The command line: exit statuses, texts, files."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from kvref.campaign import Totals
from kvref.cli import fuzz as fuzz_command
from kvref.cli import progress, verdict
from kvref.cli.machines import Machine
from kvref.laws import LAWS
from tests.kvref import wrong_targets

ROOT = Path(__file__).parents[2]
SMALL = str(ROOT / "examples" / "traces" / "small.jsonl")
REGRESSION = str(ROOT / "tests" / "regressions" / "split-prefix-keeps-its-age.jsonl")
WRONG = "tests.kvref.wrong_targets:"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "strategies"))),
    "COLUMNS": "200",
}


class TestFuzz:
    def test_clean(self, kvref, tmp_path):
        text = kvref("fuzz", WRONG + "right", "--ops", "3000", "--seed", "4", status=0)
        assert text.startswith(f"target {WRONG}right, seed 4\n")
        assert "clean: no difference from the oracle" in text
        assert "every 256 operations" in text
        for law, sentence in LAWS.items():
            assert (f"{law}: {sentence}" in text) == (law != "legal-victims")
        assert list(tmp_path.iterdir()) == []

    def test_found_with_the_line_that_has_it_again_and_a_file(self, kvref, tmp_path):
        text = kvref("fuzz", WRONG + "ForgetsRecency", "--ops", "5000", "--seed", "3", status=1)
        assert "DIFFERENCE victims at operation" in text
        assert re.search(r"shrunk to [34] operations:\n    cache = RadixCacheManager\(", text)
        assert "\n    cache.evict(" in text
        assert "the program ends (" not in text
        assert re.search(r"found \d: victims at Evict \(\d\)", text)
        again = re.search(r"run again: kvref (fuzz .* --seed 3 --run \d+)\n", text).group(1)
        path = re.search(r"written to (.*\.jsonl),", text).group(1)
        assert (tmp_path / path).read_text().count("\n") > 3
        text_again = kvref(*again.split(), status=1)
        assert "1 runs" in text_again
        difference = re.search(r"(?s)DIFFERENCE.*?\n  run again", text).group()
        assert difference in text_again

    def test_a_file_that_cannot_be_written_ends_no_campaign(self, kvref, monkeypatch):
        def full(*_: object, **__: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr("kvref.cli.findings.write_failure", full)
        text = kvref(
            "fuzz", WRONG + "ForgetsRecency", "--seed", "3", "--max-failures", "2", status=1
        )
        assert text.count("NOT written: disk full") >= 3  # and of what was shrunk
        assert "found 2:" in text

    def test_it_stops_after_so_many_failures(self, kvref):
        arguments = ("fuzz", WRONG + "ForgetsRecency", "--seed", "3", "--ops", "100000")
        assert "found 1:" in kvref(*arguments, "--max-failures", "1", status=1)
        assert "found 4:" in kvref(*arguments, "--max-failures", "4", status=1)

    def test_each_failure_has_its_file_and_each_kind_its_full_report(self, kvref, tmp_path):
        text = kvref(
            "fuzz", WRONG + "SlotsAsTuple", "--seed", "1", "--out", "here", "--max-failures", "6",
            status=1,
        )  # fmt: skip
        assert "malformed-answer at Evict (" in text
        assert text.count("DIFFERENCE") == text.count("shrunk to 1 operation:") == 1
        assert text.count("once more:") == 5
        assert text.count("no shorter than the one above") == 5
        files = [path.name for path in (tmp_path / "here").glob("*.jsonl")]
        assert len(files) == 7
        assert sum(name.endswith("-shrunk.jsonl") for name in files) == 1

    def test_it_stops_after_so_much_time(self, kvref):
        assert "in 1 runs" in kvref("fuzz", WRONG + "right", "--seconds", "0", status=0)

    def test_without_a_limit_it_runs_twenty_seconds(self, kvref, monkeypatch):
        limits = []
        monkeypatch.setattr(fuzz_command, "fuzz", lambda _, limit, *__, **___: limits.append(limit))
        kvref("fuzz", status=0)
        kvref("fuzz", "--ops", "7", status=0)
        assert [(limit.seconds, limit.operations) for limit in limits] == [(20.0, None), (None, 7)]

    def test_without_a_seed_each_campaign_is_another(self, kvref):
        arguments = ("fuzz", WRONG + "right", "--seconds", "0")
        seeds = {re.search(r"seed (\d+)", kvref(*arguments, status=0)).group(1) for _ in range(3)}
        assert len(seeds) > 1

    def test_only_one_run(self, kvref):
        text = kvref("fuzz", WRONG + "right", "--seed", "4", "--run", "7", status=0)
        assert "seed 4, run 7" in text
        assert "in 1 runs" in text

    def test_the_line_that_has_a_failure_again_names_what_it_takes(self, kvref, tmp_path):
        text = kvref(
            "fuzz", WRONG + "Exits", "--isolate", "--no-shrink", "--time-limit", "2.5",
            "--look-every", "5", "--max-failures", "1", "--seed", "1", status=1,
        )  # fmt: skip
        assert re.search(r"--isolate --time-limit 2.5 --look-every 5 --seed 1 --run \d+\n", text)

    def test_how_often_it_looks_is_said(self, kvref):
        text = kvref("fuzz", WRONG + "right", "--ops", "1", "--look-every", "5", status=0)
        assert "every 5 operations" in text

    def test_a_hang(self, kvref):
        text = kvref(
            "fuzz", WRONG + "BusyLoop", "--time-limit", "0.1", "--max-failures", "1", "--seed", "1",
            status=1,
        )  # fmt: skip
        assert "hang at operation" in text
        assert "nothing within 0.1 s" in text

    def test_a_target_that_exits_with_success_is_a_finding(self, kvref):
        text = kvref("fuzz", WRONG + "SysExits", "--max-failures", "1", "--seed", "1", status=1)
        assert "the process ended: sys.exit(0)" in text

    def test_isolated_and_clean(self, kvref):
        kvref("fuzz", WRONG + "right", "--isolate", "--ops", "50", "--seed", "1", status=0)

    def test_isolated_a_crash_is_a_finding(self, kvref, tmp_path):
        text = kvref(
            "fuzz", WRONG + "Segfaults", "--isolate", "--no-shrink", "--max-failures", "2",
            "--seed", "1", "--out", str(tmp_path / "out"), status=1,
        )  # fmt: skip
        assert "the process ended: SIGSEGV" in text
        assert "found 2: crash" in text

    def test_promises_taken_back_are_in_the_verdict(self, kvref):
        text = kvref("fuzz", WRONG + "modest", "--ops", "2000", "--seed", "1", status=0)
        assert "handles: not judged, its handles are not values" in text
        assert re.search(r"refusals: .*\(in part: never stale-handle", text)
        assert re.search(r"[\d,]+ skipped", text)

    def test_a_run_of_refused_calls_says_nothing(self, kvref, monkeypatch):
        monkeypatch.setattr(verdict, "LEAST_ACCEPTED", 1.0)
        text = kvref("fuzz", WRONG + "right", "--ops", "300", "--seed", "4", status=1)
        assert re.search(r"not a meaningful run: only \d\d% of the operations were accepted", text)


class TestMisuse:
    @pytest.mark.parametrize("isolate", [(), ("--isolate",)])
    def test_a_target_that_cannot_be_built(self, kvref, isolate):
        text = kvref("fuzz", WRONG + "cannot_be_built", *isolate, status=2)
        assert "kvref fuzz: the target cannot be built with Configuration(" in text
        assert "ValueError: no such pool" in text

    def test_an_unknown_target(self, kvref):
        text = kvref("fuzz", "no-such-target", status=2)
        assert "kvref fuzz: no target named 'no-such-target'" in text

    def test_a_target_with_brackets_in_its_name(self, kvref):
        assert "'[red]:x'" in kvref("fuzz", "[red]:x", status=2)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ("--seconds 1 --ops 1", "--seconds and --ops exclude each other"),
            ("--ops 0", "'--ops'"),
            ("--ops many", "'--ops'"),
            ("--seconds -1", "'--seconds'"),
            ("--seed -1", "'--seed'"),
            ("--run -1", "'--run'"),
            ("--max-failures 0", "'--max-failures'"),
            ("--time-limit 0", "'--time-limit'"),
            ("--time-limit inf --isolate", "'--time-limit'"),
            ("--time-limit nan", "'--time-limit'"),
            ("--run 3 --seed 1 --ops 5", "--run is one run, whole"),
            ("--run 3 --seed 1 --seconds 5", "--run is one run, whole"),
            ("--run 3", "give its --seed"),
            ("--look-every 0", "'--look-every'"),
            ("--out pyproject.toml", "'--out'"),
            ("--no-such-option", "--no-such-option"),
            ("another", "another"),
        ],
    )
    def test_a_bad_option_is_named(self, kvref, options, words, tmp_path):
        (tmp_path / "pyproject.toml").touch()
        assert words in kvref("fuzz", WRONG + "right", *options.split(), status=2)

    def test_no_command_shows_the_help(self, kvref):
        assert "fuzz" in kvref(status=2)

    def test_the_help_names_the_exit_statuses(self, kvref):
        text = " ".join(kvref("--help", status=0).split())
        for words in ("0 clean, 1 a difference was found", "125 (replay, show)", "141 nobody read"):
            assert words in text

    def test_an_exception_that_nobody_caught_is_no_verdict(self, kvref, monkeypatch):
        def bug(*_: object, **__: object):
            raise EOFError("not of the target")

        monkeypatch.setattr("kvref.cli.fuzz.fuzz", bug)
        monkeypatch.setattr("kvref.cli.replay.replay", bug)
        for command, status in (("fuzz", 2), ("replay", 125)):
            text = kvref(command, "x", status=status)
            assert "kvref: this is a bug of kvref's own, and no verdict on the target" in text
            assert "EOFError: not of the target" in text

    def test_an_interrupt_anywhere_is_one(self, kvref, monkeypatch):
        def interrupted(*_: object, **__: object):
            raise KeyboardInterrupt

        monkeypatch.setattr("kvref.cli.report.report", interrupted)
        kvref("report", "x", status=130)


class TestTargets:
    @pytest.fixture
    def installed(self, tmp_path, monkeypatch):
        info = tmp_path / "forks-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: forks\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[kvref.targets]\nmy-fork = {WRONG}modest\nbroken-fork = no_such_module:factory\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))

    @pytest.mark.usefixtures("installed")
    def test_they_are_listed_with_what_they_do_not_promise(self, kvref):
        text = kvref("targets", status=0)
        assert re.search(rf"my-fork +{WRONG}modest +promises little", text)
        assert "not judged: handles (its handles are not values)" in text
        assert re.search(r"broken-fork +no_such_module:factory +not usable here: ", text)
        assert "Or name your own factory" in text

    def test_none(self, kvref, monkeypatch):
        monkeypatch.setattr("kvref.cli.targets.registered", dict)
        assert "No targets are registered" in kvref("targets", status=0)


class TestProgress:
    def show(self, terminal: bool, monkeypatch) -> str:
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=terminal, width=120)
        totals = Totals(operations=1234, judging_seconds=0.5, accepted=9, refused=1)
        monkeypatch.setattr(sys, "stdout", stream)
        machine = Machine("manager", wrong_targets.right, LAWS, 256, totals)
        now = iter((0.0, 0.1, 10.1, 10.2, 15.0, 20.3))
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
        with progress.Progress(console) as shown:
            for _ in range(5):
                shown.show(lambda elapsed: fuzz_command._line([machine], Counter(), elapsed))
        return stream.getvalue()

    def test_elsewhere_a_line_every_ten_seconds(self, monkeypatch):
        lines = self.show(False, monkeypatch).splitlines()
        assert lines == [
            "   10 s  manager 1,234 operations, 2,468/s, 90% accepted; 0 failures",
            "   20 s  manager 1,234 operations, 2,468/s, 90% accepted; 0 failures",
        ]

    def test_on_a_terminal_a_line_that_is_rewritten(self, monkeypatch):
        text = self.show(True, monkeypatch)
        assert "20 s  manager 1,234 operations" in text
        assert "\x1b[" in text


class TestAsAProcess:
    def start(self, *arguments: str, **options) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "kvref", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **options,
        )  # fmt: skip

    def test_the_exit_status_is_that_of_the_verdict(self, tmp_path):
        clean = self.start("fuzz", WRONG + "right", "--ops", "99", cwd=tmp_path)
        found = self.start(
            "fuzz",
            WRONG + "Segfaults",
            "--isolate",
            "--max-failures",
            "1",
            "--no-shrink",
            cwd=tmp_path,
        )
        misused = self.start("fuzz", "nothing", cwd=tmp_path)
        texts = [process.communicate(timeout=60) for process in (clean, found, misused)]
        assert [process.returncode for process in (clean, found, misused)] == [0, 1, 2], texts
        assert texts[2][0] == ""
        assert "no target named 'nothing'" in texts[2][1]

    def test_an_output_that_takes_no_more_is_no_verdict(self, tmp_path):
        kvref = [sys.executable, "-m", "kvref"]
        for command in (["replay", SMALL, "--requests", "3"], ["export", REGRESSION]):
            arguments = [*kvref, *command]
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    arguments, stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
                )
            assert done.returncode == 2
            assert done.stderr.startswith(b"kvref: the output cannot be written: [Errno 28]")
            read, write = os.pipe()
            os.close(read)
            done = subprocess.run(
                arguments, stdout=write, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
            )
            os.close(write)
            assert (done.returncode, done.stderr) == (141, b"")

    @pytest.mark.parametrize("isolate", [False, True])
    def test_ctrl_c_prints_what_was_clean(self, tmp_path, isolate):
        options = ("--isolate",) if isolate else ()
        process = self.start("fuzz", WRONG + "right", "--seconds", "60", *options, cwd=tmp_path)
        assert process.stdout.readline().startswith("target ")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(4.0 if isolate else 1.0)  # a busy machine starts a second process late
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert re.search(r"[1-9][\d,]* operations in", out)
        assert out.endswith("interrupted: clean so far\n")
        assert "no difference from the oracle" not in out
        assert err == ""
