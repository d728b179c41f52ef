"""One request, from its admission to its end: the tokens it knows, the slots it has."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch

from kvgpu._arguments import require_size, token_array
from kvgpu.errors import InvalidValue, RequestEnded
from kvgpu.radix_node import IntArray, Node

if TYPE_CHECKING:
    from kvgpu.request_steps import RequestSteps

__all__ = ["Request", "RequestState"]

_ROOM_TO_GROW = 64  # tokens; a request with a short answer never has to move its tokens
_NO_TOKENS = np.empty(0, dtype=np.int64)


class RequestState(enum.Enum):
    """Whether a request runs, and if not, how it ended."""

    RUNNING = enum.auto()
    FINISHED = enum.auto()
    """What it had stored is in the cache."""
    ABORTED = enum.auto()
    PREEMPTED = enum.auto()
    """As aborted, to begin again later."""


_RUNNING = RequestState.RUNNING  # asked for in every step


class Request:
    """A running request. `RequestManager.begin` makes it; nothing else does.

    Its tokens, from the front on (`cached_len <= stored_len <= extended_len`):

    | range | |
    | --- | --- |
    | `[0:cached_len)` | slots of the cache, locked by this request |
    | `[cached_len:stored_len)` | its own slots, K and V are there |
    | `[stored_len:extended_len)` | its own slots, to be written by the next store: `out_loc` |
    | `[:known_len)` | values known; may be less than `extended_len`, or more |

    Every method is one step, from any thread, and a call that raises has changed nothing. Once
    it has ended (by any thread) each of them raises `RequestEnded`, and it keeps no memory; its
    lengths and namespace stay as they were (`row` is -1). A step that was launched before the end
    may still write its slots: on one stream that precedes the writes of whoever gets them next.
    Who stores on several streams has to order them.

    As a context manager it ends with the block, if it has not ended yet: by `abort` if an
    exception leaves the block, else by `finish`.

    Attributes (read only; the manager writes them):
        state: RequestState.
        namespace: str or None, as begun.
        known_len: tokens whose values are known: the prompt and what was appended.
        extended_len: tokens that have slots.
        stored_len: tokens whose K and V are stored, or will be by what was launched already.
        cached_len: tokens whose slots are the cache's, locked; a multiple of the page size.
        row: its row of the page table, for the kernels.
        node: ends the cached prefix, one lock on which is this request's; the manager's.
        tokens: `[>= known_len]`, int64: the buffer of the known tokens; the manager's.
    """

    __slots__ = (
        "_steps",
        "cached_len",
        "extended_len",
        "known_len",
        "namespace",
        "node",
        "row",
        "state",
        "stored_len",
        "tokens",
    )

    def __init__(
        self, steps: RequestSteps, namespace: str | None, tokens: npt.NDArray[np.int64]
    ) -> None:
        """One that was not admitted yet: it owns nothing but a copy of `tokens`."""
        self._steps = steps
        self.state = RequestState.RUNNING
        self.namespace = namespace
        self.known_len = len(tokens)
        self.extended_len = self.stored_len = self.cached_len = 0
        self.row = -1
        self.node: Node | None = None
        self.tokens = _with_room(tokens, self.known_len)

    # What it has

    @property
    def token_ids(self) -> npt.NDArray[np.int64]:
        """The known tokens: `[known_len]`, int64, a copy.

        Raises:
            RequestEnded: it has.
        """
        with self._steps.mutex:
            self.require_running()
            return self.tokens[: self.known_len].copy()

    def slots(self, start: int = 0, stop: int | None = None) -> IntArray:
        """The slots of its tokens `start` to `stop`, by default of all that have one.

        Returns:
            `[stop - start]`, int32, on the host, a new array. Valid until the next commit, which
            may replace some by the cache's, and at most until the request ends.

        Raises:
            InvalidType: not ints.
            InvalidValue: not `0 <= start <= stop <= extended_len`.
            RequestEnded: it has.
        """
        require_size("start", start, minimum=0)
        if stop is not None:
            require_size("stop", stop, minimum=start)
        with self._steps.mutex:
            self.require_running()
            if stop is None:
                stop = self.extended_len
            if not start <= stop <= self.extended_len:
                expected = f"start <= stop <= extended_len, {self.extended_len}"
                raise InvalidValue("stop", f"{start} to {stop}", expected)
            return self._steps.page_table.slots(self.row, start, stop)

    @property
    def out_loc(self) -> IntArray:
        """The slots that the next store has to write, of `[stored_len:extended_len)`.

        Returns:
            `[extended_len - stored_len]`, int32, on the host, a new array.

        Raises:
            RequestEnded: it has.
        """
        with self._steps.mutex:
            self.require_running()
            return self._steps.page_table.slots(self.row, self.stored_len, self.extended_len)

    # Going on

    def extend(self, num_tokens: int = 1) -> None:
        """Get slots for so many more tokens, whose values may be unknown yet.

        Evicts what is missing for it, and no more.

        Raises:
            InvalidType, InvalidValue: not an int, below 1, or beyond `max_len`.
            NoRoom: not enough pages are free or evictable.
            RequestEnded: it has.
        """
        require_size("num_tokens", num_tokens, minimum=1)
        steps = self._steps
        with steps.mutex:
            self.require_running()
            end = self.extended_len + num_tokens
            if end > steps.max_len:
                got = f"{num_tokens} after {self.extended_len}"
                raise InvalidValue("num_tokens", got, f"at most {steps.max_len} together")
            missing = steps.pages_for(end) - steps.pages_for(self.extended_len)
            if missing:
                steps.grow(self, missing)
            self.extended_len = end

    def append(self, token_ids: Sequence[int] | npt.NDArray[Any] | torch.Tensor) -> None:
        """Tell the values of its next tokens, before or after they have slots.

        Args:
            token_ids: `[n]`: ints, an array of signed integers, or a tensor on the CPU (int32
                or int64, any stride). Copied. It may be none, and more than `max_len` holds:
                there are no slots for what is beyond.

        Raises:
            InvalidType, InvalidValue: something else.
            RequestEnded: it has.
        """
        values = token_array("token_ids", token_ids)
        with self._steps.mutex:
            self.require_running()
            end = self.known_len + len(values)
            if end > len(self.tokens):
                self.tokens = _with_room(self.tokens[: self.known_len], end)
            self.tokens[self.known_len : end] = values
            self.known_len = end

    def mark_stored(self) -> None:
        """Say that K and V of all tokens with slots are stored on every layer.

        Or launched: whatever reads them later has to come later on the same stream.

        Raises:
            RequestEnded: it has.
        """
        with self._steps.mutex:
            self.require_running()
            self.stored_len = self.extended_len

    def commit(self) -> int:
        """Publish the whole pages of what is stored and known, and go on.

        The cache takes them over, or has some of them already: then this request uses the
        cache's from now on, and its own there become free.

        Returns:
            `cached_len`, as it is now.

        Raises:
            RequestEnded: it has.
        """
        with self._steps.mutex:
            self.require_running()
            self._steps.commit(self)
            return self.cached_len

    # The end

    def finish(self) -> None:
        """Publish the whole pages of what is stored and known; give everything else back.

        Raises:
            RequestEnded: it has.
        """
        with self._steps.mutex:
            self.require_running()
            self._steps.finish(self)

    def abort(self) -> None:
        """Give everything back, and publish nothing more.

        What was committed stays cached.

        Raises:
            RequestEnded: it has.
        """
        with self._steps.mutex:
            self.require_running()
            self._steps.drop(self, RequestState.ABORTED)

    def preempt(self) -> npt.NDArray[np.int64]:
        """As abort, to begin again later, with what is returned.

        Returns:
            The known tokens: `[known_len]`, int64, a new array. If more than `max_len` were
            appended, `begin` refuses them.

        Raises:
            RequestEnded: it has.
        """
        with self._steps.mutex:
            self.require_running()
            tokens = self.tokens[: self.known_len].copy()
            self._steps.drop(self, RequestState.PREEMPTED)
        return tokens

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._steps.mutex:
            if self.state is not RequestState.RUNNING:
                return
            if kind is None:
                self._steps.finish(self)
            else:
                self._steps.drop(self, RequestState.ABORTED)

    # For the manager, which holds the mutex

    def require_running(self) -> None:
        """Refuse if it has ended."""
        if self.state is not _RUNNING:
            raise RequestEnded(self.state)

    def forget(self, state: RequestState) -> None:
        """Mark as ended, and hold no memory. Cannot fail."""
        self.state = state
        self.node = None
        self.tokens = _NO_TOKENS
        self.row = -1

    def __repr__(self) -> str:
        return (
            f"<Request {self.state.name.lower()}: known {self.known_len}, "
            f"extended {self.extended_len}, stored {self.stored_len}, cached {self.cached_len}>"
        )


def _with_room(tokens: npt.NDArray[np.int64], needed: int) -> npt.NDArray[np.int64]:
    """A new buffer that begins with `tokens` and has room for `needed` and half as many more."""
    buffer = np.empty(needed + max(needed // 2, _ROOM_TO_GROW), dtype=np.int64)
    buffer[: len(tokens)] = tokens
    return buffer
