"""Exported programs fail where the trace fails, pass on a right manager, and are only calls."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from kvref.campaign import Totals, campaign, start_locally
from kvref.cli.app import app
from kvref.configuration import Configuration
from kvref.divergence import Divergence, DivergenceKind
from kvref.export.exporters import EXPORTERS, export
from kvref.export.text import ManagerName, Style, comment, manager_name
from kvref.machine import Program
from kvref.machines import MACHINES
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.operations import (
    FOREIGN,
    NOT_A_HANDLE,
    Evict,
    Insert,
    Lock,
    Match,
    Operation,
    Reset,
    Unlock,
)
from kvref.promises import Promises
from kvref.refusals import NAMES, RefusalKind
from kvref.shrink import shrink
from kvref.target import TargetFactory
from kvref.targets.kvgpu import naive, radix
from kvref.traces.failures import write_failure
from kvref.traces.format import Record, Trace
from kvref.traces.reader import read
from kvref.traces.writer import Recorder, divergence_line, header_of, write_trace
from tests.faults.manager_faults import MANAGER_FAULTS
from tests.kvref import wrong_targets

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "strategies"))),
}
FAULTS = (
    "keeps-the-callers-indices", "hands-out-its-own-array", "returns-wide-indices",
    "ignores-the-stride", "match-drops-the-namespace", "reports-all-as-cached",
    "split-drops-the-lock-count", "unlock-is-clamped", "foreign-handle-is-accepted",
    "split-prefix-keeps-its-age", "fifo-is-lru", "evicts-one-more", "evict-takes-what-there-is",
    "reset-leaves-handles-alive", "split-is-a-creation", "one-token-prompt-crashes",
)  # fmt: skip
RIGHT = ManagerName("kvgpu", "RadixCacheManager")


def broken(fault: str) -> ManagerName:
    return ManagerName("tests.faults.managers", fault.title().replace("-", ""))


def last_line(text: str) -> int:
    """Where the last statement begins, that of the test function if there is one."""
    last = ast.parse(text).body[-1]
    return last.body[-1].lineno if isinstance(last, ast.FunctionDef) else last.lineno


def trace_of(
    operations: tuple[Operation, ...],
    configuration: Configuration | None = None,
    *,
    promises: Promises | None = None,
    records: tuple[Record, ...] = (),
    divergence: Divergence | None = None,
    target: str | None = None,
    note: str | None = None,
) -> Trace:
    configuration = configuration or Configuration()
    promises = promises or Promises()
    header = header_of(MANAGER, target, promises, configuration, note=note)
    ending = divergence_line(divergence) if divergence is not None else None
    program = Program(operations, configuration)
    return Trace(header, MANAGER, promises, program, records, ending)


def traced(factory: TargetFactory, *operations: Operation, **configuration) -> Trace:
    """The trace of a run, as far as it comes."""
    made = Configuration(**configuration)
    recorder = Recorder()
    divergence = ManagerBench(factory, look_every=1).run(Program(operations, made), recorder)
    if divergence is not None:
        operations = operations[: divergence.index + 1]
    return trace_of(
        operations, made, promises=factory.promises, records=tuple(recorder.records),
        divergence=divergence,
    )  # fmt: skip


def executed(text: str) -> None:
    exec(compile(text, "<exported>", "exec"), {})


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory):
    """A shrunk trace for each of the faults."""
    folder = tmp_path_factory.mktemp("shrunk")
    for name in FAULTS:
        target = MANAGER_FAULTS[name].target
        runs = campaign(start_locally(target, 10.0), target, 0, Totals())
        failure = next(failure for failure in islice(runs, 400) if failure)
        bench = ManagerBench(target, look_every=256)
        program = Program(failure.operations, failure.configuration)
        short = shrink(MANAGER, bench, program, seconds=1.0)
        path = folder / f"{name}.jsonl"
        assert write_failure(
            path, MANAGER, bench, short.program, short.divergence,
            target="kvgpu-radix", look_every=short.look_every,
        )  # fmt: skip
    return folder


class TestFaults:
    def test_the_script_fails_in_its_last_statement_and_passes_on_the_healthy(
        self, shrunk, tmp_path
    ):
        last = {}
        for name in FAULTS:
            trace = read(shrunk / f"{name}.jsonl")
            text = export(trace, Style.SCRIPT, broken(name))
            (tmp_path / f"broken {name}.py").write_text(text)
            (tmp_path / f"healthy {name}.py").write_text(export(trace, Style.SCRIPT, RIGHT))
            assert "import kvref" not in text
            assert "from kvref" not in text
            last[name] = last_line(text)
        # One process for all of them: most of the time goes into importing torch.
        driver = (
            "import json, pathlib, runpy, sys, traceback\n"
            "for path in sorted(pathlib.Path(sys.argv[1]).glob('*.py')):\n"
            "    line = None\n"
            "    try:\n"
            "        runpy.run_path(str(path))\n"
            "    except BaseException as error:\n"
            "        frames = traceback.extract_tb(error.__traceback__)\n"
            "        line = [f.lineno for f in frames if f.name == '<module>'][-1]\n"
            "    print(json.dumps([path.stem, line]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", driver, str(tmp_path)],
            env=ENVIRONMENT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        ended = dict(map(json.loads, done.stdout.splitlines()))
        assert len(ended) == 2 * len(FAULTS)
        for name in FAULTS:
            assert ended[f"healthy {name}"] is None, name
            assert (ended[f"broken {name}"] or 0) >= last[name], name

    def test_pytest_collects_them_and_they_fail_and_pass(self, shrunk, tmp_path):
        for name in FAULTS:
            trace = read(shrunk / f"{name}.jsonl")
            stem = name.replace("-", "_")
            (tmp_path / f"test_broken_{stem}.py").write_text(
                export(trace, Style.PYTEST, broken(name))
            )
            (tmp_path / f"test_healthy_{stem}.py").write_text(export(trace, Style.PYTEST, RIGHT))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--tb=line",
             "--rootdir", str(tmp_path), str(tmp_path)],
            env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        words = [line.split()[:2] for line in done.stdout.splitlines()]
        verdicts = {
            word[1].partition("::")[0]: word[0]
            for word in words
            if word and word[0] in ("PASSED", "FAILED")
        }
        assert len(verdicts) == 2 * len(FAULTS), done.stdout
        assert {file for file, verdict in verdicts.items() if verdict == "FAILED"} == {
            file for file in verdicts if "_broken_" in file
        }

    def test_the_one_beside_a_failure_is_the_exported_script(self, shrunk):
        for name in FAULTS:
            path = shrunk / f"{name}.jsonl"
            assert path.with_suffix(".py").read_text() == export(read(path), Style.SCRIPT)


class TestWhatItAsserts:
    RUN = (
        Insert((0, 1), (0, 1), "a"), Match((0, 5), "a", "int32-strided"), Match((0,), "a"),
        Lock(1), Lock(FOREIGN), Unlock(NOT_A_HANDLE), Unlock(2), Unlock(1), Evict(True),
        Evict(9), Insert((1,), ()), Lock(77), Evict(1), Lock(1), Reset(), Match(()),
    )  # fmt: skip

    @pytest.mark.parametrize("style", Style)
    @pytest.mark.parametrize("policy", ["lru", "fifo"])
    def test_a_right_manager_passes(self, style, policy):
        text = export(traced(radix, *self.RUN, policy=policy, num_pages=4), style)
        executed(text if style is Style.SCRIPT else f"{text}\ntest_it()\n")
        assert text.count("Has to be refused") == 7
        assert (
            "Not issued, since the manager promises nothing of it: cache.lock_handle(h77)" in text
        )

    def test_the_calls_are_those_of_the_operations(self):
        trace = traced(radix, *self.RUN, num_pages=4)
        text = export(trace, Style.SCRIPT)
        for index, operation in enumerate(trace.program.operations):
            assert operation.python(index) in text

    def test_pages_of_several_slots_and_the_part_page(self):
        run = (Insert((0, 1, 2, 3, 4), (2, 3, 0, 1, 4)), Match((0, 1, 2)), Lock(FOREIGN), Evict(1))
        executed(export(traced(radix, *run, page_size=2, num_pages=3), Style.SCRIPT))

    def test_a_manager_that_remembers_nothing(self):
        run = (Insert((0, 1, 2), (0, 1, 2)), Match((0, 1)), Lock(1), Evict(1), Evict(0), Reset())
        text = export(traced(naive, *run, page_size=2), Style.SCRIPT)
        assert 'NaiveCacheManager("cpu", page_size=2)' in text
        executed(text)

    def test_a_call_that_did_not_come_back_is_the_last(self):
        hang = Divergence(
            DivergenceKind.HANG, "answers-in-time", 1, Evict(1), "", "nothing within 10 s"
        )
        trace = trace_of((Insert((0,), (0,)), Evict(1)), divergence=hang)
        assert export(trace, Style.SCRIPT).endswith(
            "# When this was recorded, it was: nothing within 10 s\nindices = cache.evict(1)\n"
        )

    def test_what_a_file_has_after_its_difference_is_left_out(self):
        insert = Insert((0,), (0,))
        divergence = Divergence(
            DivergenceKind.ALREADY_CACHED, "already-cached", 0, insert, "0", "1"
        )
        text = export(trace_of((insert, Evict(1)), divergence=divergence), Style.SCRIPT)
        assert "evict(" not in text

    @pytest.mark.parametrize(
        ("divergence", "end"),
        [
            (("match-length", "match-length"), "assert (h1.cached_len, len(indices)) == (1, 1)\n"),
            (("match-slots", "match-slots"), "assert indices.tolist() == [0]\n"),
            (("sizes", "sizes"), "(cache.size_info) == (1, 0)  # evictable, protected\n"),
            (("malformed-answer", "sizes"), "assert type(evictable) is type(protected) is int\n"),
            (("malformed-answer", "accepts"), " and type(h1.cached_len) is int\n"),
            (("integrity", "integrity"), "cache.check_integrity()\n"),
        ],
    )  # fmt: skip
    def test_it_ends_with_what_differed(self, divergence, end):
        kind, law = divergence
        operation = Match((0, 1))
        ending = Divergence(DivergenceKind(kind), law, 1, operation, "e", "g")
        text = export(trace_of((Insert((0,), (0,)), operation), divergence=ending), Style.SCRIPT)
        assert text.endswith(end)
        executed(text)

    def test_handles_that_are_equal_and_that_are_not(self):
        run = (
            Insert((0,), (0,)), Match((0,)), Match((0,)), Evict(1), Insert((0,), (0,)), Match((0,)),
        )  # fmt: skip
        text = export(traced(radix, *run), Style.SCRIPT)
        assert "assert h1 == h2 and hash(h1) == hash(h2)" in text
        assert "assert h2 != h5" in text
        executed(text)
        assert "hash(" not in export(
            trace_of(run, promises=Promises(value_handles=False)), Style.SCRIPT
        )

    def test_refusals_are_asked_for_as_promised(self):
        run = (Insert((0,), (0,)), Evict(9))
        named = export(trace_of(run), Style.PYTEST)
        assert (
            'assert "NotEvictable" in kinds(error) and error.needed == 9 and error.evictable == 1'
            in named
        )
        builtin = export(trace_of(run, promises=Promises(refusal_errors="builtin")), Style.PYTEST)
        assert "with pytest.raises(RuntimeError):" in builtin
        any_error = export(trace_of(run, promises=Promises(refusal_errors="any")), Style.SCRIPT)
        assert "except Exception:\n    pass\nelse:" in any_error
        for text in (named, builtin, any_error):
            assert ("kinds(" in text) == (text is named)
        skipped = trace_of(run, promises=Promises(refuses=frozenset({RefusalKind.TYPE})))
        assert "Not issued" in export(skipped, Style.SCRIPT)

    def test_what_shows_only_inside_is_brought_out_by_evictions(self):
        run = (Insert((0, 1), (0, 1)), Match((0,)), Lock(1), Insert((2,), (2,)))
        ending = Divergence(DivergenceKind.STRUCTURE, "structure", 3, run[3], "a node", "no node")
        text = export(trace_of(run, divergence=ending), Style.SCRIPT)
        assert "cache.lock_handle(h1, unlock=True)\n" in text
        assert text.count("cache.evict(1)") == 3
        executed(text)


class TestOwnChoice:
    PROMISES = Promises(eviction="legal")
    RUN = (Insert((0,), (0,)), Insert((1,), (1,)), Evict(1), Evict(1))

    def records(self, *last: str) -> tuple[Record, ...]:
        return tuple(Record("", got, "") for got in ("0", "0", *last))

    def test_it_is_asserted_as_recorded(self):
        records = self.records("slots [0]", "slots [1]")
        executed(export(trace_of(self.RUN, promises=self.PROMISES, records=records), Style.SCRIPT))

    def test_what_was_no_legal_choice_is_the_difference(self):
        problem = Divergence(
            DivergenceKind.VICTIMS, "legal-victims", 3, Evict(1), "a legal choice", "twice: [0]"
        )
        records = self.records("slots [0]", "slots [0]")
        trace = trace_of(self.RUN, promises=self.PROMISES, records=records, divergence=problem)
        text = export(trace, Style.SCRIPT)
        assert text.endswith(
            "assert set(indices.tolist()) <= set([1])\n"
            "# When this was recorded, it was: twice: [0]\n"
            "assert sorted(indices.tolist()) != [0]\n"
        )
        executed(text)

    @pytest.mark.parametrize("got", ["slots [7]", "slots", "slots [0", "slots {}"])
    def test_without_a_choice_that_can_be_followed_it_ends(self, got):
        records = self.records(got, "slots [1]")
        text = export(trace_of(self.RUN, promises=self.PROMISES, records=records), Style.SCRIPT)
        assert text.endswith("what comes next depends on it.\n")


def test_slots_that_no_caller_may_give_end_the_program_of_a_trusting_manager():
    run = (Insert((0,), (0,)), Insert((1,), (0,)), Evict(1))
    text = export(trace_of(run, Configuration(checked=False)), Style.SCRIPT)
    assert text.endswith("# It ends here: the slots of the next insert are none that its caller "
                         "may give.\n")  # fmt: skip
    executed(text)


def test_traces_of_every_machine_can_be_exported():
    assert EXPORTERS.keys() == MACHINES.keys()


class TestNames:
    @pytest.mark.parametrize(
        ("target", "name"),
        [
            ("kvgpu-radix", "from kvgpu import RadixCacheManager"),
            ("kvgpu-naive", "from kvgpu import NaiveCacheManager"),
            ("os:system", "from kvgpu import RadixCacheManager"),
            (None, "from kvgpu import RadixCacheManager"),
        ],
    )
    def test_the_class_is_that_of_a_target_of_kvgpu(self, target, name):
        text = export(trace_of((), target=target), Style.SCRIPT)
        assert name in text
        assert ("put it in its" in text) == (target not in ("kvgpu-radix", "kvgpu-naive"))
        assert "put it in its" not in export(trace_of(()), Style.SCRIPT, RIGHT)

    @pytest.mark.parametrize(
        "text", ["", "a", ":a", "a:", "a:b.c", "a:b()", "a b:c", "a:if", "a..b:c", "a:b\nimport os"]
    )
    def test_what_is_no_name_is_refused(self, text):
        with pytest.raises(ValueError, match="is not module:Class"):
            manager_name(text)

    def test_a_name(self):
        assert manager_name("my.engine:Cache") == ManagerName("my.engine", "Cache")


# -------------------------------------------------------------------------------- hostile traces

# Text that would be code, or change how code is read, if it came out of a comment or a string.
TEXT = st.text(max_size=40) | st.sampled_from(
    [
        "\n import os", "'''", '"""', "\\", "\r\nimport os", "\x0cimport os", "\u2028x = 1",
        "'); import os; ('", "coding: utf-7", "\0", "{}", "%s", "\u202eevil", "# type: int",
    ]
)  # fmt: skip
TOKENS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4).map(tuple)
CARRIED = st.sampled_from(["int64", "int32", "int64-strided", "int32-strided"])
HANDLES = st.integers(0, 9) | st.sampled_from([FOREIGN, NOT_A_HANDLE])
OPERATIONS = st.one_of(
    st.builds(Match, TOKENS, st.none() | TEXT, CARRIED),
    st.builds(Insert, TOKENS, st.lists(st.integers(-1, 9), max_size=4).map(tuple),
              st.none() | TEXT, CARRIED),
    st.builds(Lock, HANDLES),
    st.builds(Unlock, HANDLES),
    st.builds(Evict, st.none() | st.booleans() | st.integers(-2, 9)
              | st.floats(allow_nan=False, allow_infinity=False)),
    st.just(Reset()),
)  # fmt: skip
CALLED = {
    "RadixCacheManager", "NaiveCacheManager", "new_manager", "ids", "slots", "kept", "overwrite",
    "kinds", "hash", "len", "isinstance", "type", "tuple", "sorted", "set", "AssertionError",
    "append", "fill_",
    "clear", "full", "tensor", "tolist", "dim", "raises", "match_prefix", "insert_prefix",
    "lock_handle", "evict", "reset", "check_integrity",
}  # fmt: skip
KINDS = {
    "Module", "Expr", "Constant", "Import", "ImportFrom", "alias", "Assign", "Name", "Load",
    "Store", "BinOp", "UnaryOp", "USub", "Add", "Mult", "Pow", "List", "Tuple", "FunctionDef",
    "arguments", "arg", "Return", "Call", "Attribute", "For", "Starred", "Subscript", "Slice",
    "keyword", "Assert", "Compare", "Eq", "NotEq", "Is", "In", "LtE", "GtE", "BoolOp", "And",
    "Try", "ExceptHandler", "Raise", "Pass", "With", "withitem", "ListComp", "comprehension",
}  # fmt: skip
OWN_STRINGS = {"cpu", "lru", "fifo", "accepted", "no handle", *NAMES.values()}  # fmt: skip


