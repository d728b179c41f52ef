"""What exports the traces of each machine."""

from __future__ import annotations

from collections.abc import Callable

from kvref.export.manager import export_manager_trace
from kvref.export.text import ManagerName, Style, about
from kvref.machine import Machine
from kvref.manager_machine import MANAGER
from kvref.traces.format import Trace

__all__ = ["EXPORTERS", "CannotExport", "beside", "export"]

Exporter = Callable[[Trace, Style, ManagerName | None], str]

EXPORTERS: dict[str, Exporter] = {MANAGER.name: export_manager_trace}
"""By the name of the machine."""


class CannotExport(Exception):
    """There are no programs for traces of this machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(f"traces of machine {machine.name!r} cannot be exported")


def export(trace: Trace, style: Style, manager: ManagerName | None = None) -> str:
    """The trace as a program that needs nothing of kvref; CannotExport if there is none.

    Args:
        style: a module with a test, or plain Python.
        manager: the class to import; None for that of the target that the trace names, where it
            is one of kvgpu's, and else kvgpu's.
    """
    exporter = EXPORTERS.get(trace.machine.name)
    if exporter is None:
        raise CannotExport(trace.machine)
    return exporter(trace, style, manager)


def beside(trace: Trace) -> str:
    """What lies beside a failure: the program, or where there is none the calls in a list."""
    if trace.machine.name in EXPORTERS:
        return export(trace, Style.SCRIPT)
    refused = [n for n, each in enumerate(trace.records) if _is_refusal(each.expected)]
    skipped = [n for n, each in enumerate(trace.records) if each.expected is None]
    listing = trace.machine.python(trace.program, refused, skipped)
    # First what is our own, since the first two lines may say how a file is encoded.
    first = '"""The calls of a run, one after the other."""'
    return "\n".join([first, "", *about(trace), "", listing])


def _is_refusal(expected: str | None) -> bool:
    return expected is not None and expected.startswith("refused: ")
