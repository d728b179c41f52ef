"""Whether a test session ran everything. What a part of a suite never met says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["covers", "narrowed", "narrowed_by_options"]


def narrowed(session: pytest.Session, arguments: list[str], deselected: int) -> str | None:
    """Why this session was a part of the suite, or None if it was the whole.

    Args:
        session: at its end.
        arguments: the paths and node ids that it was given, or its default.
        deselected: how many tests were, by whatever plugin.
    """
    config = session.config
    if session.shouldfail or session.shouldstop:
        return f"it was stopped ({session.shouldfail or session.shouldstop})"
    if reason := narrowed_by_options(config):
        return reason
    if deselected:
        return f"{deselected} tests were deselected"
    # Where no testpaths are given, the suite is what lies below the rootdir.
    suite = [config.rootpath / path for path in config.getini("testpaths")] or [config.rootpath]
    if config.getoption("pyargs", default=False):
        return "--pyargs was given"
    if not covers(arguments, config.invocation_params.dir, suite):
        return f"it was given {' '.join(arguments)}"
    return None


def narrowed_by_options(config: pytest.Config) -> str | None:
    """The option that leaves tests out, if there is one."""
    for name, flag in (
        ("collectonly", "--collect-only"),
        ("keyword", "-k"),
        ("markexpr", "-m"),
        ("lf", "--lf"),
        ("deselect", "--deselect"),
        ("ignore", "--ignore"),
        ("ignore_glob", "--ignore-glob"),
        ("stepwise", "--stepwise"),
    ):
        if config.getoption(name, default=None):
            return f"{flag} was given"
    return None


def covers(arguments: list[str], folder: Path, suite: list[Path]) -> bool:
    """Whether the arguments, relative to `folder`, name every path of the suite or one above it."""
    whole = [(folder / argument).resolve() for argument in arguments if "::" not in argument]
    return all(
        any(path.is_relative_to(each) for each in whole)
        for path in (path.resolve() for path in suite)
    )
