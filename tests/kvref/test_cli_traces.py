"""The commands on traces: replay, shrink, known; and what a campaign does with its failures."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvref.campaign import Totals, campaign, start_locally
from kvref.cli import findings as findings_module
from kvref.cli import fuzz as fuzz_command
from kvref.cli import progress
from kvref.configuration import Configuration
from kvref.divergence import DivergenceKind
from kvref.machine import Program
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.operations import Evict, Insert, Lock, Match, Unlock
from kvref.promises import Promises
from kvref.registry import UnknownTarget, find
from kvref.target import TargetFactory
from kvref.testing.found import Found
from kvref.testing.items import check_trace
from kvref.traces.failures import record, write_failure
from kvref.traces.reader import read
from kvref.traces.writer import header_of, write_trace
from tests.kvref.test_cli import ENVIRONMENT, WRONG
from tests.kvref.wrong_targets import ForgetsRecency

FORGETS = WRONG + "ForgetsRecency"
MINIMAL = Program(
    (Insert((0, 0), (0, 1)), Insert((1,), (2,)), Match((0,)), Evict(2)),
    Configuration(num_pages=3),
)

FIFO = Program(
    (Insert((0,), (0,)), Insert((1,), (1,)), Match((0,)), Evict(1)), Configuration(policy="fifo")
)


def put(path: Path, program: Program = MINIMAL, target: str = FORGETS, **about) -> Path:
    """A trace of a failure on the target."""
    bench = ManagerBench(find(target), look_every=256)
    divergence = bench.run(program)
    assert divergence is not None
    name = about.pop("named", target)
    assert write_failure(path, MANAGER, bench, program, divergence, target=name, **about)
    return path


def stops_early(path: Path) -> Path:
    """The trace of a manager that trusts its caller, who gives it a page that it holds already."""
    program = Program(
        (Insert((0,), (0,)), Insert((1,), (0,)), Evict(1)),
        Configuration(num_pages=2, checked=False),
    )
    header = header_of(MANAGER, "kvgpu-radix", Promises(), program.configuration)
    write_trace(path, MANAGER, header, program)
    return path


@pytest.fixture
def long(tmp_path):
    """The trace of a campaign's failure, as long as it was found."""
    factory = find(FORGETS)
    runs = campaign(start_locally(factory, 10.0), factory, 3, Totals())
    failure = next(failure for failure in runs if failure is not None)
    assert len(failure.operations) > 20
    return put(tmp_path / "long.jsonl", Program(failure.operations, failure.configuration))


