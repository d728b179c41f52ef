"""Whole requests in traces: written, read, replayed, shrunk."""

from contextlib import suppress

import pytest

from kvref.divergence import DivergenceKind
from kvref.machine import Program, encode_promises, unsuited
from kvref.replaying import replay_trace
from kvref.requests import machine
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.machine import REQUESTS, RequestBench
from kvref.requests.operations import Abort, Append, Begin, Commit, Extend, Finish, Flush, Store
from kvref.requests.promises import RequestPromises
from kvref.requests.target import RequestTargetFactory
from kvref.shrink import shrink
from kvref.traces.failures import write_failure
from kvref.traces.reader import read
from kvref.traces.writer import Recorder, header_of, write_trace
from tests.kvref.requests import wrong_lives

PROGRAM = Program(
    (
        Begin((0, 1, 2), namespace="a", max_tokens=2),
        Store(7),
        Store(0),
        Commit(0),
        Extend(0, 2, (3,)),
        Store(0),
        Append(0, (3,)),
        Finish(0),
        Extend(0, 1),
        Begin((0, 1, 2, 3), namespace="a"),
        Abort(9),
        Flush(),
    ),
    RequestConfiguration(page_size=1, num_pages=6, max_requests=2),
)


def bench(factory=wrong_lives.right):
    return RequestBench(factory, look_every=1)


def test_each_operation_has_what_was_expected_and_what_came_back():
    recorder = Recorder()
    assert bench().run(PROGRAM, recorder) is None
    expected = [record.expected for record in recorder.records]
    assert expected[0] == "0 matched, 2 more slots"
    assert expected[1] is None  # there is no such request
    assert expected[3] == "2 cached"
    assert expected[4] == "2 more slots"
    assert expected[8].startswith("refused: ")
    assert expected[9] == "3 matched, 1 more slots"
    accepted = [r for r in recorder.records if r.expected and not r.expected.startswith("refused")]
    assert all(record.got == record.expected for record in accepted)


def test_a_failure_is_written_read_and_replayed_as_recorded(tmp_path):
    failing = bench(wrong_lives.leaks)
    divergence = failing.run(PROGRAM)
    path = tmp_path / "a.jsonl"
    program = PROGRAM._replace(operations=PROGRAM.operations[: divergence.index + 1])
    assert write_failure(path, REQUESTS, failing, program, divergence, target="some:target")
    trace = read(path)
    assert trace.machine is REQUESTS
    assert trace.program == program
    assert trace.divergence.kind is DivergenceKind.FREE_PAGES
    again = replay_trace(trace, failing)
    assert again.otherwise is None
    assert str(again.divergence) == str(divergence)
    assert replay_trace(trace, bench()).divergence is None


class Closes(LocalRequestExecutor):
    """Counts how often."""

    closed = 0

    def close(self):
        super().close()
        self.closed += 1


@pytest.mark.parametrize("factory", [wrong_lives.right, wrong_lives.leaks])
def test_a_run_closes_what_it_started(factory):
    made = []

    def start(configuration):
        made.append(Closes(factory(configuration), None))
        return made[-1]

    divergence = RequestBench(factory, look_every=1, start=start).run(PROGRAM)
    assert (divergence is None) == (factory is wrong_lives.right)
    assert [each.closed for each in made] == [1]


def test_a_bench_of_a_process_ends_it_with_the_block(monkeypatch):
    closed = []

    class Process:
        def __init__(self, target, seconds):
            self.named = target, seconds

        def close(self):
            closed.append(self.named)

    monkeypatch.setattr(machine, "TargetProcess", Process)
    with (
        suppress(KeyboardInterrupt),
        REQUESTS.bench("kvgpu-radix", seconds=2.0, isolate=True, look_every=1),
    ):
        assert closed == []
        raise KeyboardInterrupt
    assert closed == [("kvgpu-radix", 2.0)]


