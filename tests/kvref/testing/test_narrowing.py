"""What makes a session a part of the suite."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kvref.testing.narrowing import covers, narrowed, narrowed_by_options

SUITE = [Path("repo/tests"), Path("repo/more")]


@pytest.mark.parametrize(
    "arguments", [["repo"], ["."], ["repo/more", "repo/tests"], ["repo/tests/..", "x.py"]]
)
def test_paths_cover_the_suite(arguments):
    assert covers(arguments, Path(), [path.resolve() for path in SUITE])


@pytest.mark.parametrize(
    "arguments",
    [[], ["repo/tests"], ["repo/tests", "repo/more/test_it.py"], ["repo::test_it"], ["rep"]],
)
def test_paths_do_not(arguments):
    assert not covers(arguments, Path(), SUITE)


def config(**options):
    return SimpleNamespace(
        getoption=lambda name, default=None: options.get(name, default),
        getini=lambda name: ["tests"],
        rootpath=Path("repo"),
        invocation_params=SimpleNamespace(dir=Path("repo")),
    )


@pytest.mark.parametrize(
    ("option", "value", "flag"),
    [
        ("keyword", "one", "-k"),
        ("markexpr", "not slow", "-m"),
        ("lf", True, "--lf"),
        ("collectonly", True, "--collect-only"),
        ("deselect", ["test_it"], "--deselect"),
        ("ignore", ["elsewhere"], "--ignore"),
        ("stepwise", True, "--stepwise"),
    ],
)
def test_options_leave_tests_out(option, value, flag):
    assert narrowed_by_options(config(**{option: value})) == f"{flag} was given"
    assert narrowed_by_options(config(**{option: type(value)()})) is None


def session(**options):
    return SimpleNamespace(config=config(**options), shouldfail=False, shouldstop=False)


def test_a_session_is_whole_where_nothing_was_left_out():
    assert narrowed(session(), ["tests"], 0) is None
    assert narrowed(session(failedfirst=True), ["tests"], 0) is None


def test_each_reason_is_said():
    stopped = session()
    stopped.shouldfail = "stopping after 1 failures"
    assert narrowed(stopped, ["tests"], 0) == "it was stopped (stopping after 1 failures)"
    assert narrowed(session(), ["tests"], 3) == "3 tests were deselected"
    assert narrowed(session(), ["tests/test_it.py"], 0) == "it was given tests/test_it.py"
    assert narrowed(session(pyargs=True), ["tests"], 0) == "--pyargs was given"
