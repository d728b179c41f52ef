"""What makes a session a part of the suite."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kvref.testing.narrowing import covers, narrowed, narrowed_by_options
from tests.kvref.testing.conftest import ROOT

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


LEAVE_OUT = [
    ("keyword", "one", "-k"),
    ("markexpr", "not slow", "-m"),
    ("lf", True, "--lf"),
    ("collectonly", True, "--collect-only"),
    ("deselect", ["test_it"], "--deselect"),
    ("ignore", ["elsewhere"], "--ignore"),
    ("ignore_glob", ["*else*"], "--ignore-glob"),
    ("stepwise", True, "--stepwise"),
]


@pytest.mark.parametrize(("option", "value", "flag"), LEAVE_OUT)
def test_options_leave_tests_out(option, value, flag):
    assert narrowed_by_options(config(**{option: value})) == f"{flag} was given"
    assert narrowed_by_options(config(**{option: type(value)()})) is None


def test_they_are_all_that_is_looked_at_and_options_of_this_pytest(pytestconfig):
    asked = []
    looked_at = config()
    looked_at.getoption = lambda name, default=None: asked.append(name)
    narrowed_by_options(looked_at)
    assert sorted(asked) == sorted(option for option, _, _ in LEAVE_OUT)
    cache = pytestconfig.pluginmanager.has_plugin("cacheprovider")
    for name in (*asked, "pyargs"):
        if name in ("lf", "stepwise") and not cache:  # -p no:cacheprovider takes them away
            continue
        assert hasattr(pytestconfig.option, name)


def test_the_guide_names_each_of_them():
    guide = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    part = guide.partition("A session is a part")[2].partition("The table then says why")[0]
    for flag in ("--pyargs", "-x", "--maxfail", *(flag for _, _, flag in LEAVE_OUT)):
        assert f"`{flag}`" in part


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
