"""A failure on disk: its trace, and beside it the same as a Python program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvref.divergence import Divergence
from kvref.machine import Machine, Program
from kvref.traces.format import Header, Record
from kvref.traces.writer import replace, write_trace

__all__ = ["write_failure"]


def write_failure(
    path: Path,
    machine: Machine,
    header: Header,
    program: Program,
    records: Sequence[Record],
    divergence: Divergence,
    python: str,
) -> Path:
    """Write one failure, whole or not at all; returns the path, which the trace is at.

    Beside it, with the ending .py, goes `python` for a person to read and run.
    """
    said = "".join(f"# {line}\n" for line in str(divergence).splitlines())
    judged = header.target or "a manager without a name"
    about = f"# Judged was {judged}; this issues the same to the manager of kvgpu.\n"
    replace(path.with_suffix(".py"), f"{said}{about}{python}".encode())
    write_trace(path, machine, header, program, records, divergence)
    return path
