"""Detectors of commit and of the ends of a request: what is published, and what is given back."""

from __future__ import annotations

from kvref.requests.operations import Abort, Finish, Preempt
from kvref.situations.registry import bit, law_bit
from kvref.situations.request_memory import Before, RequestMemory

__all__ = ["committed", "ended"]

_FIRST = bit("commit-of-the-first")
_MORE = bit("commit-of-more")
_NO_NEWS = bit("commit-of-nothing-new")
_NO_PAGE = bit("commit-of-no-page")
_DUPLICATES = bit("commit-of-duplicates")
_SOME = bit("commit-of-some-duplicates")
_PART = bit("commit-with-part-of-a-page")
_STORED = bit("publish-of-the-stored-alone")
_KNOWN = bit("publish-of-the-known-alone")
_IN_PROMPT = bit("commit-in-the-prompt")
_FINISH_NEWS = bit("finish-with-news")
_FINISH_DUPLICATES = bit("finish-with-duplicates")
_FINISH_PART = bit("finish-with-part-of-a-page")
_FINISH_NOTHING = bit("finish-with-nothing-stored")
_BESIDE = bit("end-beside-another")

_LAW_STORED = law_bit("published-when-stored")
_LAW_DUPLICATES = law_bit("duplicates-go-once")
_LAW_ENDS = law_bit("ends-publish-nothing")

_STAGES = (
    "before-a-store", "before-a-commit", "after-a-commit", "in-the-prompt", "in-decode",
    "with-values-late",
)  # fmt: skip
_ABORT = tuple(bit(f"abort-{stage}") for stage in _STAGES)
_PREEMPT = tuple(bit(f"preempt-{stage}") for stage in _STAGES)


def committed(memory: RequestMemory, before: Before, number: int) -> int:
    """What a commit met."""
    size = memory.page_size
    met = _unpublished(before, size)
    if before.whole == 0:
        return met | _NO_PAGE
    if before.whole > before.cached:
        met |= _MORE if before.cached else _FIRST
        if before.already > before.cached:
            met |= _LAW_DUPLICATES
            met |= _DUPLICATES if before.already >= before.whole else _SOME
    else:
        met |= _NO_NEWS
    if before.stored % size and min(before.stored, before.known) == before.stored:
        met |= _PART
    if before.extended < memory.prompts.get(number, 0):
        met |= _IN_PROMPT
    return met


def ended(memory: RequestMemory, before: Before, operation: Finish | Abort | Preempt) -> int:
    """What the end of a request met."""
    prompt = memory.prompts.pop(operation.request, 0)
    met = _BESIDE if before.shared and before.cached else 0
    if isinstance(operation, Finish):
        return met | _finished(before, memory.page_size)
    (
        before_store, before_commit, after_commit, in_prompt, in_decode, values_late,
    ) = _ABORT if isinstance(operation, Abort) else _PREEMPT  # fmt: skip
    if before.stored == 0:
        met |= before_store
    elif before.stored > before.cached:
        met |= _LAW_ENDS
        if before.cached == 0:
            met |= before_commit
    if before.cached and before.stored >= before.cached:
        met |= after_commit
    if before.extended < prompt:
        met |= in_prompt
    elif before.extended > prompt:
        met |= in_decode
    if before.known < before.extended:
        met |= values_late
    return met


def _finished(before: Before, size: int) -> int:
    met = _unpublished(before, size)
    if before.whole > max(before.already, before.cached):
        met |= _FINISH_NEWS
    if before.already > before.cached:
        met |= _FINISH_DUPLICATES | _LAW_DUPLICATES
    if before.extended % size:
        met |= _FINISH_PART
    if before.stored == 0:
        met |= _FINISH_NOTHING
    return met


def _unpublished(before: Before, size: int) -> int:
    """Whole pages that have slots, and must not be published yet."""
    met = 0
    if before.stored // size < min(before.extended, before.known) // size:
        met |= _STORED | _LAW_STORED
    if before.known // size < before.stored // size:
        met |= _KNOWN | _LAW_STORED
    return met
