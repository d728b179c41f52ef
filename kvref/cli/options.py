"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["LONGEST_LIMIT", "Isolate", "TimeLimit", "a_number", "given"]

LONGEST_LIMIT = 1e6
"""Seconds: eleven days. Much more is more than the clocks of the system take."""


def a_number(value: float | None) -> float | None:
    """Refuse what compares with nothing, and so passes each bound."""
    if value is not None and value != value:
        raise typer.BadParameter("nan is no number of seconds")
    return value


TimeLimit = Annotated[
    float,
    typer.Option(
        min=0.001,
        max=LONGEST_LIMIT,
        callback=a_number,
        help="Seconds for one operation; longer is a hang.",
    ),
]
Isolate = Annotated[
    bool, typer.Option("--isolate", help="The target in a process of its own: survives a crash.")
]


def given(context: typer.Context, panel: str) -> tuple[str, ...]:
    """The options of this panel that were given, whatever their values."""
    return tuple(
        f"--{str(option.name).replace('_', '-')}"
        for option in context.command.params
        if getattr(option, "rich_help_panel", None) == panel
        and getattr(context.get_parameter_source(str(option.name)), "name", "") == "COMMANDLINE"
    )
