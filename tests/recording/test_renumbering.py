"""Renumbered sequences begin alike exactly as far as they did, and so a cache does the same."""

from __future__ import annotations

import struct
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from kvref.configuration import Configuration
from kvref.oracle import Handle, Oracle
from kvref.recording.renumbering import Renumbering
from kvref.refusals import Refused

# Extreme tokens, and tokens that are alike in half of their bytes.
TOKEN = st.sampled_from([0, 1, 2, -1, 2**32, 2**63 - 1, -(2**63)])
SEQUENCE = st.lists(TOKEN, max_size=12).map(tuple)


def data(tokens):
    return struct.pack(f"={len(tokens)}q", *tokens)


def shared(one, other):
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


@st.composite
def related(draw):
    """Sequences that extend, cut and leave earlier ones."""
    made = [draw(SEQUENCE)]
    for _ in range(draw(st.integers(0, 12))):
        base = draw(st.sampled_from(made))
        made.append(base[: draw(st.integers(0, len(base)))] + draw(SEQUENCE))
    return made


@given(sequences=related())
def test_two_sequences_share_as_many_tokens_as_before(sequences):
    numbering = Renumbering()
    numbered = [numbering.tokens(data(each), None) for each in sequences]
    for one, other in combinations(range(len(sequences)), 2):
        before = shared(sequences[one], sequences[other])
        assert shared(numbered[one], numbered[other]) == before
    assert [len(each) for each in numbered] == [len(each) for each in sequences]
    assert [numbering.tokens(data(each), None) for each in sequences] == numbered


@given(sequences=related())
def test_numbers_are_given_by_first_appearance(sequences):
    numbering = Renumbering()
    after: dict[tuple[int, ...], list[int]] = {}
    for sequence in sequences:
        expected = []
        for at, token in enumerate(sequence):
            seen = after.setdefault(sequence[:at], [])
            if token not in seen:
                seen.append(token)
            expected.append(seen.index(token))
        assert numbering.tokens(data(sequence), None) == expected


@given(
    page_size=st.integers(1, 4),
    policy=st.sampled_from(["lru", "fifo"]),
    steps=st.lists(
        st.tuples(st.sampled_from("miile"), st.integers(0, 12), st.integers(0, 9)), max_size=30
    ),
    sequences=related(),
    spaces=st.lists(st.sampled_from([None, "", "tenant", "other"]), min_size=1, max_size=3),
)
def test_the_oracle_has_the_same_lengths_victims_and_splits(
    page_size, policy, steps, sequences, spaces
):
    """Any operations, on the sequences as they were and as they are numbered."""
    configuration = Configuration(page_size=page_size, num_pages=200, policy=policy)
    was, now = Oracle(configuration), Oracle(configuration)
    numbering = Renumbering()
    handles: list[tuple[Handle, Handle]] = []
    page = 0
    for do, which, number in steps:
        tokens = sequences[which % len(sequences)]
        space = spaces[number % len(spaces)]
        named = numbering.namespace(space)
        numbered = numbering.tokens(data(tokens), named)
        if do == "m":
            one, other = was.match_prefix(tokens, space), now.match_prefix(numbered, named)
            assert one[1] == other[1]
            assert one[0].cached_len == other[0].cached_len
            handles.append((one[0], other[0]))
        elif do == "i":
            own = was.cached_slots(tokens, space)
            assert own == now.cached_slots(numbered, named)
            new = range(page * page_size, page * page_size + len(tokens) - len(own))
            page += len(new) // page_size + 1
            slots = [*own, *new]
            assert was.insert_prefix(tokens, slots, space) == now.insert_prefix(
                numbered, slots, named
            )
        elif do == "l" and handles:
            one, other = handles[number % len(handles)]
            assert outcome(was.lock_handle, one) == outcome(now.lock_handle, other)
        elif do == "e":
            assert outcome(was.evict, number) == outcome(now.evict, number)
        # A node by its length, slots and locks: all but what its tokens are.
        assert shape(was) == shape(now)


def outcome(call, *arguments):
    try:
        return call(*arguments)
    except Refused as refused:
        return str(refused)


def shape(oracle):
    return sorted((len(node.prefix), node.slots, node.lock_count) for node in oracle.nodes())


def test_namespaces_are_numbered_and_the_empty_one_and_none_stay():
    numbering = Renumbering()
    given_names = ["tenant", None, "", "other", "tenant"]
    assert [numbering.namespace(each) for each in given_names] == ["n0", None, "", "n1", "n0"]
    assert numbering.tokens(data((7, 7)), "n0") == numbering.tokens(data((9, 8)), "n1") == [0, 0]
    assert numbering.tokens(data((8,)), "n0") == [1]


def test_a_long_prompt_takes_no_recursion_and_little_time():
    numbering = Renumbering()
    prompt = data(range(100_000))
    assert numbering.tokens(prompt, None) == [0] * 100_000
    for cut in range(0, 100_000, 1_000):
        other = prompt[: 8 * cut] + data((-1,))
        assert numbering.tokens(other, None)[-1] == 1
