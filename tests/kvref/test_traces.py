"""Traces on disk: what is written is what is read, and nothing else is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvref.answers import Died, Hung, Malformed, Raised, Returned
from kvref.configuration import Configuration
from kvref.divergence import Divergence, DivergenceKind
from kvref.export.exporters import export
from kvref.export.text import Style
from kvref.listener import answer_in_words, expected_in_words
from kvref.machine import Program
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.operations import FOREIGN, Evict, Insert, Lock, Match, Reset, Unlock
from kvref.oracle import Oracle
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.registry import UnknownTarget
from kvref.target import TargetFactory
from kvref.traces import reader, targets
from kvref.traces.failures import write_failure
from kvref.traces.format import SCHEMA, Record, TraceError
from kvref.traces.reader import first_line, lines_of, read
from kvref.traces.targets import target_of
from kvref.traces.writer import Recorder, TraceWriter, header_of, safe_name, write_trace
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.wrong_targets import ForgetsRecency, modest

ROOT = Path(__file__).parents[2]
PROGRAM = Program(
    (
        Insert((0, 1), (0, 1), "a"), Insert((-(2**63), 2**63 - 1), (2, 3)), Lock(FOREIGN),
        Match((0,), "a", "int32-strided"), Lock(3), Evict(True), Evict(1), Unlock(3), Unlock(3),
        Evict(3), Reset(),
    ),
    Configuration(num_pages=9, policy="fifo"),
)  # fmt: skip
DIVERGENCE = Divergence(DivergenceKind.VICTIMS, "victims", 10, Reset(), "[0]", "[]")


def header(configuration: Configuration = PROGRAM.configuration):
    return header_of(MANAGER, "some:target", Promises(), configuration)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.jsonl"


@pytest.fixture
def written(path):
    """A whole trace of a run that diverged."""
    bench = ManagerBench(TargetFactory(ForgetsRecency), look_every=1)
    program = Program(
        (Insert((0, 1), (0, 1)), Insert((2,), (2,)), Lock(0), Match((0,)), Evict(2)),
        Configuration(num_pages=4),
    )
    divergence = bench.run(program, recorder := Recorder())
    assert divergence is not None
    head = header(program.configuration)
    write_trace(path, MANAGER, head, program, recorder.records, divergence)
    return path


def test_a_record_without_trees_is_the_same_but_for_them():
    bench = ManagerBench(TargetFactory(OracleTarget), look_every=1)
    bench.run(PROGRAM, whole := Recorder())
    bench.run(PROGRAM, short := Recorder(trees=False))
    assert all(record.tree is not None for record in whole.records)
    assert short.records == [Record(each.expected, each.got) for each in whole.records]


class TestWhatIsWrittenIsRead:
    def test_all_of_it(self, path):
        records = [Record(f"e{i}", f"g{i}", f"t{i}") for i in range(len(PROGRAM.operations))]
        promises = Promises(page_sizes=(1, 2), refuses=frozenset({RefusalKind.TYPE}))
        head = header_of(
            MANAGER, "t", promises, PROGRAM.configuration,
            look_every=7, seed=2**40, run=0, note="what it was",
        )  # fmt: skip
        write_trace(path, MANAGER, head, PROGRAM, records, DIVERGENCE)
        trace = read(path)
        assert trace.machine is MANAGER
        assert trace.program == PROGRAM
        assert trace.promises == promises
        assert trace.records == tuple(records)
        assert (trace.header.target, trace.header.look_every) == ("t", 7)
        assert (trace.header.seed, trace.header.run, trace.header.note) == (2**40, 0, "what it was")
        assert trace.header.versions["python"]
        assert trace.divergence is not None
        assert trace.divergence.kind is DIVERGENCE.kind
        assert trace.divergence.index == 10

    def test_operations_that_never_ran(self, path):
        write_trace(path, MANAGER, header(), PROGRAM)
        trace = read(path)
        assert trace.program == PROGRAM
        assert trace.divergence is None
        assert set(trace.records) == {Record()}

    def test_no_operation_at_all(self, path):
        write_trace(path, MANAGER, header(), Program((), PROGRAM.configuration))
        assert read(path).program == Program((), PROGRAM.configuration)

    def test_the_same_run_gives_the_same_bytes(self, written, tmp_path):
        trace = read(written)
        again = tmp_path / "again.jsonl"
        bench = ManagerBench(TargetFactory(ForgetsRecency), look_every=1)
        writer = TraceWriter(again, MANAGER, header(trace.program.configuration))
        writer.close(bench.run(trace.program, writer))
        assert again.read_bytes() == written.read_bytes()

    def test_promises_that_are_a_set_have_an_order(self):
        code = (
            "from kvref.machine import encode_promises\n"
            "from kvref.promises import Promises\n"
            "print(encode_promises(Promises()))"
        )
        orders = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
                capture_output=True, check=True,
            ).stdout
            for seed in ("1", "2", "3")
        }  # fmt: skip
        assert len(orders) == 1

    def test_in_words(self, written):
        trace = read(written)
        assert [record.expected for record in trace.records] == [
            "0 cached before", "0 cached before", None, "1 cached, slots [0]", "slots [1, 2]",
        ]  # fmt: skip
        assert [record.got for record in trace.records] == [
            "0 cached before", "0 cached before", None, "1 cached, slots [0]", "slots [1, 0]",
        ]  # fmt: skip
        assert len({record.tree for record in trace.records}) == 4  # the skipped one left it

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (Returned(None), "done"),
            (Raised(None, [], "Odd", "why", {}), "raised Odd: why"),
            (Malformed("a tuple"), "malformed: a tuple"),
            (Hung(2.5), "nothing within 2.5 s"),
            (Died("SIGSEGV"), "the process ended: SIGSEGV"),
        ],
    )
    def test_what_came_back_in_words(self, answer, words):
        assert answer_in_words(Lock(0), answer) == words

    def test_what_had_to_come_back_where_the_choice_is_the_targets(self):
        assert expected_in_words(Evict(2), 2) == "at least 2 slots"


class TestLive:
    def test_a_process_that_dies_in_an_operation_has_written_what_it_asked(self, path):
        code = (
            "import sys\nfrom pathlib import Path\n"
            "from tests.kvref.test_traces import *\n"
            "from tests.kvref.wrong_targets import Exits\n"
            "writer = TraceWriter(Path(sys.argv[1]), MANAGER, header())\n"
            "ManagerBench(TargetFactory(Exits), look_every=1).run(PROGRAM, writer)\n"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "strategies")))}
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], env=env, capture_output=True, check=False
        )
        assert done.returncode == 7, done.stderr
        trace = read(path)
        assert trace.program.operations == PROGRAM.operations[:6]
        assert trace.records[-1] == Record("refused: wrong-type")
        assert all(record.tree for record in trace.records[:-1])

    def test_a_skipped_operation_is_written(self, path):
        writer = TraceWriter(path, MANAGER, header())
        bench = ManagerBench(modest, look_every=1)
        operations = (Match((1,)), Lock(7), Evict(0))
        writer.close(bench.run(Program(operations, Configuration()), writer))
        trace = read(path)
        assert trace.program.operations == operations
        assert trace.records[1].expected is trace.records[1].got is None
        assert trace.records[1].tree == trace.records[0].tree

    def test_it_makes_the_folder_and_writes_short_writes_again(self, tmp_path, monkeypatch):
        path = tmp_path / "new" / "a.jsonl"
        writer = TraceWriter(path, MANAGER, header())

        class Short:
            def __init__(self, file):
                self.file = file

            def write(self, data):
                return self.file.write(data[:3])

            def close(self):
                self.file.close()

        writer._file = Short(writer._file)
        writer.close(ManagerBench(TargetFactory(OracleTarget), look_every=1).run(PROGRAM, writer))
        assert read(path).program == PROGRAM


class TestWhole:
    def test_a_write_that_fails_leaves_the_earlier_file_whole(self, written, monkeypatch):
        before = written.read_bytes()

        def fail(*_: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_trace(written, MANAGER, header(), PROGRAM)
        assert written.read_bytes() == before

    def test_a_failure_lies_beside_its_program(self, tmp_path):
        path = tmp_path / "not" / "yet" / "a.jsonl"
        bench = ManagerBench(TargetFactory(OracleTarget), look_every=3)
        # This target does not fail: that is said, and all is written nevertheless.
        assert not write_failure(path, MANAGER, bench, PROGRAM, DIVERGENCE, target="some:target")
        text = path.with_suffix(".py").read_text()
        assert text == export(read(path), Style.SCRIPT)
        assert "# The difference: victims, in the last lines.\n#   expected: [0]\n" in text
        assert "# Recorded on some:target (python" in text
        compile(text, "<program>", "exec")
        trace = read(path)
        assert trace.program == PROGRAM
        assert set(trace.records) == {Record()}
        assert trace.header.look_every == 3
        assert {each.suffix for each in path.parent.iterdir()} == {".jsonl", ".py"}

    def test_nothing_lies_beside_what_is_no_file(self, tmp_path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            bench = ManagerBench(TargetFactory(OracleTarget), look_every=1)
            write_failure(pipe, MANAGER, bench, PROGRAM, DIVERGENCE, target=None)
            assert os.read(reader, 2**16).startswith(b'{"schema":"kvref.trace/1"')
        finally:
            os.close(reader)
        assert list(tmp_path.iterdir()) == [pipe]

    def test_a_target_without_a_name(self, path):
        bench = ManagerBench(TargetFactory(OracleTarget), look_every=1)
        write_failure(path, MANAGER, bench, PROGRAM, DIVERGENCE, target=None)
        text = path.with_suffix(".py").read_text()
        assert "# Recorded on a manager without a name (python" in text
        assert read(path).header.target is None

    @pytest.mark.parametrize(
        ("target", "name"),
        [
            ("kvgpu-radix", "kvgpu-radix"),
            ("my.fork:make", "my.fork-make"),
            ("../e:x y", "..-e-x-y"),
        ],
    )
    def test_a_name_stays_in_the_folder(self, target, name):
        assert safe_name(target) == name


OPERATION = b'{"line":"operation","index":0,"operation":{"do":"reset"}}'
OUTCOME = b'{"line":"outcome","index":0,"got":"slots []","tree":"0"}'
GAP = b'{"line":"gap","index":0,"reason":"the queue was full"}'
DIVERGED = (
    b'{"line":"divergence","kind":"victims","law":"victims","index":0,"expected":"","got":""}'
)


def operation(text: str) -> bytes:
    return f'{{"line":"operation","index":0,"operation":{text}}}'.encode()


class TestWhatIsNotATrace:
    def refused(self, path, *lines: bytes, end: bytes = b"\n") -> TraceError:
        path.write_bytes(b"\n".join(lines) + end)
        with pytest.raises(TraceError) as caught:
            read(path)
        assert caught.value.path == str(path)
        assert str(path) in str(caught.value)
        return caught.value

    def test_lines_as_they_are_due_are_read(self, path):
        path.write_bytes(b"\n".join([self.head(), OPERATION, OUTCOME, DIVERGED, b""]))
        assert read(path).records == (Record(None, "slots []", "0"),)

    def test_a_gap_ends_a_recording_also_before_its_first_operation(self, path):
        path.write_bytes(b"\n".join([self.head(), OPERATION, OUTCOME, GAP, b""]))
        assert read(path).gap == "the queue was full"
        path.write_bytes(b"\n".join([self.head(), GAP.replace(b"0", b"-1"), b""]))
        assert (read(path).gap, read(path).records) == ("the queue was full", ())
        assert "after the gap" in self.refused(path, self.head(), OPERATION, GAP, OUTCOME).reason
        assert (
            "index 1, where 0 is due"
            in self.refused(path, self.head(), OPERATION, GAP.replace(b"0", b"1")).reason
        )

        assert "index 0, where -1 is due" in self.refused(path, self.head(), GAP).reason

    def head(self, **changes) -> bytes:
        fields = msgspec.json.decode(msgspec.json.encode(header()))
        return msgspec.json.encode({**fields, **changes})

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"schema": "kvref.trace/2"}, "schema 'kvref.trace/2', where 'kvref.trace/1' is read"),
            ({"schema": 1}, "Expected `str`"),
            ({"machine": "quantum"}, "machine 'quantum', known: manager"),
            ({"colour": "red"}, "unknown field `colour`"),
            ({"seed": "many"}, "$.seed"),
            ({"seed": 1.5}, "$.seed"),
            ({"look_every": "1"}, "$.look_every"),
            ({"versions": [1]}, "$.versions"),
            ({"note": 3}, "$.note"),
            ({"target": 3}, "$.target"),
            ({"configuration": {"page_size": 0}}, "page_size and num_pages must be at least 1"),
            (
                {"configuration": {"page_size": 2**20, "num_pages": 2**20}},
                "at most 2147483647 slots",
            ),
            ({"configuration": {"page_size": 2**17}}, "and 65536 in a page"),
            ({"look_every": 0}, "$.look_every"),
            ({"configuration": {"pages": 1}}, "unknown field `pages`"),
            ({"configuration": []}, "Expected `object`"),
            ({"promises": {"eviction": "never"}}, "Invalid enum value"),
            ({"promises": {"sings": True}}, "unknown field `sings`"),
            ({"promises": {"policies": []}}, "at least one page size and one policy"),
        ],
    )
    def test_a_wrong_header(self, path, changes, reason):
        error = self.refused(path, self.head(**changes), OPERATION)
        assert error.line == 1
        assert reason in error.reason

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b"", "no JSON"),
            (b"{}", "missing required field `line`"),
            (b'{"line":"poem"}', "Invalid value 'poem'"),
            (b"7", "Expected `object`"),
            (OPERATION[:-1], "no JSON"),
            (b"\x00\xff", "no JSON"),
            (b'{"line":"\xff"}', "no JSON"),
            (OPERATION.replace(b"0", b"1"), "index 1, where 0 is due"),
            (OPERATION.replace(b"0", b"-1"), "index -1, where 0 is due"),
            (OPERATION.replace(b"0", b'"0"'), "$.index"),
            (OPERATION.replace(b"0", b"9" * 5000), "$.index"),
            (OPERATION[:-1] + b',"x":1}', "unknown field `x`"),
            (OUTCOME, "index 0, where there is no operation yet"),
            (OUTCOME.replace(b"0", b"-1"), "there is no operation yet"),
            (DIVERGED, "there is no operation yet"),
            (operation('{"do":"fly"}'), "Invalid value 'fly'"),
            (operation('{"do":"reset","x":1}'), "unknown field `x`"),
            (operation('{"do":"reset","' + "x" * 5000 + '":1}'), "unknown field `xxx"),
            (operation('{"do":"match","tokens":[1.5]}'), "Expected `int`"),
            (operation('{"do":"match","tokens":["1"]}'), "Expected `int`"),
            (operation('{"do":"match","tokens":[NaN]}'), "no JSON"),
            (operation('{"do":"match","tokens":[9223372036854775808]}'), "not fit int64"),
            (operation(f'{{"do":"match","tokens":[{"9" * 10**5}]}}'), "out of range"),
            (operation('{"do":"match","tokens":[1],"carried":"float"}'), "$.carried"),
            (operation('{"do":"match","tokens":[1],"namespace":"\\ud800"}'), "no JSON"),
            (operation('{"do":"insert","tokens":[1],"slots":[2147483648]}'), "not fit int32"),
            (operation('{"do":"lock","handle":-1}'), "a negative index"),
            (operation('{"do":"lock","handle":"mine"}'), "$.handle"),
            (operation('{"do":"evict","size":1e999}'), "out of range"),
            (operation(f'{{"do":"evict","size":{"9" * 400}}}'), "not fit int64"),
            (operation('{"do":"evict","size":1e19}'), "not fit int64"),
            (operation("[" * 10**5 + "]" * 10**5), "nested too deep"),
            (operation('{"do":"evict","size":' + "[" * 10**5 + "]" * 10**5 + "}"), "too deep"),
        ],
    )  # fmt: skip
    def test_a_wrong_line(self, path, line, reason):
        error = self.refused(path, self.head(), line)
        assert error.line == 2
        assert reason in error.reason
        assert len(error.reason) <= 300

    def test_a_line_where_another_is_due(self, path):
        head = self.head()
        assert "second outcome" in self.refused(path, head, OPERATION, OUTCOME, OUTCOME).reason
        assert (
            "after the divergence" in self.refused(path, head, OPERATION, DIVERGED, OUTCOME).reason
        )
        assert "1 is due" in self.refused(path, head, OPERATION, OPERATION).reason

    def test_an_empty_file_and_empty_lines(self, path):
        assert "begins with its header" in self.refused(path, b"", end=b"").reason
        assert self.refused(path, self.head(), b"", OPERATION).line == 2
        assert first_line_of(path, b"") == b""

    def test_a_file_that_was_cut_off(self, path):
        error = self.refused(path, self.head(), OPERATION, end=b"")
        assert (error.line, "cut off" in error.reason) == (2, True)

    def test_a_line_that_never_ends(self, path):
        with path.open("wb") as file:  # a file with holes, of which nothing is on the disk
            file.truncate(2**33)
        with pytest.raises(TraceError, match="line 1: longer than 33,554,432 bytes"):
            read(path)

    @pytest.mark.parametrize(
        ("name", "reason"), [("nowhere", "No such file"), (".", "directory"), ("\0", "null byte")]
    )
    def test_a_file_that_cannot_be_read(self, tmp_path, name, reason):
        with pytest.raises(TraceError, match=reason) as caught:
            read(tmp_path / name)
        assert caught.value.line == 0

    def test_a_file_of_another_kind(self, path):
        assert "Expected `object`" in self.refused(path, b"[1,2,3]").reason
        assert "`schema`" in self.refused(path, b'{"timestamp":0,"input_length":7}').reason
        assert "no JSON" in self.refused(path, b"\x7fELF\x02\x01").reason
        assert first_line_of(path, b'{"timestamp":0}\nx\n') == b'{"timestamp":0}\n'
        assert first_line_of(path, b'{"timestamp":0}') == b'{"timestamp":0}'


def first_line_of(path: Path, content: bytes) -> bytes:
    path.write_bytes(content)
    return first_line(path)


class TestFuzzed:
    """Bytes that anybody may send: a trace, or a TraceError."""

    VALID = b""

    @pytest.fixture(autouse=True)
    def valid(self, tmp_path_factory):
        if not TestFuzzed.VALID:
            path = tmp_path_factory.mktemp("valid") / "a.jsonl"
            recorder = Recorder()
            divergence = ManagerBench(TargetFactory(ForgetsRecency), look_every=1).run(
                PROGRAM, recorder
            )
            assert divergence is None
            write_trace(path, MANAGER, header(), PROGRAM, recorder.records, DIVERGENCE)
            TestFuzzed.VALID = path.read_bytes()

    def check(self, content: bytes, folder: Path) -> None:
        path = folder / "fuzzed.jsonl"
        path.write_bytes(content)
        try:
            trace = read(path)
        except TraceError:
            return
        # What was read can be written, and is the same then.
        again = folder / "again.jsonl"
        write_trace(again, MANAGER, trace.header, trace.program, trace.records)
        assert read(again).program == trace.program
        assert read(again).records == trace.records

    @settings(max_examples=200)
    @given(content=st.binary(max_size=300))
    def test_random_bytes(self, content, tmp_path_factory):
        self.check(content, tmp_path_factory.getbasetemp())

    @settings(max_examples=300)
    @given(data=st.data())
    def test_a_trace_with_bytes_changed(self, data, tmp_path_factory):
        content = bytearray(self.VALID)
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            length = data.draw(st.integers(0, 8))
            content[at : at + length] = data.draw(
                st.binary(max_size=6) | st.sampled_from([b"[", b"1e9", b"null", b'"', b"\n", b"-"])
            )
        self.check(bytes(content), tmp_path_factory.getbasetemp())

    @settings(max_examples=100)
    @given(data=st.data())
    def test_a_trace_with_lines_moved_left_out_and_doubled(self, data, tmp_path_factory):
        lines = self.VALID.splitlines(keepends=True)
        chosen = data.draw(st.lists(st.sampled_from(lines), max_size=8))
        kept = data.draw(st.integers(0, len(lines)))
        self.check(b"".join(lines[:kept] + chosen), tmp_path_factory.getbasetemp())

    @settings(max_examples=100)
    @given(
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
        field=st.sampled_from(["operation", "index", "expected", "line"]),
    )
    def test_an_operation_with_any_value_for_a_field(self, value, field, tmp_path_factory):
        line = msgspec.json.decode(OPERATION)
        line[field] = value
        try:
            text = msgspec.json.encode(line)
        except (ValueError, OverflowError):  # what JSON itself cannot hold
            return
        head = self.VALID.partition(b"\n")[0]
        self.check(head + b"\n" + text + b"\n", tmp_path_factory.getbasetemp())


def test_the_bound_of_a_line_is_what_stops_it(path, monkeypatch):
    path.write_bytes(b"\n".join([msgspec.json.encode(header()), OPERATION, b""]))
    monkeypatch.setattr(reader, "LONGEST_LINE", 80)
    with pytest.raises(TraceError, match="longer than 80"):
        read(path)
    assert SCHEMA in msgspec.json.encode(header()).decode()


def test_a_line_may_be_as_long_as_the_bound_with_its_end(path, monkeypatch):
    monkeypatch.setattr(reader, "LONGEST_LINE", 8)
    path.write_bytes(b"1234567\n")
    assert list(lines_of(path)) == [(1, b"1234567")]
    path.write_bytes(b"12345678\n")
    with pytest.raises(TraceError, match="longer than 8"):
        list(lines_of(path))


def test_a_first_line_without_end_is_not_read_to_its_end(path, monkeypatch):
    monkeypatch.setattr(reader, "LONGEST_LINE", 8)
    assert first_line_of(path, b"x" * 100) == b"x" * 9
    with pytest.raises(TraceError, match="null byte"):
        first_line(path.with_name("\0"))


def test_of_an_operation_that_did_not_come_back_nothing_did():
    recorder = Recorder()
    for index in range(2):
        recorder.begins(index, Reset(), Returned([]))
        if not index:
            recorder.answers(index, Returned([]))
        recorder.ends(index, Oracle(Configuration()))
    assert [record.got for record in recorder.records] == ["slots []", None]


def test_a_target_that_was_given_is_taken_whatever_the_file_names(path, written):
    trace = read(written)
    assert target_of(trace, path, "my:target", ()) == "my:target"
    assert target_of(trace, path, "", ()) == ""  # no such target, and not another one


def test_a_name_that_is_registered_may_have_a_colon(path, written, monkeypatch):
    trace = read(written)
    with pytest.raises(UnknownTarget, match="not registered"):
        target_of(trace, path, None, ())
    monkeypatch.setattr(targets, "registered", lambda: {"some:target"})
    assert target_of(trace, path, None, ()) == "some:target"


@pytest.mark.parametrize(
    ("target", "rest"),
    [("kvgpu-radix", ""), ("my:target", " my:target"), (None, " module:factory")],
)
def test_what_replays_a_trace_names_the_target_where_the_file_cannot(target, rest):
    assert targets.replay_command(Path("a b.jsonl"), target) == f"kvref replay 'a b.jsonl'{rest}"
