"""Exported programs of whole requests fail where the trace fails, pass on kvgpu, and are calls."""

from __future__ import annotations

import ast
import traceback
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from kvref.campaign import REQUESTS_LOOK_EVERY, Totals, campaign, start_locally
from kvref.cli.app import app
from kvref.divergence import Divergence, DivergenceKind
from kvref.export.exporters import export
from kvref.export.text import ManagerName, Style
from kvref.machine import Program
from kvref.refusals import NAMES
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.laws import REQUEST_LAWS
from kvref.requests.machine import REQUESTS, RequestBench
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    RequestOperation,
    Store,
)
from kvref.requests.promises import RequestPromises
from kvref.requests.target import RequestTargetFactory
from kvref.shrink import shrink
from kvref.targets.kvgpu_requests import naive_requests, radix_requests
from kvref.traces.failures import write_failure
from kvref.traces.format import Trace
from kvref.traces.reader import read
from kvref.traces.writer import divergence_line, header_of, write_trace
from tests.faults.request_faults import REQUEST_FAULTS

FIRST_RUN = {"commit-of-the-cached-does-not-refresh": 188}
"""Of campaigns that find a fault late: where to begin, to save the time."""
NEVER_SHOWS = {"refused-begin-has-refreshed"}
"""In what the campaign finds of it first, one node is cached: no use changes what goes first."""
SHRUNK = (
    "out-loc-begins-with-the-page", "commit-hides-it-from-the-device", "keeps-the-callers-prompt",
    "finish-of-the-cached-does-not-refresh", "refused-begin-has-split",
    "refused-extend-loses-pages", "flush-takes-what-it-can", "tail-is-freed-twice",
)  # fmt: skip
DIFFERS = ("# When this was recorded, it was: ", "# What differs is inside")


def broken(fault: str) -> ManagerName:
    return ManagerName("tests.faults.managers", fault.title().replace("-", ""))


def trace_of(
    operations: tuple[RequestOperation, ...],
    configuration: RequestConfiguration | None = None,
    *,
    promises: RequestPromises | None = None,
    divergence: Divergence | None = None,
    target: str | None = None,
    note: str | None = None,
    look_every: int = 1,
) -> Trace:
    configuration = configuration or RequestConfiguration()
    promises = promises or RequestPromises()
    header = header_of(
        REQUESTS, target, promises, configuration, note=note, look_every=look_every
    )  # fmt: skip
    ending = divergence_line(divergence) if divergence is not None else None
    return Trace(header, REQUESTS, promises, Program(operations, configuration), (), ending)


def found(fault: str) -> tuple[RequestTargetFactory, Program, Divergence]:
    """What a campaign finds first."""
    target = REQUEST_FAULTS[fault].target
    runs = campaign(
        start_locally(target, 10.0), target, 0, Totals(),
        first_run=FIRST_RUN.get(fault, 0), look_every=REQUESTS_LOOK_EVERY,
    )  # fmt: skip
    failure = next(failure for failure in islice(runs, 400) if failure)
    return target, Program(failure.operations, failure.configuration), failure.divergence


def executed(text: str) -> None:
    exec(compile(text, "<exported>", "exec"), {})


def line_it_fails_in(text: str) -> int | None:
    try:
        executed(text)
    except (Exception, pytest.fail.Exception) as error:
        frames = traceback.extract_tb(error.__traceback__)
        mine = [f for f in frames if (f.filename, f.name) == ("<exported>", "<module>")]
        return mine[-1].lineno
    return None


def fails_at_the_recorded_comparison(text: str) -> bool:
    """At or after it, that is: nothing that the program asks for before it fails."""
    line = line_it_fails_in(text)
    lines = enumerate(text.splitlines(), 1)
    differs = next(number for number, words in lines if words.startswith(DIFFERS))
    return line is not None and line > differs


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory):
    """A shrunk trace, and what lies beside it, for some faults."""
    folder = tmp_path_factory.mktemp("shrunk")
    for name in SHRUNK:
        target, program, _ = found(name)
        bench = RequestBench(target, look_every=REQUESTS_LOOK_EVERY)
        short = shrink(REQUESTS, bench, program, seconds=0.2)
        assert write_failure(
            folder / f"{name}.jsonl", REQUESTS, bench, short.program, short.divergence,
            target="kvgpu-radix", look_every=short.look_every,
        )  # fmt: skip
    return folder


