"""What the judge of requests talks to, and how one is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvref.operations import Carried
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.promises import RequestPromises
from kvref.target import CannotBuild

__all__ = ["ON_THE_DEVICE", "RequestTarget", "RequestTargetFactory", "TellsVictims"]

ON_THE_DEVICE = 8
"""The bridge to kvgpu asks on the host where to store, and at every store of this number as a
kernel is told. An exported program does the same: what an upload has to bring depends on the last.
"""


class RequestTarget(Protocol):
    """The life of requests over a manager and a pool of K and V, bridged to plain values.

    A request is whatever `begin` returns, with the int attributes `cached_len` (tokens at its
    front whose slots are the cache's) and `extended_len` (tokens that have slots). A refusal is
    an exception of the target's own, read by its class. As with `kvref.target.Target`, a bridge
    should overwrite each buffer that it passed in.

    A *tag* is an int of 0 or more that stands for the K and V of one token after one particular
    prefix. The bridge makes rows of it, so that each row by itself names the tag, the layer, the
    head, and whether it is K or V. It may also have the methods of
    `kvref.target.InspectableTarget`; `fingerprint` then covers the requests and the pool too.
    """

    def begin(
        self, tokens: Sequence[int], *, namespace: str | None, max_tokens: Any, carried: Carried
    ) -> Any:
        """Admit a request, with slots for up to `max_tokens` of the tokens left to compute."""

    def extend(self, request: Any, count: Any) -> None:
        """Slots for `count` more tokens."""

    def append(self, request: Any, tokens: Sequence[int]) -> None:
        """The values of the next tokens."""

    def store(self, request: Any, tags: Sequence[int]) -> None:
        """Store K and V of all that has slots and is not stored yet, on every layer."""

    def commit(self, request: Any) -> int:
        """Publish what is stored while the request goes on; returns `cached_len`."""

    def finish(self, request: Any) -> None:
        """Publish what is stored, and give everything back."""

    def abort(self, request: Any) -> None:
        """Give everything back."""

    def preempt(self, request: Any) -> Sequence[int] | None:
        """Give everything back; the tokens to begin with again, or None if it does not say."""

    def flush(self) -> None:
        """Empty the cache."""

    def row(self, request: Any, start: int, stop: int) -> list[int]:
        """The slots of a running request's tokens from `start` to `stop`."""

    def read(self, slots: Sequence[int]) -> list[int | str]:
        """For each slot the tag that all its rows name, or in words what they hold instead."""

    def sizes(self) -> tuple[int, int]:
        """Evictable and protected size of the cache, in slots."""

    def num_free_pages(self) -> int:
        """Pages that neither the cache holds nor a request owns."""

    def check(self) -> None:
        """Raise if the cache is damaged, or a page is not in exactly one place."""


class TellsVictims(Protocol):
    """A target that also says what was evicted; one that chooses on its own has to."""

    def victims(self) -> list[int]:
        """The slots that the latest `begin` or `extend` evicted."""


@dataclass(frozen=True)
class RequestTargetFactory:
    """How to build a target of requests, and what it promises."""

    build: Callable[[RequestConfiguration], RequestTarget]
    promises: RequestPromises = field(default_factory=RequestPromises)
    description: str = ""

    def __call__(self, configuration: RequestConfiguration) -> RequestTarget:
        """A new one without requests; CannotBuild if the factory raises."""
        try:
            return self.build(configuration)
        except (Exception, SystemExit) as error:  # sys.exit(0) would end kvref as a success
            raise CannotBuild(configuration, f"{type(error).__name__}: {error}") from error
