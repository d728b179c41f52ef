"""Runs a target of requests in the process of `kvref.isolated`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvref.answers import Answer
from kvref.isolated import Isolated, TargetProcess
from kvref.oracle import NodeView
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import Pool, RequestAnswer
from kvref.requests.operations import RequestOperation
from kvref.requests.wire import Forget, Look, NewRequests, Read, Row, Step

__all__ = ["IsolatedRequestExecutor"]


class IsolatedRequestExecutor(Isolated):
    """One run of a target in a `TargetProcess`, which the caller owns and closes."""

    def __init__(self, process: TargetProcess, configuration: RequestConfiguration) -> None:
        super().__init__(process, NewRequests(configuration))

    def call(
        self, index: int, operation: RequestOperation, tags: Sequence[int] = ()
    ) -> RequestAnswer:
        """Run the operation number `index`; a store stores `tags`."""
        answer: RequestAnswer = self._ask(Step(index, operation, list(tags)), RequestAnswer)
        return answer

    def pool(self) -> Pool | Answer:
        """The state of the pool."""
        answer: Pool | Answer = self._ask(Look("pool"), Pool | Answer)
        return answer

    def row(self, request: int, start: int, stop: int) -> list[int] | Answer:
        """The slots of a running request."""
        answer: list[int] | Answer = self._ask(Row(request, start, stop), list[int] | Answer)
        return answer

    def read(self, slots: Sequence[int]) -> list[int | str] | Answer:
        """The tags in these slots, or words about what else is there."""
        answer: list[int | str] | Answer
        answer = self._ask(Read(list(slots)), list[int | str] | Answer)
        return answer

    def check(self) -> Answer:
        """The target's own check."""
        answer: Answer = self._ask(Look("check"), Answer)
        return answer

    def nodes(self) -> list[NodeView] | Answer | None:
        """The cache's structure, or None where it shows none."""
        answer: list[NodeView] | Answer | None
        answer = self._ask(Look("nodes"), list[NodeView] | Answer | None)
        return answer

    def fingerprint(self) -> Any:
        """A digest of the target's fingerprint; None where it has none."""
        return self._ask(Look("fingerprint"), str | Answer | None)

    def forget(self, request: int) -> None:
        """No later operation will name this request."""
        self._ask(Forget(request), None)