class TestFaults:
    @pytest.mark.parametrize("name", sorted(REQUEST_FAULTS))
    def test_what_a_campaign_finds_fails_there_and_passes_on_the_healthy(self, name):
        _, program, divergence = found(name)
        trace = trace_of(
            program.operations, program.configuration, divergence=divergence,
            target="kvgpu-radix", look_every=REQUESTS_LOOK_EVERY,
        )  # fmt: skip
        text = export(trace, Style.SCRIPT, broken(name))
        assert fails_at_the_recorded_comparison(text) == (name not in NEVER_SHOWS)
        executed(export(trace, Style.SCRIPT))

    def test_so_does_a_shrunk_one(self, shrunk):
        for name in SHRUNK:
            trace = read(shrunk / f"{name}.jsonl")
            text = export(trace, Style.SCRIPT, broken(name))
            assert fails_at_the_recorded_comparison(text), name
            assert "import kvref" not in text
            assert "from kvref" not in text
            executed(export(trace, Style.SCRIPT))

    def test_the_one_beside_a_failure_is_the_exported_script(self, shrunk):
        for name in SHRUNK:
            path = shrunk / f"{name}.jsonl"
            assert path.with_suffix(".py").read_text() == export(read(path), Style.SCRIPT)

    def test_as_a_module_it_is_one_test_that_fails_and_passes(self, shrunk):
        for name in SHRUNK:
            trace = read(shrunk / f"{name}.jsonl")
            test = f"test_{trace.divergence.kind.value.replace('-', '_')}"
            for manager, fails in ((broken(name), True), (None, False)):
                text = export(trace, Style.PYTEST, manager)
                module: dict[str, object] = {}
                exec(compile(text, "<exported>", "exec"), module)
                assert [each for each in module if each.startswith("test_")] == [test]
                assert (line_it_fails_in(f"{text}\n{test}()\n") is not None) == fails, name

    def test_a_use_that_a_refused_begin_left_shows_where_something_else_may_go_first(self):
        run = (
            Begin((0,)), Store(0), Finish(0), Begin((1,)), Store(3), Finish(3), Begin((0, 1, 2, 3)),
        )  # fmt: skip
        divergence = Divergence(
            DivergenceKind.LEFT_A_TRACE, "request-refused-unchanged", 6, run[6], "", ""
        )
        configuration = RequestConfiguration(num_pages=3, max_len=4)
        trace = trace_of(run, configuration, divergence=divergence)
        executed(export(trace, Style.SCRIPT))
        text = export(trace, Style.SCRIPT, broken("refused-begin-has-refreshed"))
        assert text.endswith(
            "assert cache.evict(1).tolist() == row0\nassert cache.evict(1).tolist() == row3\n"
        )
        assert line_it_fails_in(text) == len(text.splitlines()) - 1


RUN = (
    Begin((0, 1, 2), namespace="a", max_tokens=2),
    Store(7),
    Store(0),
    Commit(0),
    Extend(0, 2, (3,)),
    Store(0),
    Append(0, (3,)),
    Begin((0, 1, 2, 3), namespace="a", carried="int32-strided"),
    Store(7),
    Finish(0),
    Commit(7),
    Extend(0, 1),
    Begin(()),
    Begin((5, 6)),
    Begin((5, 6, 7)),
    Flush(),
    Preempt(7),
    Abort(13),
    Flush(),
)
SMALL = RequestConfiguration(num_pages=8, max_requests=2)


