"""The trace that is made up, and the one that lies in the repository."""

from collections import Counter
from pathlib import Path

import msgspec

from kvref.workload.generate import generate
from kvref.workload.mooncake import read_requests

SMALL = Path(__file__).parents[3] / "examples" / "traces" / "small.jsonl"


def test_the_same_arguments_make_the_same_trace_and_other_seeds_another():
    assert generate(50, 1) == generate(50, 1) != generate(50, 2)


def test_it_has_as_many_requests_as_were_asked_for_in_the_order_of_their_arrival():
    trace = generate(137, 3)
    times = [request.timestamp for request in trace]
    assert len(trace) == 137
    assert times == sorted(times)


def test_prompts_share_their_beginnings_grow_by_turns_and_come_twice():
    trace = generate(200, 0)
    beginnings = Counter(request.hash_ids[:1] for request in trace)
    assert len(beginnings) == 5
    prompts = Counter((request.hash_ids, request.input_length) for request in trace)
    assert max(prompts.values()) >= 2
    whole = {
        request.hash_ids[: request.input_length // 512]
        for request in trace
        if request.input_length >= 2048
    }
    grown = [ids for ids in whole if any(ids[:n] in whole for n in range(1, len(ids)))]
    assert grown


def test_the_small_trace_is_what_the_generator_makes(tmp_path):
    again = tmp_path / "again.jsonl"
    lines = [msgspec.json.encode(request) for request in generate(300, 0)]
    again.write_bytes(b"\n".join(lines) + b"\n")
    assert SMALL.read_bytes() == again.read_bytes()
    assert len(read_requests(SMALL)) == 300
