"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Isolate", "TimeLimit"]

TimeLimit = Annotated[
    float, typer.Option(min=0.001, help="Seconds for one operation; longer is a hang.")
]
Isolate = Annotated[
    bool, typer.Option("--isolate", help="The target in a process of its own: survives a crash.")
]
