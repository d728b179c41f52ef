"""Every machine by its name, as the header of a trace has it."""

from __future__ import annotations

from kvref.machine import Machine
from kvref.manager_machine import MANAGER
from kvref.requests.machine import REQUESTS

__all__ = ["MACHINES"]

MACHINES: dict[str, Machine] = {machine.name: machine for machine in (MANAGER, REQUESTS)}