@settings(max_examples=200)
@given(
    operations=st.lists(OPERATIONS, max_size=8).map(tuple),
    configuration=st.builds(
        Configuration,
        page_size=st.integers(1, 3),
        num_pages=st.integers(1, 5),
        policy=st.sampled_from(["lru", "fifo"]),
        checked=st.booleans(),
    ),
    words=st.tuples(TEXT, TEXT, TEXT, TEXT),
    kind=st.none() | st.sampled_from(DivergenceKind),
    law=st.sampled_from(["sizes", "victims", "legal-victims", "handles", "refusals", "accepts"]),
    promises=st.sampled_from(
        [
            Promises(), Promises(eviction="legal"), Promises(keeps_prefixes=False),
            Promises(refusal_errors="builtin"), Promises(refusal_errors="any"),
        ]
    ),
    style=st.sampled_from(Style),
)  # fmt: skip
def test_nothing_of_a_trace_becomes_code(
    operations, configuration, words, kind, law, promises, style
):
    divergence = None
    if kind is not None and operations:
        last = len(operations) - 1
        divergence = Divergence(kind, law, last, operations[last], words[0], words[1])
    records = tuple(Record(words[0], f"slots {words[1]}", "") for _ in operations)
    trace = trace_of(
        operations, configuration, promises=promises, records=records, divergence=divergence,
        target=words[2], note=words[3],
    )  # fmt: skip
    text = export(trace, style)
    tree = ast.parse(text.encode())  # of bytes: what a comment says of the encoding counts
    namespaces = {getattr(operation, "namespace", None) for operation in operations}
    docstrings = {
        node.body[0].value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None
    }
    for node in ast.walk(tree):
        assert type(node).__name__ in KINDS
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {getattr(node, "module", None)} | {alias.name for alias in node.names}
            assert names <= {
                None, "pytest", "torch", "kvgpu", "RadixCacheManager", "NaiveCacheManager",
            }  # fmt: skip
        elif isinstance(node, ast.Call):
            assert getattr(node.func, "id", getattr(node.func, "attr", None)) in CALLED
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert node.value in OWN_STRINGS | namespaces | docstrings
    assert all("Calls on" in each or "Buffers" in each or "names" in each for each in docstrings)


