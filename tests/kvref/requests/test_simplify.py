"""What the passes offer for a program of whole requests, each of them simpler."""

from __future__ import annotations

from itertools import chain

import pytest

from kvref.machine import Program
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.operations import Append, Begin, Extend, RequestOperation, Store
from kvref.requests.promises import RequestPromises
from kvref.requests.simplify import PASSES, canonical, size

PAIRS = RequestConfiguration(page_size=2, num_pages=4, max_requests=2, policy="fifo", checked=False)


def offers(*operations: RequestOperation, configuration=PAIRS, **promises) -> list[Program]:
    program = Program(operations, configuration)
    passes = (each(program, RequestPromises(**promises)) for each in PASSES)
    return list(chain.from_iterable(passes))


def offered(*operations: RequestOperation) -> list[tuple[RequestOperation, ...]]:
    """The operations that are offered for these in the same configuration."""
    return [each.operations for each in offers(*operations) if each.configuration == PAIRS]


def test_whatever_is_offered_is_simpler_so_that_it_ends():
    operations = (
        Begin((7, 7, 5), "b", max_tokens=2, carried="int32"), Begin((5,), "a"), Store(0),
        Extend(0, 3, (9, 5)), Append(0, (9, 9)),
    )  # fmt: skip
    program = Program(operations, PAIRS)
    found = offers(*operations)
    assert found
    assert all(size(each) < size(program) for each in found)
    plain = canonical(program)
    assert plain not in offers(*plain.operations)


@pytest.mark.parametrize(
    ("field", "promise", "value"),
    [
        ("page_size", {"page_sizes": (2,)}, 1),
        ("policy", {"policies": ("fifo",)}, "lru"),
        ("checked", {"checked_inserts": False}, True),
    ],
)
def test_a_configuration_that_the_target_does_not_promise_is_not_offered(field, promise, value):
    assert any(getattr(each.configuration, field) == value for each in offers(Begin((0,))))
    found = offers(Begin((0,)), **promise)
    assert found
    assert all(getattr(each.configuration, field) != value for each in found)


def test_all_namespaces_go_at_once_before_one_goes():
    first = next(each for each in offered(Begin((0,), "a"), Begin((0,), "b")))
    assert first == (Begin((0,)), Begin((0,)))


def test_all_prompts_are_given_whole_and_carried_as_usual_at_once():
    found = offered(*(Begin((0, 1), None, 1, "int32") for _ in range(2)))
    assert (Begin((0, 1), None, 1), Begin((0, 1), None, 1)) in found
    assert (Begin((0, 1), None, None, "int32"), Begin((0, 1), None, None, "int32")) in found


def test_fewer_requests_at_once_are_offered():
    assert any(each.configuration.max_requests == 1 for each in offers(Begin((0,))))


def test_a_shorter_extend_tells_no_more_ahead_than_it_has_slots_for():
    assert (Extend(0, 1, (5,)),) in offered(Extend(0, 3, (5, 6, 7)))
    assert (Extend(0, 2, ()),) in offered(Extend(0, 4, (5,)))


def test_each_single_token_and_page_may_be_left_out():
    left = {each[0].tokens for each in offered(Begin((0, 1, 2, 3))) if len(each[0].tokens) < 4}
    assert {(1, 2, 3), (0, 1, 2), (2, 3), (0, 3), (0, 1)} <= left


def test_an_append_of_nothing_is_not_offered():
    assert all(each[0].tokens for each in offered(Append(0, (1, 2))))


def test_smaller_pages_take_the_first_tokens_of_each_and_their_share_of_an_extend():
    operations = (Begin((0, 1, 2, 3, 4)), Extend(0, 4, (5, 6, 7, 8)), Store(0))
    smaller = [each for each in offers(*operations) if each.configuration.page_size == 1]
    assert [each.operations for each in smaller] == [
        (Begin((0, 2, 4)), Extend(0, 2, (5, 6)), Store(0)),
        operations,
    ]


def test_a_chunk_of_one_token_is_offered_and_a_prompt_at_once():
    found = offered(Begin((0, 1, 2), max_tokens=3))
    assert {each[0].max_tokens for each in found} >= {None, 1}