class TestWhatItAsserts:
    @pytest.mark.parametrize("style", Style)
    @pytest.mark.parametrize("page_size", [1, 2, 3])
    @pytest.mark.parametrize("look_every", [1, 4])
    def test_a_right_manager_passes(self, style, page_size, look_every):
        configuration = RequestConfiguration(page_size=page_size, num_pages=8, max_requests=2)
        text = export(trace_of(RUN, configuration, look_every=look_every), style)
        executed(text if style is Style.SCRIPT else f"{text}\ntest_it()\n")
        assert text.count("Has to be refused") == 4
        assert "does not fit what went before: store(r7)" in text

    @pytest.mark.parametrize("factory", [radix_requests(), naive_requests])
    def test_it_passes_on_what_campaigns_find_nothing_in(self, factory):
        bench = RequestBench(factory, look_every=REQUESTS_LOOK_EVERY)
        for name in ("commit-of-the-cached-does-not-refresh", "refused-begin-has-split"):
            _, program, _ = found(name)
            assert bench.run(program) is None
            trace = trace_of(
                program.operations, program.configuration, promises=factory.promises, look_every=7
            )
            executed(export(trace, Style.SCRIPT))

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8",
                                       "float8_e4m3fn", "float8_e5m2"])  # fmt: skip
    @pytest.mark.parametrize("layout", ["LayerFirst", "PageFirst"])
    def test_every_dtype_and_layout_holds_the_rows(self, dtype, layout):
        configuration = RequestConfiguration(
            page_size=2, num_pages=8, max_requests=2, layers=2, kv_heads=2, dtype=dtype,
            layout=layout,
        )  # fmt: skip
        executed(export(trace_of(RUN, configuration), Style.SCRIPT))

    def test_what_is_shared_is_at_the_slots_of_who_had_it_first(self):
        text = export(trace_of(RUN, SMALL), Style.SCRIPT)
        assert "assert row7[:2] == row0[:2]\n" in text
        assert "assert read(row7[:2]) == names([0, 1], 'a')\n" in text
        assert "row7[2:4] = row0[2:]  # the cache had these already" in text
        assert "assert_given(row7, 2, 4, taken=row0)\n" in text
        assert "assert r7.preempt().tolist() == [0, 1, 2, 3]\n" in text

    def test_a_commit_takes_over_from_each_who_had_a_part_of_it_first(self):
        run = (
            Begin((0, 1, 2, 3, 4)), Begin((0, 1)), Store(1), Commit(1), Begin((0, 1, 2, 3)),
            Store(4), Commit(4), Store(0), Commit(0),
        )  # fmt: skip
        text = export(trace_of(run, RequestConfiguration(num_pages=12)), Style.SCRIPT)
        assert "row0[:2] = row1  # the cache had these already" in text
        assert "row0[2:4] = row4[2:]  # the cache had these already" in text
        executed(text)

    def test_every_eighth_store_is_told_where_to_as_a_kernel_is(self):
        run = (Begin((0,)), Store(0), *(each for _ in range(8) for each in (Extend(0, 1, (1,)),
               Store(0), Append(0, (1,)))))  # fmt: skip
        text = export(trace_of(run, RequestConfiguration(num_pages=9)), Style.SCRIPT)
        assert text.count(", on_device=True)") == 1
        executed(text)

    @pytest.mark.parametrize(
        ("kind", "law", "operation", "end"),
        [
            ("nothing-left-to-compute", "token-left", 7, "assert r7.cached_len == 2\n"),
            ("admission-match", "admission-match", 7, "assert r7.cached_len == 2\n"),
            ("row", "taken-over", 7, "assert row7[:2] == row0[:2]\n"),
            ("shortfall", "shortfall", 7, "total_size == 2  # what was missing is evicted\n"),
            ("pages", "pages-owned", 7, "assert_given(row7, 2, 4, taken=row0)\n"),
            ("pages", "pages-owned", 4, "assert_given(row0, 2, 4, taken=row0[:2])\n"),
            ("request-lengths", "request-lengths", 4, "r0.extended_len) == (2, 4)\n"),
            ("row", "taken-over", 10, "assert values(r7.slots(2)) == row7[2:]\n"),
            ("row", "rows-stay", 5, "assert values(r0.slots()) == row0\n"),
            ("content", "content-cached", 4, "assert read(row0[:2]) == names([0, 1], 'a')\n"),
            ("content", "content-running", 5,
             "assert read(row0[2:]) == names([0, 1, 2, 3], 'a')[2:]\n"),
            ("integrity", "ledger", 5, "\ncheck((r0, row0))\n"),
            ("sizes", "request-sizes", 9, "== (2, 2, 2)  # evictable, protected, pages free\n"),
            ("free-pages", "free-pages", 9, "== (2, 2, 2)  # evictable, protected, pages free\n"),
            ("not-drained", "drained", 18, "== (0, 0, 8)  # evictable, protected, pages free\n"),
            ("preempted-tokens", "preempted-tokens", 16, ".tolist() == [0, 1, 2, 3]\n"),
            ("refused-what-is-allowed", "request-accepts", 9, "evictable, protected, pages free\n"),
            ("accepted-what-is-forbidden", "request-refusals", 14, '("accepted")\n'),
            ("refused-with-the-wrong-error", "request-refusals", 14, '("accepted")\n'),
            ("malformed-answer", "request-accepts", 4,
             "{*map(type, (*pool(), r0.cached_len, r0.extended_len, *row0,))} == {int}\n"),
            ("malformed-answer", "request-accepts", 10, ", *row7,))} == {int}\n"),
            ("hang", "requests-in-time", 9, "\ncheck((r7, row7))\n"),
            ("crash", "requests-in-time", 4, "\ncheck((r0, row0))\n"),
            ("structure", "request-structure", 5, "assert cache.evict(1).tolist() == row0[:2]\n"),
            ("refused-call-left-a-trace", "request-refused-unchanged", 14,
             "assert cache.evict(1).tolist() == row0[:2]\n"),
        ],
    )  # fmt: skip
    def test_it_ends_with_what_differed(self, kind, law, operation, end):
        ending = Divergence(DivergenceKind(kind), law, operation, RUN[operation], "e", "1 left")
        trace = trace_of(RUN, SMALL, divergence=ending, look_every=1 if law in LOOKED else 99)
        text = export(trace, Style.SCRIPT)
        assert text.endswith(end)
        executed(text)
        assert "\n# When this was recorded, it was: 1 left\n" in text
        if kind in ("hang", "crash"):
            assert "the call itself is what differs" in text

    def test_structure_is_brought_out_by_what_is_found_again_in_its_namespace_alone(self):
        ending = Divergence(DivergenceKind.STRUCTURE, "request-structure", 3, RUN[3], "e", "g")
        configuration = RequestConfiguration(num_pages=8, max_requests=2, dtype="int8")
        trace = trace_of(RUN, configuration, divergence=ending)
        text = export(trace, Style.SCRIPT)
        executed(text)
        assert "r5 = requests.begin(ids([0, 1, 0]), namespace='a', max_tokens=1)" in text
        assert "r7 = requests.begin(ids([0, 1, 0]), max_tokens=1)" in text
        dropped = export(trace, Style.SCRIPT, broken("begin-drops-the-namespace"))
        line = line_it_fails_in(dropped)
        assert line is not None
        assert dropped.splitlines()[line - 1] == "assert r7.cached_len == 0"

    def test_each_kind_of_request_has_its_ending_above(self):
        marks = self.test_it_ends_with_what_differed.pytestmark
        (cases,) = [mark.args[1] for mark in marks if mark.name == "parametrize"]
        assert {law for _, law, *_ in cases} == set(REQUEST_LAWS)

    def test_slots_that_a_target_said_it_evicted_are_brought_out_by_what_is_left(self):
        run = (Begin((0,)), Store(0), Finish(0), Begin((1,)), Store(3), Finish(3), Begin((2,)))
        ending = Divergence(
            DivergenceKind.SHORTFALL, "shortfall", 6, run[6], "1 slots evicted: [0]", "[1]"
        )
        trace = trace_of(run, RequestConfiguration(num_pages=2), divergence=ending)
        text = export(trace, Style.SCRIPT)
        assert text.endswith("assert cache.evict(1).tolist() == row3\n")
        executed(text)


