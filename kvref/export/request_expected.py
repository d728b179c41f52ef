"""What has to come back from one operation on whole requests.

Which pages a request gets is the target's choice, so no slot has a number here. It is a place in
the row of the request that it was given to last: what others share with it, what the cache holds,
and what is evicted can all be named so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kvref.listener import Foreseen
from kvref.refusals import Refusal
from kvref.requests.operations import RequestOperation

__all__ = ["Content", "Look", "RequestStep", "Span"]


class Span(NamedTuple):
    """The slots `start` to `stop` in the row of a request, which has `length` by then."""

    request: int
    start: int
    stop: int
    length: int


class Content(NamedTuple):
    """What is in some slots: K and V of the last of these tokens, from `start` on."""

    spans: list[Span]
    tokens: tuple[int, ...]
    namespace: str | None
    start: int


@dataclass
class Look:
    """What is looked at now and then: rows, contents, the target's own check.

    Attributes:
        rows: the requests that run.
        contents: all that is cached, and all else that is stored.
    """

    rows: list[int] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)
    checks: bool = False


@dataclass
class RequestStep:
    """One operation, and what has to come back.

    Attributes:
        expected: a Foreseen, or a Refusal.
        skipped: not issued.
        pool: slots evictable and protected, pages free, afterwards.
        lengths: `cached_len` and `extended_len`, where the request still runs.
        start: where what it stores begins, or what its row shows from there on is asked for.
        row: for a begin what it shares, for a commit all from `start` on.
        content: what a begin shares holds, what a store stores.
        evicted: whether something had to be.
        taken: the slots that were somebody's when it was given new pages.
        on_device: a store asks where to as a kernel is told.
        look: what was looked at after it, if anything was.
    """

    index: int
    operation: RequestOperation
    expected: Refusal | Foreseen | None = None
    skipped: bool = False
    pool: tuple[int, int, int] = (0, 0, 0)
    lengths: tuple[int, int] | None = None
    start: int = 0
    row: list[Span] = field(default_factory=list)
    content: Content | None = None
    evicted: bool = False
    taken: list[Span] = field(default_factory=list)
    on_device: bool = False
    look: Look | None = None
