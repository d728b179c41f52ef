"""Operations as values, as JSON, and as the Python that does the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvgpu import KVCacheError
from kvref.configuration import Configuration
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
    decode,
    encode,
    program,
)
from kvref.targets.kvgpu import radix
from tests.kvref.oracle_target import judge_of

TOKENS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(tuple)
NAMESPACES = st.none() | st.text(max_size=4)
CARRIED = st.sampled_from(["int64", "int32", "int64-strided", "int32-strided"])
HANDLES = st.integers(0, 99) | st.sampled_from([FOREIGN, NOT_A_HANDLE])
SIZES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Match, TOKENS, NAMESPACES, CARRIED),
    st.builds(Insert, TOKENS, TOKENS, NAMESPACES, CARRIED),
    st.builds(Lock, HANDLES),
    st.builds(Unlock, HANDLES),
    st.builds(Evict, SIZES),
    st.just(Reset()),
)


class TestJson:
    @given(OPERATIONS)
    @example(Evict(2**64))
    @example(Evict(1.0))
    @example(Evict(True))
    def test_decode_gives_back_what_encode_was_given(self, operation):
        line = encode(operation)
        assert b"\n" not in line
        again = decode(line)
        assert again == operation
        assert repr(again) == repr(operation)  # 1, 1.0 and True are equal, and not the same

    def test_defaults_take_no_room(self):
        assert encode(Match((1,))) == b'{"do":"match","tokens":[1]}'
        assert encode(Reset()) == b'{"do":"reset"}'
        assert encode(Unlock(FOREIGN)) == b'{"do":"unlock","handle":"foreign"}'

    @pytest.mark.parametrize(
        "line",
        [
            "",
            "null",
            "[]",
            "{}",
            '"reset"',
            '{"do":"reset"',
            '{"do":"reset"} x',
            '{"do":"Reset"}',
            '{"do":"flush"}',
            '{"do":null}',
            '{"do":"reset","now":1}',
            '{"do":"match"}',
            '{"do":"match","tokens":1}',
            '{"do":"match","tokens":["1"]}',
            '{"do":"match","tokens":[1.0]}',
            '{"do":"match","tokens":[true]}',
            '{"do":"match","tokens":[null]}',
            '{"do":"match","tokens":[],"namespace":0}',
            '{"do":"match","tokens":[],"namespce":"a"}',
            '{"do":"match","tokens":[],"carried":"int16"}',
            '{"do":"match","tokens":[],"slots":[]}',
            '{"do":"insert","tokens":[]}',
            '{"do":"insert","tokens":[],"slots":"0"}',
            '{"do":"lock"}',
            '{"do":"lock","handle":null}',
            '{"do":"lock","handle":true}',
            '{"do":"lock","handle":1.5}',
            '{"do":"lock","handle":"1"}',
            '{"do":"unlock","handle":"stale"}',
            '{"do":"evict"}',
            '{"do":"evict","size":"1"}',
            '{"do":"evict","size":[1]}',
            b'{"do":"match","tokens":[],"namespace":"\xff"}',
            "[" * 5000,
        ],
    )
    def test_what_encode_does_not_write_is_refused(self, line):
        with pytest.raises(msgspec.MsgspecError):
            decode(line)

    @given(st.binary(max_size=60) | st.text(max_size=60))
    def test_junk_is_refused_in_no_other_way(self, junk):
        with pytest.raises(msgspec.MsgspecError):
            decode(junk)


class TestValues:
    @given(OPERATIONS, OPERATIONS)
    def test_they_are_frozen_and_hash_by_value(self, operation, other):
        assert hash(decode(encode(operation))) == hash(operation)
        assert len({operation, decode(encode(operation))}) == 1
        assert (operation == other) <= (hash(operation) == hash(other))

    def test_no_field_can_be_set(self):
        with pytest.raises(AttributeError):
            Evict(1).size = 2  # type: ignore[misc]

    def test_a_lock_is_no_unlock(self):
        assert Lock(1) != Unlock(1)


class TestPython:
    @pytest.mark.parametrize(
        ("operation", "text"),
        [
            (Match((0, 1)), "h3, indices = cache.match_prefix(ids([0, 1]))"),
            (Match((0,), None, "int32-strided"),
             "h3, indices = cache.match_prefix(ids([0], dtype=torch.int32, stride=2))"),
            (Match((), "a'"), """h3, indices = cache.match_prefix(ids([]), namespace="a'")"""),
            (Match((), "", "int64-strided"),
             "h3, indices = cache.match_prefix(ids([], stride=2), namespace='')"),
            (Insert((7,), (4,)), "cache.insert_prefix(ids([7]), slots([4]))"),
            (Insert((7,), (4,), "a", "int32"),
             "cache.insert_prefix(ids([7], dtype=torch.int32), slots([4]), namespace='a')"),
            (Lock(2), "cache.lock_handle(h2)"),
            (Lock(FOREIGN), "cache.lock_handle(foreign)"),
            (Unlock(2), "cache.lock_handle(h2, unlock=True)"),
            (Unlock(NOT_A_HANDLE), 'cache.lock_handle("no handle", unlock=True)'),
            (Evict(2), "cache.evict(2)"),
            (Evict(True), "cache.evict(True)"),
            (Evict(None), "cache.evict(None)"),
            (Reset(), "cache.reset()"),
        ],
    )  # fmt: skip
    def test_as_operation_number_three(self, operation, text):
        assert operation.python(3) == text

    def test_alone_a_match_binds_no_handle(self):
        assert str(Match((0,))) == "cache.match_prefix(ids([0]))"
        assert str(Reset()) == "cache.reset()"

    @given(OPERATIONS)
    def test_the_text_is_python(self, operation):
        compile(operation.python(0), "<operation>", "exec")


RUN = (
    Insert((5, 6, 7, 8, 9), (0, 1, 2, 3, 9), None, "int32-strided"),
    Match((5, 6, 7, 8), None, "int64-strided"),
    Lock(1),
    Insert((5, 6, 1, 1), (0, 1, 4, 5), None, "int32"),
    Insert((5, 6), (6, 7), "a"),
    Evict(3),
    Match((5, 6, 1, 1)),
    Unlock(1),
    Evict(2),
    Reset(),
)
REFUSED = (
    Lock(FOREIGN),
    Unlock(NOT_A_HANDLE),
    Evict(-1),
    Evict(1000),
    Evict(True),
    Insert((1,), ()),
    Unlock(1),
)
PAGES_OF_TWO = Configuration(page_size=2, num_pages=8)


def executed(configuration: Configuration, operations: Any) -> dict[str, Any]:
    """What the program leaves in its namespace when it runs from top to bottom."""
    names: dict[str, Any] = {}
    exec(program(configuration, operations), names)
    return names


class TestProgram:
    @pytest.mark.parametrize("length", range(len(RUN) + 1))
    def test_executed_it_leaves_the_manager_as_the_judged_run_does(self, length):
        operations = RUN[:length]
        target = radix(PAGES_OF_TWO)
        judge = judge_of(target, *operations, configuration=PAGES_OF_TWO)
        assert judge.divergence is None
        assert judge.accepted == length
        names = executed(PAGES_OF_TWO, operations)
        bridge = radix(PAGES_OF_TWO)
        bridge.manager = names["cache"]
        assert bridge.fingerprint() == target.fingerprint()
        for index, operation in enumerate(operations):
            if isinstance(operation, Match):
                assert names[f"h{index}"].cached_len == judge._handles[index].cached_len

    @pytest.mark.parametrize("wrong", REFUSED, ids=str)
    def test_what_the_judge_saw_refused_it_is_refused_too(self, wrong):
        operations = (*RUN[:2], wrong)
        judge = judge_of(radix(PAGES_OF_TWO), *operations, configuration=PAGES_OF_TWO)
        assert judge.divergence is None
        assert len(judge.refused) == 1
        executed(PAGES_OF_TWO, operations[:-1])
        with pytest.raises(KVCacheError):
            executed(PAGES_OF_TWO, operations)

    def test_with_what_was_refused_and_not_issued_it_runs_to_its_end(self):
        operations = (*RUN[:2], *REFUSED, Lock(99), *RUN[2:3], Unlock(1), Evict(4))
        target = radix(PAGES_OF_TWO)
        judge = judge_of(target, *operations, configuration=PAGES_OF_TWO)
        assert judge.divergence is None
        assert (len(judge.refused), len(judge.skipped)) == (len(REFUSED), 1)
        names: dict[str, Any] = {}
        exec(judge.program(), names)
        bridge = radix(PAGES_OF_TWO)
        bridge.manager = names["cache"]
        assert bridge.fingerprint() == target.fingerprint()
        assert "# not issued: cache.lock_handle(h99)" in judge.program()

    @pytest.mark.parametrize("policy", ["lru", "fifo"])
    def test_it_builds_the_manager_of_the_configuration(self, policy):
        configuration = Configuration(page_size=3, num_pages=5, policy=policy, checked=False)
        names = executed(
            configuration, [Insert((1,) * 3, (0, 1, 2)), Insert((2,) * 3, (12, 13, 14))]
        )
        names["cache"].match_prefix(names["ids"]([1, 1, 1]))
        assert names["cache"].evict(1).tolist() == ([12, 13, 14] if policy == "lru" else [0, 1, 2])

    def test_a_foreign_handle_is_made_only_where_one_is_named(self):
        assert "foreign" not in program(PAGES_OF_TWO, RUN)
        assert program(PAGES_OF_TWO, [Lock(FOREIGN)]).count("foreign") == 2