LOOKED = ("ledger", "content-running", "content-cached", "rows-stay", "request-structure")


class TestPromises:
    def test_a_target_without_namespaces_is_not_given_any(self):
        text = export(
            trace_of(RUN, SMALL, promises=RequestPromises(namespaces=False)), Style.SCRIPT
        )
        assert text.count("Not issued") == 13
        executed(text)

    def test_refusals_are_asked_for_as_promised(self):
        run = (Begin((0, 1)),)
        small = RequestConfiguration(num_pages=1, max_len=2)
        named = export(trace_of(run, small), Style.PYTEST)
        assert 'assert "NoRoom" in kinds(error) and error.needed == 2 and error.free == 1' in named
        builtin = RequestPromises(refusal_errors="builtin")
        text = export(trace_of(run, small, promises=builtin), Style.PYTEST)
        assert "with pytest.raises(RuntimeError):" in text
        assert "kinds(" not in text
        for each in (named, text):
            executed(f"{each}\ntest_it()\n")

    def test_where_the_wrong_error_came_whatever_comes_is_compared(self):
        run = (Begin((0, 1)),)
        small = RequestConfiguration(num_pages=1, max_len=2)
        ending = Divergence(
            DivergenceKind.WRONG_REFUSAL, "request-refusals", 0, run[0], "", "KeyError: 1"
        )
        test, script = (export(trace_of(run, small, divergence=ending), each) for each in Style)
        compared = 'assert isinstance(error, RuntimeError) and "NoRoom" in kinds(error) and '
        assert f"except Exception as error:\n    {compared}" in script
        assert "with pytest.raises(Exception) as caught:\n" in test
        assert f"error = caught.value\n    {compared}" in test
        executed(script)

    def test_where_it_was_accepted_the_call_is_what_fails(self):
        run = (Begin((0, 1)),)
        ending = Divergence(DivergenceKind.ACCEPTED, "request-refusals", 0, run[0], "", "accepted")
        small = RequestConfiguration(num_pages=1, max_len=2)
        text = export(trace_of(run, small, divergence=ending), Style.PYTEST)
        assert text.endswith(
            "    with pytest.raises(RuntimeError):\n        r0 = requests.begin(ids([0, 1]))\n"
        )

    def test_a_begin_that_matches_before_it_is_refused_is_followed(self):
        run = (
            Begin((0,)), Store(0), Finish(0), Begin((1,)), Store(3), Finish(3), Begin((0, 1, 2, 3)),
            Begin((2, 2)),
        )  # fmt: skip
        configuration = RequestConfiguration(num_pages=3, max_len=4)
        ending = Divergence(DivergenceKind.STRUCTURE, "request-structure", 7, run[7], "", "")
        matches = RequestPromises(refused_begin="match")
        text = export(
            trace_of(run, configuration, promises=matches, divergence=ending), Style.SCRIPT
        )
        assert text.endswith("assert cache.evict(1).tolist() == row0\n")
        assert "has matched before it was refused" in text
        other = export(trace_of(run, configuration, divergence=ending), Style.SCRIPT)
        assert other.endswith("assert cache.evict(1).tolist() == row3\n")
        executed(other)

    def test_victims_of_its_own_choice_end_it_with_what_was_called_next(self):
        run = (Begin((0,)), Store(0), Finish(0), Begin((1,)), Abort(3), Flush())
        text = export(
            trace_of(run, RequestConfiguration(num_pages=1),
                     promises=RequestPromises(eviction="legal")),
            Style.SCRIPT,
        )  # fmt: skip
        assert text.endswith(
            "and was not recorded. What was called next:\n"
            "# r3 = requests.begin(ids([1]))\n# r3.abort()\n# requests.flush()\n"
        )
        executed(text)

    def test_a_manager_that_remembers_nothing(self):
        trace = trace_of(RUN, SMALL, promises=naive_requests.promises, target="kvgpu-naive")
        text = export(trace, Style.SCRIPT)
        assert '    return NaiveCacheManager("cpu", page_size=PAGE_SIZE)\n' in text
        executed(text)


