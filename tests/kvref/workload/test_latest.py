"""The end of a long run as a program of its own."""

from __future__ import annotations

from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.operations import Abort, Append, Begin, Extend, Finish, Store
from kvref.workload.latest import Latest
from tests.kvref.requests.wrong_lives import right

CONFIGURATION = RequestConfiguration(num_pages=40, max_requests=4)


def observed(latest, *operations):
    executor = LocalRequestExecutor(right(CONFIGURATION), None)
    judge = RequestJudge(executor, CONFIGURATION, right.promises, long_run=True, observer=latest)
    for operation in operations:
        assert judge.apply(operation) is None
    return latest.program(CONFIGURATION).operations


def test_a_short_run_is_remembered_as_a_whole():
    latest = Latest()
    run = (Begin((1, 2)), Store(0), Extend(0, 1, (3,)), Append(0, (3,)), Finish(0))
    assert observed(latest, *run) == run
    assert latest.whole


def test_of_a_long_one_the_oldest_is_forgotten_with_all_that_names_it():
    latest = Latest(most=9)
    run = (Begin((1, 2)), Begin((1, 3)), Store(1), Store(0), Extend(1, 1, (3,)), Finish(0))
    assert observed(latest, *run) == (Begin((1, 3)), Store(0), Extend(0, 1, (3,)))
    assert not latest.whole


def test_what_just_fits_is_whole_and_values_told_ahead_count():
    run = (Begin((1,)), Extend(0, 3, (2, 3, 4)))
    latest = Latest(most=6)
    assert observed(latest, *run) == run
    assert latest.whole
    latest = Latest(most=5)
    assert observed(latest, *run) == ()
    assert not latest.whole


def test_what_was_not_issued_is_no_part_of_it():
    run = (Begin((1, 2)), Finish(0), Abort(0), Begin((4,)), Store(3))
    assert observed(Latest(), *run) == (Begin((1, 2)), Finish(0), Begin((4,)), Store(2))


def test_a_prompt_that_is_too_long_by_itself_is_remembered_as_long_as_it_is_the_latest():
    assert observed(Latest(most=3), Begin((1, 2, 3, 4))) == (Begin((1, 2, 3, 4)),)
    assert observed(Latest(most=3), Begin((1, 2, 3, 4)), Begin((5,))) == (Begin((5,)),)