@given(text=st.text() | TEXT)
def test_a_comment_is_one_line(text):
    line = comment(text)
    assert line.isprintable()
    assert line.startswith("# ")
    assert len(comment("x" * 10**5)) < 500


# ---------------------------------------------------------------------------------- the command


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path):
        trace = traced(
            TargetFactory(wrong_targets.ForgetsRecency),
            Insert((0, 1), (0, 1)), Insert((2,), (2,)), Match((0,)), Evict(2), num_pages=4,
        )  # fmt: skip
        assert trace.divergence is not None
        path = tmp_path / "a.jsonl"
        write_trace(path, MANAGER, trace.header, trace.program, trace.records)
        return path

    def run(self, *arguments: object, status: int = 0) -> str:
        result = CliRunner().invoke(app, ["export", *map(str, arguments)])
        assert result.exit_code == status, result.output
        return result.output

    def test_to_the_standard_output(self, path):
        text = self.run(path)
        assert text == export(read(path), Style.PYTEST)
        assert text != self.run(path, "--as", "script") == export(read(path), Style.SCRIPT)

    def test_to_a_file_with_another_manager(self, path, tmp_path):
        out = tmp_path / "new" / "test_it.py"
        said = self.run(path, "-o", out, "--manager", "my.engine:Cache").replace("\n", "")
        assert said.endswith(f"run it: pytest {out}")
        assert "from my.engine import Cache\n" in out.read_text()
        assert "Cache(" in out.read_text()

    def test_what_cannot_be_done(self, path, tmp_path):
        assert "is not module:Class" in self.run(path, "--manager", "os", status=2)
        assert "No such file" in self.run(tmp_path / "nowhere", status=2)
        self.run(path, "-o", path / "below", status=2)
        self.run(path, "--as", "poem", status=2)

    def test_as_a_process_of_its_own(self, path, tmp_path):
        out = tmp_path / "a.py"
        self.run(path, "--as", "script", "-o", out)
        done = subprocess.run([sys.executable, str(out)], env=ENVIRONMENT, check=False)
        assert done.returncode == 0
