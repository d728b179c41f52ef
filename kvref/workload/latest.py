"""The latest operations of a run that is too long to be remembered as a whole.

A difference seldom takes more than what a few requests did. So where a replay of hours ends in
one, its last part is a program of its own, from an empty start, which may show the same and can be
shrunk.
"""

from __future__ import annotations

from collections import deque

from kvref.machine import Program, keep
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.judge import Outcome
from kvref.requests.machine import REQUESTS
from kvref.requests.operations import Append, Begin, Extend, RequestOperation
from kvref.requests.oracle import RequestOracle

__all__ = ["Latest"]

_MOST = 1_000_000
"""Tokens, and operations without any: some tens of MB, and seconds to run again."""


class Latest:
    """Observes a run, and forgets what was long ago.

    Attributes:
        whole: nothing was forgotten so far.
    """

    def __init__(self, most: int = _MOST) -> None:
        self.whole = True
        self._most = most
        self._size = 0
        self._operations: deque[tuple[int, RequestOperation]] = deque()

    def before(self, operation: RequestOperation, oracle: RequestOracle) -> None:
        """It may be skipped yet."""

    def after(
        self, index: int, operation: RequestOperation, outcome: Outcome, oracle: RequestOracle
    ) -> None:
        """Remember it, at the cost of the oldest."""
        self._operations.append((index, operation))
        self._size += _size(operation)
        while self._size > self._most and len(self._operations) > 1:
            self._size -= _size(self._operations.popleft()[1])
            self.whole = False

    def program(self, configuration: RequestConfiguration) -> Program:
        """What is remembered, without requests whose begin is not."""
        operations = dict(self._operations)
        return Program(keep(REQUESTS, operations, operations), configuration)


def _size(operation: RequestOperation) -> int:
    if isinstance(operation, Begin | Append):
        return 1 + len(operation.tokens)
    return 1 + (len(operation.ahead) if isinstance(operation, Extend) else 0)