def test_what_comes_after_a_difference_was_not_ended_before(tmp_path):
    failing = bench(wrong_lives.leaks)
    program = Program((Begin((0,)), Abort(0), Flush()), PROGRAM.configuration)
    header = header_of(REQUESTS, None, failing.promises, program.configuration)
    write_trace(tmp_path / "a.jsonl", REQUESTS, header, program)
    replayed = replay_trace(read(tmp_path / "a.jsonl"), failing)
    assert replayed.divergence.index == 1
    assert replayed.ended_before is None


def test_a_long_run_is_cut_to_its_end_with_the_begin_that_this_names():
    """So that it is not run in halves, quarters and so on."""
    ran = []

    class Counts(wrong_lives.LeaksOnAbort):
        def append(self, request, tokens):
            ran.append(1)
            super().append(request, tokens)

    operations = (Begin((0,)), Begin((1,)), *[Append(1, (0,))] * 2000, Abort(0))
    factory = RequestTargetFactory(Counts, wrong_lives.PROMISES)
    seldom = RequestBench(factory, look_every=10**9)
    shrunk = shrink(REQUESTS, seldom, Program(operations, RequestConfiguration(num_pages=6)))
    assert shrunk.program.operations == (Begin((0,)), Abort(0))
    assert len(ran) < 2.2 * 2000


def test_a_run_looks_as_often_as_it_is_asked_to():
    operations = (Begin((0, 1)), Store(0), Append(0, (2,)))
    program = Program(operations, RequestConfiguration(num_pages=6))
    factory = RequestTargetFactory(wrong_lives.StoresNextToIt, wrong_lives.PROMISES)
    seldom = RequestBench(factory, look_every=100)
    assert seldom.run(program).index == 2  # at the end
    assert seldom.run(program, look_every=1).index == 1


def test_it_shrinks_to_the_request_that_matters():
    shrunk = shrink(REQUESTS, bench(wrong_lives.leaks), PROGRAM)
    assert [type(each) for each in shrunk.program.operations] == [Begin, Abort]
    assert shrunk.program.operations[0].tokens == (0,)
    assert shrunk.program.configuration.num_pages == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"do":"extend","request":-1}', "negative index"),
        (b'{"do":"append","request":0,"tokens":[9223372036854775808]}', "int64"),
        (b'{"do":"extend","request":0,"ahead":[9223372036854775808]}', "int64"),
        (b'{"do":"extend","request":0,"count":2147483648}', "no pool has"),
        (b'{"do":"evict","size":1}', "evict"),
        (b'{"do":"begin","tokens":[0],"more":1}', "more"),
    ],
)
def test_what_no_request_can_be_asked_is_refused(line, reason):
    with pytest.raises(ValueError, match=reason):
        REQUESTS.decode(line)


@pytest.mark.parametrize(
    "changed",
    [
        {"num_pages": 2**23, "page_size": 2**5, "head_dim": 2},
        {"num_pages": 2**23 + 1},
        {"max_requests": 2**27, "max_len": 6},
    ],
)
def test_a_pool_of_gigabytes_is_refused(changed):
    fields = {"num_pages": 6, "max_requests": 2} | changed
    data = b"{" + b",".join(b'"%s":%d' % (k.encode(), v) for k, v in fields.items()) + b"}"
    with pytest.raises(ValueError, match=r"pool of|pages: at most|requests of up to"):
        REQUESTS.decode_configuration(data)


def test_what_a_target_does_not_promise_is_said():
    promises = RequestPromises(page_sizes=(16,), policies=("lru",))
    assert "page size of 1" in unsuited(RequestConfiguration(), promises)
    fifo = RequestConfiguration(page_size=16, policy="fifo")
    assert "policy fifo" in unsuited(fifo, promises)
    assert unsuited(RequestConfiguration(page_size=16), promises) is None


def test_promises_come_back_as_they_were():
    promises = RequestPromises(namespaces=False)
    data = encode_promises(promises)
    assert REQUESTS.decode_promises(data) == promises
