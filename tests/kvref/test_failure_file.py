"""Failures on disk."""

from __future__ import annotations

import msgspec
import pytest

from kvref.campaign import Failure
from kvref.configuration import Configuration
from kvref.divergence import Divergence, DivergenceKind
from kvref.failure_file import SCHEMA, write
from kvref.operations import Evict, Insert, decode

FAILURE = Failure(
    seed=3, run=8,
    configuration=Configuration(page_size=2, num_pages=4, policy="fifo"),
    operations=(Insert((1, 2), (0, 1), "a"), Evict(1)),
    divergence=Divergence(DivergenceKind.VICTIMS, "victims", 1, Evict(1), "[0, 1]", "[]"),
    program="x = 1\n",
)  # fmt: skip


def test_a_header_the_operations_and_what_differed(tmp_path):
    path = write(tmp_path / "not" / "yet", "kvgpu-radix", FAILURE)
    header, *operations, last = path.read_bytes().splitlines()
    header = msgspec.json.decode(header)
    assert header.pop("python")
    assert header == {
        "schema": SCHEMA, "machine": "manager", "target": "kvgpu-radix", "seed": 3, "run": 8,
        "configuration": {"page_size": 2, "num_pages": 4, "policy": "fifo", "checked": True},
    }  # fmt: skip
    assert tuple(map(decode, operations)) == FAILURE.operations
    again = msgspec.convert(msgspec.json.decode(last)["divergence"], Divergence)
    assert again == FAILURE.divergence


def test_beside_it_lies_the_program_with_what_differed_in_comments(tmp_path):
    text = write(tmp_path, "t", FAILURE).with_suffix(".py").read_text()
    assert text.startswith("# victims at operation 1, cache.evict(1)\n#   expected: [0, 1]\n")
    assert text.endswith("\nx = 1\n")
    exec(compile(text, "<program>", "exec"), names := {})
    assert names["x"] == 1


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("kvgpu-radix", "kvgpu-radix-seed3-run8.jsonl"),
        ("my.fork:make", "my.fork-make-seed3-run8.jsonl"),
        ("../../etc:x y", "..-..-etc-x-y-seed3-run8.jsonl"),
    ],
)
def test_its_name_says_target_seed_and_run_and_stays_in_the_folder(tmp_path, target, name):
    assert write(tmp_path, target, FAILURE) == tmp_path / name


def test_the_same_failure_again_replaces_the_file_and_nothing_else_is_left(tmp_path):
    first = write(tmp_path, "t", FAILURE).read_bytes()
    assert write(tmp_path, "t", FAILURE).read_bytes() == first
    assert {path.suffix for path in tmp_path.iterdir()} == {".jsonl", ".py"}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_write_that_fails_leaves_the_earlier_file_whole(tmp_path, monkeypatch):
    path = write(tmp_path, "t", FAILURE)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path, "t", FAILURE)
    assert path.read_bytes() == before