class TestReplay:
    def test_it_still_fails(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl", note="what it was")
        text = kvref("replay", str(path), FORGETS, status=1)
        assert f"4 operations on {FORGETS}\nnote: what it was\nDIFFERENCE victims" in text
        assert text.endswith("it still fails as recorded\n")

    def test_it_fails_no_more(self, kvref, tmp_path):
        text = kvref("replay", str(put(tmp_path / "a.jsonl")), WRONG + "right", status=0)
        assert (
            "first otherwise than recorded at operation 3, cache.evict(2): came back slots [1, 0], "
            "now slots [1, 2]"
        ) in text
        assert text.endswith("agrees: no difference from the oracle; recorded was victims\n")

    def test_it_fails_in_another_way(self, kvref, tmp_path):
        path = str(put(tmp_path / "a.jsonl"))
        text = kvref("replay", path, WRONG + "SlotsAsTuple", status=1)
        assert text.endswith("it fails, and otherwise than recorded: victims at operation 3\n")

    def test_a_trace_without_an_end(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl")
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
        assert kvref("replay", str(path), FORGETS, status=1).endswith("got:      [1, 0]\n")
        assert "agrees" in kvref("replay", str(path), WRONG + "right", status=0)

    def test_step_by_step(self, kvref, tmp_path):
        text = kvref("replay", str(put(tmp_path / "a.jsonl")), FORGETS, "--step", status=1)
        assert "   2  h2, indices = cache.match_prefix(ids([0]))" in text
        assert "[0] in slots [0]  locks 0  used 3  created 1" in text
        assert text.count("DIFFERENCE victims") == 2
        assert "\x1b[" not in text

    def test_isolated(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl")
        assert "as recorded" in kvref("replay", str(path), FORGETS, "--isolate", status=1)

    @pytest.mark.parametrize(
        ("target", "words"),
        [
            ("nothing", "no target named 'nothing'"),
            ("no.module:factory", "cannot be imported"),
            (WRONG + "cannot_be_built", "no such pool"),
            (WRONG + "lru_only", "cannot be built so: policy fifo"),
        ],
    )
    def test_what_cannot_be_tested_is_skipped_by_git_bisect(self, kvref, tmp_path, target, words):
        path = put(tmp_path / "a.jsonl", FIFO, WRONG + "EvictsNothing", named="x")
        assert words in kvref("replay", str(path), target, status=125)

    def test_a_trace_that_names_no_target(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl", named=None)
        assert "names no target; give one" in kvref("replay", str(path), status=2)
        kvref("replay", str(path), FORGETS, status=1)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "there is no request in it"),
            (b"hello\n", "JSON is malformed"),
            (b'{"timestamp":1}\n', "missing required field `input_length`"),
            (b'{"schema":"kvref.trace/9"}\n', "schema 'kvref.trace/9', where"),
            (b'{"schema":"kvref.trace/1"}\n', "missing required field"),
        ],
    )
    def test_a_file_that_cannot_be_read(self, kvref, tmp_path, content, words):
        (tmp_path / "a.jsonl").write_bytes(content)
        text = kvref("replay", "a.jsonl", status=2)
        assert text.startswith("kvref replay: a.jsonl")
        assert words in text

    def test_an_option_of_the_other_kind_is_not_passed_over(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl")
        text = kvref("replay", str(path), FORGETS, "--page-size", "16", status=2)
        assert "--page-size is for a trace of requests, and" in text

    def test_no_file(self, kvref):
        assert "No such file" in kvref("replay", "nowhere.jsonl", status=2)

    def test_it_never_agrees_when_it_stopped_in_the_middle(self, kvref, tmp_path):
        path = str(stops_early(tmp_path / "a.jsonl"))
        words = "ended before operation 1 of 3 (they count from 0), cache.insert_prefix(ids([1]), "
        for options in ((), ("--step",), ("--isolate",)):
            text = kvref("replay", path, WRONG + "right", *options, status=1)
            assert "not judged to its end: the run " + words in text
            assert "no difference from the oracle" not in text
        assert words in kvref("shrink", path, WRONG + "right", status=1)
        known = ("known", "add", "k.jsonl", path, "--target", WRONG + "right")
        assert words in kvref(*known, status=1)

    def test_as_a_test_it_fails_where_it_stopped(self, tmp_path):
        path = stops_early(tmp_path / "a.jsonl")
        with pytest.raises(Found, match=r"a\.jsonl on .*right: the run ended before operation 1"):
            check_trace(path, WRONG + "right")

    def test_text_of_the_file_cannot_command_the_terminal(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl", note="\x1b[2Jagrees\nagrees")
        text = path.read_text().replace("slots [1, 0]", "\\u001b[2J")
        path.write_text(text)
        text = kvref("replay", str(path), FORGETS, "--step", status=1)
        assert "note: \\x1b[2Jagrees\\nagrees\n" in text
        assert "came back \\x1b[2J, now" in text
        assert "\x1b" not in text
        named = put(tmp_path / "b.jsonl", named="\x1b[2J:x")
        assert "\x1b" not in kvref("replay", str(named), status=125)


class TestTheTargetThatAFileNames:
    """It is imported only where it is registered: a file may come from anybody."""

    @pytest.fixture
    def planted(self, tmp_path):
        """A module in the working directory, and a trace that names it."""
        (tmp_path / "planted.py").write_text("open('executed', 'w').close()\n")
        return str(put(tmp_path / "a b.jsonl", named="planted:factory"))

    @pytest.mark.parametrize(
        ("command", "words", "status"),
        [
            (("replay", "FILE"), "kvref replay FILE planted:factory", 125),
            (("replay", "FILE", "--step"), "kvref replay FILE planted:factory", 125),
            (("show", "FILE"), "kvref show FILE --target planted:factory", 125),
            (("shrink", "FILE"), "kvref shrink FILE planted:factory", 2),
            (
                ("known", "add", "k.jsonl", "FILE"),
                "kvref known add k.jsonl FILE --target planted:factory",
                2,
            ),
        ],
    )
    def test_no_command_imports_it_and_each_says_what_to_type(
        self, kvref, tmp_path, planted, command, words, status
    ):
        text = kvref(*(planted if part == "FILE" else part for part in command), status=status)
        assert "names the target 'planted:factory', which is not registered" in text
        assert words.replace("FILE", f"'{planted}'") in text
        assert not (tmp_path / "executed").exists()
        assert not (tmp_path / "k.jsonl").exists()

    def test_a_test_of_it_fails_and_says_what_to_type(self, tmp_path, planted, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UnknownTarget, match=r"--kv-target planted:factory"):
            check_trace(Path(planted))
        assert not (tmp_path / "executed").exists()

    def test_a_registered_name_is_used(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl", named="kvgpu-radix")
        assert "operations on kvgpu-radix" in kvref("replay", str(path), status=0)


class TestShrink:
    def test_a_long_trace_becomes_a_short_one(self, kvref, tmp_path, long):
        text = kvref("shrink", str(long), FORGETS, status=0)
        was = len(read(long).program.operations)
        assert re.match(rf"from {was} operations to [34], in \d+ tries and [\d.]+ s\n", text)
        assert "    cache = RadixCacheManager(" in text
        short = tmp_path / "long-shrunk.jsonl"
        assert f"written to {short}" in text
        assert len(read(short).program.operations) in (3, 4)
        assert "as recorded" in kvref("replay", str(short), FORGETS, status=1)
        assert short.with_suffix(".py").exists()

    def test_where_it_is_told_to(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl", note="keep this", seed=3, run=4)
        kvref("shrink", str(path), FORGETS, "-o", "b/c.jsonl", status=0)
        header = read(tmp_path / "b" / "c.jsonl").header
        assert (header.note, header.seed, header.run) == ("keep this", 3, 4)

    def test_neither_trace_nor_program_takes_the_place_of_its_input(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl")
        before = path.read_bytes()
        (tmp_path / "b.py").write_bytes(before)
        for file, out in (("a.jsonl", "a.jsonl"), ("a.jsonl", "./a.jsonl"), ("b.py", "b.jsonl")):
            words = kvref("shrink", file, FORGETS, "-o", out, status=2)
            assert "is the input itself; give another file with -o" in words
        assert path.read_bytes() == (tmp_path / "b.py").read_bytes() == before
        assert "is where the program goes" in kvref("shrink", "a.jsonl", "-o", "c.py", status=2)
        assert "is the input itself" in kvref("export", "a.jsonl", "-o", "a.jsonl", status=2)
        assert path.read_bytes() == before

    def test_with_too_little_time_the_best_so_far(self, kvref, long):
        assert "; not finished, the best so far" in kvref(
            "shrink", str(long), FORGETS, "--seconds", "0", status=0
        )

    def test_interrupted_the_best_so_far(self, kvref, long, monkeypatch):
        def interrupted(program):
            raise KeyboardInterrupt

        monkeypatch.setattr("kvref.manager_simplify.canonical", interrupted)
        text = kvref("shrink", str(long), FORGETS, status=130)
        assert "not finished" in text
        assert len(read(long.with_name("long-shrunk.jsonl")).program.operations) < 10

    def test_interrupted_before_there_was_anything(self, kvref, long, monkeypatch):
        def interrupted(*_: object, **__: object):
            raise KeyboardInterrupt

        monkeypatch.setattr("kvref.cli.shrink.shrink", interrupted)
        kvref("shrink", str(long), FORGETS, status=130)
        assert not long.with_name("long-shrunk.jsonl").exists()

    def test_nothing_to_shrink(self, kvref, long):
        text = kvref("shrink", str(long), WRONG + "right", status=1)
        assert "there is nothing to shrink" in text

    @pytest.mark.parametrize("target", ["nothing", WRONG + "cannot_be_built"])
    def test_no_such_target(self, kvref, long, target):
        assert kvref("shrink", str(long), target, status=2).startswith("kvref shrink: ")

    def test_a_target_that_promises_nothing_of_such_a_manager_is_named(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl", FIFO, WRONG + "EvictsNothing")
        words = "lru_only cannot be built so: policy fifo"
        assert words in kvref("shrink", str(path), WRONG + "lru_only", status=2)
        known = ("known", "add", "k.jsonl", str(path), "--target", WRONG + "lru_only")
        assert words in kvref(*known, status=2)

    def test_what_cannot_be_read_or_written(self, kvref, tmp_path, long):
        assert "No such file" in kvref("shrink", "nowhere", status=2)
        (tmp_path / "file").touch()
        kvref("shrink", str(long), FORGETS, "-o", "file/b.jsonl", status=2)
        nameless = put(tmp_path / "n.jsonl", named=None)
        assert "names no target" in kvref("shrink", str(nameless), status=2)

    def test_how_far_it_is_is_said(self, kvref, long, monkeypatch):
        times = itertools.count(0.0, 11.0)
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
        text = kvref("shrink", str(long), FORGETS, status=0)
        assert re.match(r" +11 s  \d+ operations left, 1 tries\n", text)


class TestFindings:
    def test_the_shortest_of_several_is_kept(self, kvref, tmp_path):
        text = kvref("fuzz", WRONG + "TwoWays", "--seed", "1", "--max-failures", "6", status=1)
        assert "shorter than before and kept instead" in text
        kept = list((tmp_path / "kvref-failures").glob("*-shrunk.jsonl"))
        assert len(kept) == 1
        assert f"replay it: kvref replay {kept[0].relative_to(tmp_path)} {WRONG}TwoWays" in text
        assert len(list((tmp_path / "kvref-failures").glob("*-shrunk.py"))) == 1
        trace = read(kept[0])
        assert trace.divergence is not None
        assert "as recorded" in kvref("replay", str(kept[0]), WRONG + "TwoWays", status=1)

    def test_not_shrunk_where_that_is_not_wanted(self, kvref, tmp_path):
        text = kvref("fuzz", FORGETS, "--seed", "3", "--no-shrink", status=1)
        assert "the program ends (" in text
        assert "shrunk" not in text
        command = re.search(r"replay it: kvref (replay .*)\n", text).group(1)
        assert "it still fails as recorded" in kvref(*command.split(), status=1)
        assert not list((tmp_path / "kvref-failures").glob("*-shrunk*"))

    def test_not_finished_in_time(self, kvref, monkeypatch):
        monkeypatch.setattr(findings_module.Shrinking.__init__, "__defaults__", (0.0,))
        text = kvref("fuzz", FORGETS, "--seed", "3", "--max-failures", "1", status=1)
        assert "(not finished: kvref shrink goes on):" in text

    def test_what_does_not_come_again_is_written_and_said(self, kvref, tmp_path):
        text = kvref("fuzz", WRONG + "Flaky", "--seed", "1", "--max-failures", "1", status=1)
        assert "IT DID NOT COME AGAIN" in text
        assert "the program ends (" in text
        (path,) = (tmp_path / "kvref-failures").glob("*.jsonl")
        assert {each.tree for each in read(path).records} == {None}

    def test_a_hang_is_shrunk_with_a_short_limit(self, kvref, tmp_path, monkeypatch):
        monkeypatch.setattr(fuzz_command, "_QUICK", 0.05)
        text = kvref(
            "fuzz", WRONG + "BusyLoop", "--time-limit", "0.3", "--max-failures", "1", "--seed",
            "1", status=1,
        )  # fmt: skip
        assert "shrunk to 1 operation:" in text
        (path,) = (tmp_path / "kvref-failures").glob("*-shrunk.jsonl")
        assert read(path).divergence.kind is DivergenceKind.HANG

    def test_what_was_only_slow_is_no_hang(self, kvref, monkeypatch):
        monkeypatch.setattr(fuzz_command, "_QUICK", 0.05)
        text = kvref(
            "fuzz", WRONG + "SlowThenHangs", "--time-limit", "0.4", "--max-failures", "1",
            "--seed", "1", status=1,
        )  # fmt: skip
        assert "hang at operation" in text
        assert "shrunk" not in text

    def test_an_interrupt_while_shrinking_ends_the_campaign_with_what_there_is(
        self, kvref, tmp_path, monkeypatch
    ):
        def interrupted(program):
            raise KeyboardInterrupt

        monkeypatch.setattr("kvref.manager_simplify.canonical", interrupted)
        text = kvref("fuzz", FORGETS, "--seed", "3", status=1)
        assert "found 1: victims" in text
        assert list((tmp_path / "kvref-failures").glob("*-shrunk.jsonl"))

    def test_live_leaves_nothing_when_all_went_well(self, kvref, tmp_path):
        kvref("fuzz", WRONG + "right", "--live", "--ops", "300", "--seed", "1", status=0)
        assert list((tmp_path / "kvref-failures").iterdir()) == []

    def test_live_without_a_place_for_its_file_runs_nothing(self, kvref, tmp_path):
        (tmp_path / "file").touch()
        arguments = ("fuzz", WRONG + "right", "--live", "--ops", "300", "--seed", "1")
        text = kvref(*arguments, "--out", "file/x", status=2)
        assert "kvref fuzz: --live: [Errno " in text
        assert "operations in" not in text

    def test_live_on_a_full_disk_ends_the_campaign(self, kvref, monkeypatch):
        count = iter(range(10**6))

        def full(self, line):
            if next(count) > 500:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr("kvref.traces.writer.TraceWriter._write", full)
        arguments = ("fuzz", WRONG + "right", "--live", "--ops", "3000", "--seed", "1")
        text = kvref(*arguments, status=2)
        assert "-live.jsonl cannot be written: [Errno 28] No space left on device" in text

    def test_live_leaves_the_trace_if_the_target_takes_kvref_with_it(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "kvref", "fuzz", WRONG + "Exits", "--live", "--seed", "1"],
            cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 7
        (path,) = (tmp_path / "kvref-failures").iterdir()
        trace = read(path)
        assert trace.divergence is None
        assert trace.program.operations[-1] == Evict(trace.program.operations[-1].size)
        assert (trace.header.seed, trace.records[-1].tree) == (1, None)


class TestKnown:
    def test_a_campaign_goes_past_them(self, kvref, tmp_path, long):
        text = kvref(
            "known", "add", "k.jsonl", str(long), "--target", FORGETS, "--note", "in hand", status=0
        )
        assert "victims in 4 operations added to k.jsonl" in text
        again = kvref("known", "add", "k.jsonl", str(long), "--target", FORGETS, status=0)
        assert "was already in" in again
        listed = kvref("known", "list", "k.jsonl", status=0)
        assert "victims: in hand\n" in listed
        assert '{"do":"evict","size":1}' in listed
        assert listed.endswith("1 known\n")
        seed = ("--seed", "3")
        failing = kvref("fuzz", FORGETS, *seed, "--max-failures", "1", status=1)
        run = re.search(r"--run (\d+)", failing).group(1)
        text = kvref("fuzz", FORGETS, *seed, "--run", run, "--known", "k.jsonl", status=0)
        assert "known, 1 times: victims, in hand" in text
        assert "clean: no difference from the oracle beside those that are known" in text

    def test_those_that_did_not_occur_are_said(self, kvref, tmp_path):
        path = put(tmp_path / "a.jsonl", note="its own note")
        kvref("known", "add", "k.jsonl", str(path), "--target", FORGETS, status=0)
        text = kvref(
            "fuzz", WRONG + "right", "--ops", "99", "--known", "k.jsonl", "--seed", "1", status=0
        )
        assert "known, and did not occur: victims, its own note" in text

    def test_what_cannot_be_added(self, kvref, tmp_path, monkeypatch):
        path = put(tmp_path / "a.jsonl", named="kvgpu-radix")
        assert "nothing was added" in kvref("known", "add", "k.jsonl", str(path), status=1)
        nameless = put(tmp_path / "b.jsonl", named=None)
        assert "names no target" in kvref("known", "add", "k.jsonl", str(nameless), status=2)
        assert "No such file" in kvref("known", "add", "k.jsonl", "nowhere", status=2)
        unknown = put(tmp_path / "c.jsonl", named="nothing")
        assert "no target named" in kvref("known", "add", "k.jsonl", str(unknown), status=2)

        def interrupted(program):
            raise KeyboardInterrupt

        monkeypatch.setattr("kvref.manager_simplify.canonical", interrupted)
        good = put(tmp_path / "d.jsonl")
        text = kvref("known", "add", "k.jsonl", str(good), "--target", FORGETS, status=130)
        assert "interrupted, so nothing was added" in text
        assert not (tmp_path / "k.jsonl").exists()

    def test_a_file_that_is_none(self, kvref, tmp_path):
        (tmp_path / "k.jsonl").write_text("hello\n")
        assert "k.jsonl, line 1: no JSON" in kvref("known", "list", "k.jsonl", status=2)
        assert "no JSON" in kvref("fuzz", FORGETS, "--known", "k.jsonl", status=2)
        assert "'--known'" in kvref("fuzz", FORGETS, "--known", "nowhere", status=2)
        (tmp_path / "k.jsonl").write_text("")
        text = kvref("fuzz", FORGETS, "--known", "k.jsonl", "--no-shrink", status=2)
        assert "--known compares what was shrunk" in text
        assert "0 known" in kvref("known", "list", "k.jsonl", status=0)


class TestRecords:
    def test_what_hung_or_died_is_not_made_to_again(self):
        asked = []

        class Counts(ForgetsRecency):
            def evict(self, size):
                asked.append(size)
                return super().evict(size)

        bench = ManagerBench(TargetFactory(Counts), look_every=1)
        divergence = bench.run(MINIMAL)
        asked.clear()
        gone = type(divergence)(
            DivergenceKind.CRASH, "answers-in-time", 3, divergence.operation, "", ""
        )
        assert len(record(bench, MINIMAL, gone, 1)) == 3
        assert asked == []
        assert len(record(bench, MINIMAL, divergence, 1)) == 4

    def test_the_program_goes_on_after_what_was_refused(self, tmp_path):
        program = Program(
            (Insert((0, 0), (0, 1)), Evict(9), Insert((1,), (2,)), Match((0,)), Lock(7), Lock(3),
             Unlock(3), Unlock(3), Evict(2)),
            Configuration(num_pages=3),
        )  # fmt: skip
        text = put(tmp_path / "a.jsonl", program).with_suffix(".py").read_text()
        assert "# Has to be refused: not-evictable (needed=9, evictable=2)." in text
        assert "promises nothing of it: cache.lock_handle(h7)\n" in text
        assert text.count("Has to be refused") == 2
        assert text.endswith("assert indices.tolist() == [1, 2]\n")
