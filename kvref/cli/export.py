"""`kvref export`: a trace as a program that needs nothing of kvref."""

from __future__ import annotations

import sys
from pathlib import Path

from kvref.cli.exits import CLEAN, console, misused
from kvref.export.exporters import export
from kvref.export.text import Style, manager_name
from kvref.files import over_input, replace
from kvref.traces.format import TraceError
from kvref.traces.reader import read

__all__ = ["export_file"]


def export_file(path: Path, out: Path | None, style: Style, manager: str | None) -> int:
    """Export the trace in the file, to the standard output if `out` is None; the exit status."""
    over = over_input(out, path) if out is not None else None
    if over is not None:
        return misused("export", over)
    try:
        name = manager_name(manager) if manager is not None else None
        program = export(read(path), style, name)
        if out is None:
            sys.stdout.write(program)
            return CLEAN
        replace(out, program.encode())
    except (TraceError, ValueError, OSError) as error:
        return misused("export", error)
    run = "pytest" if style is Style.PYTEST else "python"
    console().print(f"written to {out}; run it: {run} {out}", markup=False)
    return CLEAN
