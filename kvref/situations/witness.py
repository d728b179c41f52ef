"""A smallest example of a situation: a few operations that anybody can run again.

Each is its own test: it meets its situation, on the oracle and judged clean on kvgpu, and no
operation can be left out of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvref.configuration import Configuration
from kvref.operations import program
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.program import program as request_program

__all__ = ["Witness"]


class Witness(NamedTuple):
    """What to do with something new of this configuration.

    `refused` are the numbers of the operations that have to be refused.
    """

    configuration: Configuration
    operations: tuple[Any, ...]
    refused: tuple[int, ...] = ()

    def python(self) -> str:
        """As a program against kvgpu; it goes on after what has to be refused."""
        if isinstance(self.configuration, RequestConfiguration):
            return request_program(self.configuration, self.operations, self.refused, ())
        return program(self.configuration, self.operations, self.refused)

    def steps(self) -> str:
        """The same from where the manager is built on."""
        lines = self.python().splitlines()
        starts = ("cache = ", "manager = ", "requests = ")
        first = next(at for at, line in enumerate(lines) if line.startswith(starts))
        return "\n".join(lines[first:])