class TestNames:
    @pytest.mark.parametrize("target", ["kvgpu-radix", "kvgpu-naive", "os:system", None])
    def test_the_class_is_that_of_kvgpu(self, target):
        text = export(trace_of((), target=target), Style.SCRIPT)
        assert (
            "from kvgpu import KVCacheLayout, MHAKVCache, RadixCacheManager, RequestManager" in text
        )
        assert ("put it in its" in text) == (target not in ("kvgpu-radix", "kvgpu-naive"))

    def test_or_the_one_that_is_named(self):
        text = export(trace_of(()), Style.PYTEST, ManagerName("my.engine", "Requests"))
        assert "from my.engine import Requests\n" in text
        assert "    return Requests(cache, kv_cache, max_requests=4)\n" in text
        assert "put it in its" not in text

    def test_by_the_command(self, tmp_path):
        trace = trace_of(RUN, SMALL)
        path = tmp_path / "a.jsonl"
        write_trace(path, REQUESTS, trace.header, trace.program, trace.records)
        result = CliRunner().invoke(
            app, ["export", str(path), "--as", "script", "--manager", "kvgpu:RequestManager"]
        )
        assert result.exit_code == 0
        assert "put it in its" not in result.output
        executed(result.output)


# -------------------------------------------------------------------------------- hostile traces

