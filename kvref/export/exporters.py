"""What exports the traces of each machine."""

from __future__ import annotations

from collections.abc import Callable

from kvref.export.manager import export_manager_trace
from kvref.export.requests import export_requests_trace
from kvref.export.text import ManagerName, Style
from kvref.manager_machine import MANAGER
from kvref.requests.machine import REQUESTS
from kvref.traces.format import Trace

__all__ = ["EXPORTERS", "export"]

Exporter = Callable[[Trace, Style, ManagerName | None], str]

EXPORTERS: dict[str, Exporter] = {
    MANAGER.name: export_manager_trace,
    REQUESTS.name: export_requests_trace,
}
"""By the name of the machine."""


def export(trace: Trace, style: Style, manager: ManagerName | None = None) -> str:
    """The trace as a program that needs nothing of kvref.

    Args:
        style: a module with a test, or plain Python.
        manager: the class to import: of bare managers, or of whole requests, as
            `kvgpu.RequestManager`. None for that of the target that the trace names, where it is
            one of kvgpu's, and else kvgpu's.
    """
    return EXPORTERS[trace.machine.name](trace, style, manager)
