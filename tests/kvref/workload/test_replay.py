"""`kvref replay` and `kvref generate`: verdicts, bad input, and faults that only a replay meets."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvref.cli import shrink_latest
from kvref.cli.app import app
from kvref.machine import Program
from kvref.requests.configuration import RequestConfiguration
from kvref.targets.kvgpu_requests import radix_requests
from kvref.workload.generate import generate
from kvref.workload.latest import Latest
from kvref.workload.replay import Replay, Setup
from kvref.workload.schedule import Pace

SMALL = Path(__file__).parents[3] / "examples" / "traces" / "small.jsonl"
SHARED = Path(__file__).parents[4] / "shared" / "traces"


@pytest.fixture
def kvref(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments, status):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == status, result.output
        assert "Traceback" not in result.output
        return result.output

    return run


def setup(pool_tokens=20_000, page_size=16, check_every=500, **pace):
    configuration = RequestConfiguration(
        page_size=page_size,
        num_pages=pool_tokens // page_size,
        checked=False,
        max_requests=8,
        layers=2,
        kv_heads=2,
        dtype="bfloat16",
    )
    return Setup(
        configuration=configuration, check_every=check_every, pace=Pace(in_flight=8, **pace)
    )


def replayed(factory, trace, how):
    replay = Replay(factory, trace, how)
    for _ in replay.rounds():
        pass
    return replay


def test_a_made_up_trace_is_clean_and_its_contents_are_compared_at_each_match():
    trace = generate(40, 7)
    replay = replayed(radix_requests(), trace, setup(12_000, abort_share=0.1))
    judge, counts = replay.judge, replay.schedule.counts
    assert judge.divergence is None
    assert counts.ended == 40
    assert counts.aborted > 0
    assert counts.preempted > 0
    assert counts.evicted_pages > 0
    assert counts.hit_rate > 0.3
    assert judge.judged["content-cached"] >= 25
    assert judge.judged["content-running"] >= 1
    assert judge.judged["drained"] == 1
    assert judge.oracle.ledger.num_free == judge.configuration.num_pages


@pytest.mark.parametrize("page_size", [1, 3, 64])
def test_other_page_sizes_are_clean(page_size):
    replay = replayed(radix_requests(), generate(12, 3), setup(page_size=page_size))
    assert replay.judge.divergence is None
    assert replay.schedule.counts.finished >= 10


def test_one_row_that_is_overwritten_is_found_by_the_next_request_that_reads_it():
    trace = generate(40, 7)
    replay = Replay(radix_requests(), trace, setup(check_every=10**9))
    target = replay._executor._target
    for _ in replay.rounds():
        if replay.schedule.counts.finished == 5:
            target.kv_cache.v_cache(1).view(-1)[:: 16 * 16].fill_(3)
    assert replay.judge.divergence is not None
    assert replay.judge.divergence.law in ("content-cached", "content-running")


def test_naive_beside_radix_has_every_token_to_compute(kvref):
    radix = kvref("replay", SMALL, "--requests", 30, status=0)
    naive = kvref("replay", SMALL, "kvgpu-naive", "--requests", 30, status=0)
    total = sum(json.loads(line)["input_length"] for line in SMALL.read_text().splitlines()[:30])
    assert f"{total:,} prompt tokens: 0 found cached (0.0%)" in naive
    assert f"{total:,} to compute" in naive
    found = int(re.search(r"tokens: ([\d,]+) found", radix)[1].replace(",", ""))
    assert found > total // 3


def test_the_command_looks_at_everything_as_often_as_a_replay_does_by_itself(kvref):
    (default,) = [each.default for each in fields(Setup) if each.name == "check_every"]
    assert f"[default: {default}]" in kvref("replay", "--help", status=0)


def test_the_verdict_says_what_was_verified_and_how_often(kvref):
    text = kvref("replay", SMALL, "--requests", 20, "--check-every", 100, status=0)
    assert "20 of 20 requests" in text
    assert re.search(r" \d+ +content-cached: ", text)
    assert re.search(r" \d+ +content-running: ", text)
    assert "clean: every request read what was stored for it" in text
    assert "all 62,500 pages were free again" in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ""),
        (b"\x00\xff\x80" * 50, "line 1: "),
        (b'{"timestamp": 0, "input_le', "the file ends within this line"),
        (
            b'{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}\n',
            "2 blocks",
        ),
        (b'{"schema": "x"}\n', "missing required field `timestamp`"),
    ],
)
def test_bad_input_ends_with_file_line_and_reason(kvref, tmp_path, content, reason):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    text = kvref("replay", path, status=2)
    assert f"{path}" in text
    assert reason in text


def test_what_cannot_be_replayed_is_said(kvref, tmp_path):
    assert "No such file" in kvref("replay", tmp_path / "none.jsonl", status=2)
    assert "directory" in kvref("replay", tmp_path, status=2)
    assert "no target named" in kvref("replay", SMALL, "kvgpu-radixx", status=125)
    assert "cannot be imported" in kvref("replay", SMALL, "no.module:x", status=125)
    fifo = ("tests.kvref.wrong_targets:lru_only", "--policy", "fifo")
    assert "cannot be built so: policy fifo" in kvref("replay", SMALL, *fifo, status=125)
    for option in ("--step", "--isolate"):
        text = kvref("replay", SMALL, option, status=2)
        assert f"{option} is for a trace of operations, and {SMALL} is one of requests" in text
    assert "less than one page" in kvref(
        "replay", SMALL, "--pool-tokens", 3, "--page-size", 4, status=2
    )
    assert "too small to name" in kvref(
        "replay", SMALL, "--dim", 1, "--dtype", "float8_e5m2", status=2
    )


def test_where_no_request_ran_nothing_is_clean(kvref):
    text = kvref("replay", SMALL, "--requests", 5, "--pool-tokens", 16, status=1)
    assert "too little to say: no request ran, each is longer than the pool" in text
    assert "clean" not in text


def test_one_request_without_a_last_newline_is_a_whole_trace(kvref, tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_bytes(SMALL.read_bytes().splitlines()[0])
    assert "1 of 1 requests" in kvref("replay", path, status=0)


def test_a_trace_is_made_up_and_replayed(kvref, tmp_path):
    path = tmp_path / "made.jsonl"
    assert "25 requests written" in kvref("generate", path, "--requests", 25, "--seed", 3, status=0)
    assert "25 of 25 requests" in kvref("replay", path, status=0)
    assert "kvref generate: " in kvref("generate", path / "below a file", status=2)


@pytest.mark.parametrize("name", ["mooncake_conversation.jsonl", "mooncake_synthetic.jsonl"])
def test_the_beginning_of_a_production_trace_is_clean(kvref, name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} of the Mooncake project is not beside the repository")
    text = kvref("replay", path, "--requests", 25, "--check-every", 1000, status=0)
    assert "25 of 25 requests" in text


WRONG = "tests.kvref.requests.wrong_lives:"


def test_a_difference_is_shrunk_and_its_trace_fails_alike(kvref, tmp_path):
    out = tmp_path / "kept"
    text = kvref("replay", SMALL, WRONG + "leaks", "--pool-tokens", "20000", "--out", out, status=1)
    assert "the same command with the same options has it again" in text
    assert re.search(r"shrinking (all|the last) [\d,]+ operations", text)
    assert "shrunk to 2 operations:" in text
    assert re.search(r"\n    r0\.(abort|preempt)\(\)\n    free-pages at operation 1", text)
    (path,) = out.glob("*.jsonl")
    assert f"written to {path}, and as a program beside it (.py)" in text
    assert "free-pages at operation 1" in kvref("replay", path, WRONG + "leaks", status=1)
    assert re.search(r"\br0\.(abort|preempt)\(\)", path.with_suffix(".py").read_text())


def test_a_difference_that_takes_what_was_long_ago_says_so(kvref, tmp_path, monkeypatch):
    monkeypatch.setattr(Latest, "program", lambda *_: Program((), RequestConfiguration()))
    out = tmp_path / "kept"
    text = kvref("replay", SMALL, WRONG + "leaks", "--pool-tokens", "20000", "--out", out, status=1)
    assert "by themselves they do not show it" in text
    assert not out.exists()


def test_a_difference_whose_folder_cannot_be_made_is_shown_all_the_same(kvref, tmp_path):
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "kept"
    text = kvref("replay", SMALL, WRONG + "leaks", "--pool-tokens", "20000", "--out", out, status=1)
    assert "shrunk to 2 operations:" in text
    assert "NOT written: " in text


def test_a_shrinking_that_was_interrupted_at_once_keeps_nothing(kvref, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(shrink_latest, "shrink", interrupted)
    text = kvref("replay", SMALL, WRONG + "leaks", "--pool-tokens", "20000", status=1)
    assert "interrupted: nothing was kept" in text
