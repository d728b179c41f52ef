"""Traces of requests: what is read, and what is refused with file, line and reason."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvref.workload import mooncake
from kvref.workload.mooncake import TracedRequest, UnreadableTrace, read_requests

GOOD = {"timestamp": 5, "input_length": 600, "output_length": 7, "hash_ids": [3, 4]}


def written(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trace.jsonl"


def test_a_line_is_one_request(file):
    assert read_requests(written(file, GOOD)) == [
        TracedRequest(timestamp=5, input_length=600, output_length=7, hash_ids=(3, 4))
    ]


def test_fields_that_others_add_are_passed_over(file):
    assert len(read_requests(written(file, GOOD | {"session": "a"}))) == 1


def test_requests_come_in_the_order_of_arrival_and_equal_times_in_that_of_the_file(file):
    lines = [GOOD | {"timestamp": at, "output_length": n} for n, at in enumerate((9, 2, 9, 0))]
    order = [request.output_length for request in read_requests(written(file, *lines))]
    assert order == [3, 1, 0, 2]


def test_a_limit_reads_no_further_than_it_says(file):
    assert len(read_requests(written(file, GOOD, GOOD, "no json"), limit=2)) == 2


def test_another_block_size_counts_other_blocks(file):
    trace = written(file, GOOD | {"hash_ids": list(range(38))})
    assert read_requests(trace, block_tokens=16)[0].hash_ids == tuple(range(38))


def test_a_file_without_a_last_newline_is_whole(file):
    file.write_text(json.dumps(GOOD))
    assert len(read_requests(file)) == 1


def without(name):
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((without(name), name) for name in GOOD),
        (GOOD | {"timestamp": -1}, "timestamp"),
        (GOOD | {"timestamp": 2e15}, "timestamp"),
        (GOOD | {"input_length": 0}, "input_length"),
        (GOOD | {"input_length": -600}, "input_length"),
        (GOOD | {"input_length": 600.5}, "input_length"),
        (GOOD | {"input_length": 10**30}, "input_length"),
        (GOOD | {"output_length": -1}, "output_length"),
        (GOOD | {"output_length": True}, "output_length"),
        (GOOD | {"hash_ids": [1, -2]}, "hash_ids"),
        (GOOD | {"hash_ids": ["a", "b"]}, "hash_ids"),
        (GOOD | {"hash_ids": None}, "hash_ids"),
        (GOOD | {"hash_ids": [1]}, "is 2 blocks of 512 tokens, and `hash_ids` names 1"),
        (GOOD | {"hash_ids": [1, 2, 3]}, "names 3"),
        ([1, 2], "object"),
        ("", "an empty line"),
        ("timestamp,input_length", "malformed"),
        ('{"timestamp": NaN}', "malformed"),
        ("[" * 100_000, ""),
        (json.dumps(GOOD)[:-1] + ', "x": ' + "[" * 10**5 + "]" * 10**5 + "}", "recursion"),
        ('{"timestamp": 1e400, "input_length": 1}', ""),
        ('{"timestamp": 0, "input_le', "the file ends within this line"),
    ],
)
def test_a_bad_line_is_refused_with_file_line_and_reason(file, line, reason):
    written(file, GOOD, line)
    if reason == "the file ends within this line":
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UnreadableTrace) as caught:
        read_requests(file)
    assert (caught.value.path, caught.value.line) == (file, 2)
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"{file}, line 2: ")


def test_an_empty_file_a_folder_and_a_missing_one_are_refused(file, tmp_path):
    file.touch()
    for path, reason in (
        (file, "no request"),
        (tmp_path, "directory"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(UnreadableTrace, match=reason) as caught:
            read_requests(path)
        assert caught.value.line is None


def test_a_line_without_an_end_is_not_read_into_memory(file, monkeypatch):
    monkeypatch.setattr(mooncake, "_LONGEST_LINE", 100)
    file.write_bytes(b" " * 1000)
    with pytest.raises(UnreadableTrace, match="longer than 100 bytes"):
        read_requests(file)


def test_a_line_may_be_as_long_as_the_bound_with_its_end(file, monkeypatch):
    written(file, GOOD, GOOD)
    monkeypatch.setattr(mooncake, "_LONGEST_LINE", len(json.dumps(GOOD)) + 1)
    assert len(read_requests(file)) == 2


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_the_bytes_are_there_is_no_other_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "trace"
    path.write_bytes(content)
    with pytest.raises(UnreadableTrace):
        read_requests(path)


@given(st.data())
def test_a_valid_trace_that_was_damaged_is_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "trace"
    content = bytearray(msgspec.json.encode(GOOD) + b"\n") * 3
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        assert len(read_requests(path)) >= 1
    except UnreadableTrace as error:
        assert error.line is not None  # noqa: PT017
