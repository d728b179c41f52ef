"""Planted faults of whole requests: what is published, under which name, and what rows show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from kvgpu import RequestManager
from kvgpu.page_table import PageTable
from kvgpu.request import Request, RequestState
from kvgpu.request_steps import PublishPlan, RequestSteps
from tests.faults.fault import request_fault


@contextmanager
def with_value(request: Request, name: str, value: Any) -> Iterator[None]:
    """An attribute of a request is another for a while, and as it was if it still runs."""
    before = getattr(request, name)
    setattr(request, name, value)
    try:
        yield
    finally:
        setattr(request, name, before)


@request_fault("VLLM-43569")
class PublishesWhatIsNotStored(RequestSteps):
    """What has slots is published, before its K and V are stored."""

    def plan_publish(self, request: Request) -> PublishPlan | None:
        with with_value(request, "stored_len", request.extended_len):
            return super().plan_publish(request)


@request_fault("VLLM-43569")
class FinishPublishesWhatIsNotStored(RequestSteps):
    """A finish takes for granted that the last step was stored; a commit does not."""

    def finish(self, request: Request) -> None:
        request.stored_len = request.extended_len
        super().finish(request)


@request_fault("VLLM-43569")
class PublishesUnknownTokens(RequestSteps):
    """What is stored is published, under whatever tokens the buffer holds where it knows none."""

    def plan_publish(self, request: Request) -> PublishPlan | None:
        with with_value(request, "known_len", max(request.known_len, request.stored_len)):
            return super().plan_publish(request)


@request_fault("VLLM-43569")
class AbortPublishes(RequestSteps):
    """An abort inserts as a finish does, also what a failed step has left."""

    def drop(self, request: Request, state: RequestState) -> None:
        request.stored_len = request.extended_len
        if state is RequestState.ABORTED and min(request.stored_len, request.known_len) >= (
            self.page_size
        ):
            super().finish(request)
        else:
            super().drop(request, state)


@request_fault("SGL-12224")
class LateTokensAreStoredAgain(Request):
    """Stored is what has slots and is known, so a late token is stored a second time."""

    __slots__ = ()

    def mark_stored(self) -> None:
        super().mark_stored()
        self.stored_len = max(self.cached_len, min(self.stored_len, self.known_len))


@request_fault("SGL-12224")
class LateTokensGoBehindTheSlots(Request):
    """A token that comes late is written behind the last slot, not to where it belongs."""

    __slots__ = ()

    def append(self, token_ids: Any) -> None:
        if len(token_ids) and self.extended_len <= len(self.tokens):
            self.known_len = max(self.known_len, self.extended_len - len(token_ids))
        super().append(token_ids)


@request_fault("MSG-94fe")
class KeepsTheCallersPrompt(RequestManager):
    """The request keeps a view of the buffer that its prompt came in."""

    def begin(self, input_ids: Any, **keywords: Any) -> Request:
        request = super().begin(input_ids, **keywords)
        if isinstance(input_ids, torch.Tensor) and input_ids.dtype == torch.int64:
            request.tokens = input_ids.numpy()
        return request


@request_fault("KT-2184")
class BeginDropsTheNamespace(RequestManager):
    """The namespace is checked, and lost before the request is made."""

    def begin(self, input_ids: Any, *, namespace: str | None = None, **keywords: Any) -> Request:
        del namespace
        return super().begin(input_ids, **keywords)


@request_fault("KT-2184")
class PublishDropsTheNamespace(RequestSteps):
    """What is published goes to the namespace None, where the next request does not look."""

    def plan_publish(self, request: Request) -> PublishPlan | None:
        with with_value(request, "namespace", None):
            return super().plan_publish(request)


@request_fault("MSG-142")
class OnlyTheLatestChangeIsUploaded(PageTable):
    """Of several changes of a row between two uploads, the last one reaches the device."""

    def write(self, row: int, start: int, pages: Any) -> None:
        if len(pages):
            self._changed.pop(row, None)
        super().write(row, start, pages)


@request_fault("MSG-142")
class ReusedRowIsNotUploaded(PageTable):
    """What a request begins with in a row that was used before does not reach the device."""

    used: frozenset[int] = frozenset()
    skipped: int | None = None

    def take_row(self) -> int:
        row = super().take_row()
        self.skipped = row if row in self.used else None
        self.used |= {row}
        return row

    def write(self, row: int, start: int, pages: Any) -> None:
        super().write(row, start, pages)
        if row == self.skipped and len(pages):
            self._changed.pop(row)
            self.skipped = None


@request_fault("LMC-5005")
class TwoRequestsShareARow(PageTable):
    """A row that is given back is listed in place of another free one too."""

    def give_back_row(self, row: int) -> None:
        super().give_back_row(row)
        self._free_rows[0] = row


@request_fault("SGL-28692")
class OutLocBeginsWithThePage(Request):
    """The first slot to write is that of the page, not that of the first token without K and V."""

    __slots__ = ()

    @property
    def out_loc(self) -> Any:
        slots = np.array(super().out_loc)
        if len(slots):
            slots[0] -= slots[0] % self._steps.page_size
        return slots