# Text that would be code, or change how code is read, if it came out of a comment or a string.
TEXT = st.text(max_size=40) | st.sampled_from(
    [
        "\n import os", "'''", '"""', "\\", "\r\nimport os", "\x0cimport os", "\u2028x = 1",
        "'); import os; ('", "coding: utf-7", "\0", "{}", "%s", "\u202eevil", "# type: int",
    ]
)  # fmt: skip
TOKENS = st.lists(
    st.integers(0, 2) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=5
).map(tuple)  # fmt: skip
COUNTS = st.integers(-1, 4) | st.sampled_from([-(2**31) + 1, 2**31 - 1])
NUMBERS = st.integers(0, 4) | st.just(2**70)
OPERATIONS = st.one_of(
    st.builds(
        Begin, TOKENS, st.none() | TEXT, st.none() | COUNTS,
        st.sampled_from(["int64", "int64-strided"]),
    ),
    st.builds(Extend, NUMBERS, COUNTS, TOKENS),
    st.builds(Append, NUMBERS, TOKENS),
    *(st.builds(kind, NUMBERS) for kind in (Store, Commit, Finish, Abort, Preempt)),
    st.just(Flush()),
)  # fmt: skip
CALLED = {
    "KVCacheLayout", "MHAKVCache", "NaiveCacheManager", "RadixCacheManager", "RequestManager",
    "new_cache", "new_kv_cache", "new_requests", "kept", "ids", "overwrite", "values", "names",
    "rows", "digits", "store", "read", "pool", "assert_given", "check", "kinds", "view",
    "begin", "extend", "append", "commit", "finish", "abort", "preempt", "flush", "slots",
    "upload", "mark_stored", "check_ledger", "evict", "store_kv", "k_cache", "v_cache",
    "zero_", "fill", "fill_", "clear", "full", "tensor", "as_tensor", "to", "tolist", "double",
    "equal", "setdefault", "raises", "len", "range", "zip", "divmod", "sum", "int", "enumerate",
    "all", "type", "map", "isinstance", "AssertionError",
}  # fmt: skip
IMPORTED = {
    None, "pytest", "torch", "kvgpu", "KVCacheLayout", "MHAKVCache", "NaiveCacheManager",
    "RadixCacheManager", "RequestManager",
}  # fmt: skip
OWN_STRINGS = {"cpu", "lru", "fifo", "accepted", *NAMES.values()}


@settings(max_examples=100)
@given(
    operations=st.lists(OPERATIONS, max_size=10).map(tuple),
    configuration=st.builds(
        RequestConfiguration,
        page_size=st.integers(1, 3),
        num_pages=st.integers(1, 5),
        max_requests=st.integers(1, 3),
        max_len=st.none() | st.integers(1, 5),
        policy=st.sampled_from(["lru", "fifo"]),
        dtype=st.sampled_from(["float32", "int8"]),
    ),
    words=st.tuples(TEXT, TEXT, TEXT, TEXT),
    kind=st.none() | st.sampled_from(DivergenceKind),
    law=st.sampled_from(sorted(REQUEST_LAWS)) | TEXT,
    at=st.integers(0, 9),
    promises=st.sampled_from(
        [
            RequestPromises(), RequestPromises(eviction="legal"), naive_requests.promises,
            RequestPromises(refusal_errors="any", refused_begin="match"),
        ]
    ),
    style=st.sampled_from(Style),
    look_every=st.sampled_from([1, 3, 2**70]),
)  # fmt: skip
def test_nothing_of_a_trace_becomes_code_and_kvgpu_passes(
    operations, configuration, words, kind, law, at, promises, style, look_every
):
    divergence = None
    if kind is not None and operations:
        last = min(at, len(operations) - 1)
        divergence = Divergence(kind, law, last, operations[last], words[0], words[1])
    trace = trace_of(
        operations, configuration, promises=promises, divergence=divergence,
        target=words[2], note=words[3], look_every=look_every,
    )  # fmt: skip
    text = export(trace, style)
    tree = ast.parse(text.encode())  # of bytes: what a comment says of the encoding counts
    namespaces = {getattr(operation, "namespace", None) for operation in operations}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            assert isinstance(body, list)
            del body[0]  # what a docstring says is our own
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {getattr(node, "module", None)} | {alias.name for alias in node.names}
            assert names <= IMPORTED
        elif isinstance(node, ast.Call):
            assert getattr(node.func, "id", getattr(node.func, "attr", None)) in CALLED
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert node.value in OWN_STRINGS | namespaces
    if promises.refused_begin == "nothing":
        compile(text, "<exported>", "exec")
        executed(text)
