"""Records a manager that is in use, as traces that can be replayed, shrunk, shown and exported.

    with RecordingManager(RadixCacheManager("cuda"), "run.jsonl", configuration) as manager:
        ...  # use it in place of the one that it wraps

See `docs/recording.md` for what is kept, what is not, and what it costs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from kvref.configuration import Configuration
from kvref.manager_machine import MANAGER
from kvref.operations import FOREIGN, NOT_A_HANDLE, HandleRef, Lock, Operation, Reset, Unlock
from kvref.promises import Promises
from kvref.recording.handles import Handles
from kvref.recording.log import Counts, TraceLog
from kvref.refusals import RefusalKind, classify
from kvref.targets.recorded_call import (
    Copy,
    RecordedCall,
    evict_operation,
    insert_operation,
    match_operation,
)
from kvref.traces.writer import header_of

__all__ = ["RecordingManager"]

_INTEGERS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})


class RecordingManager:
    """Passes every call to the manager that it wraps, and writes down what was asked and said.

    What the manager returns is returned, handles too, and what it raises is raised. Nothing that
    goes wrong with the recording reaches the caller: it is counted (`counts`), and logged once.

    Any thread may call. One lock is held around each call and its place in the queue, so the order
    of the trace is the order in which the manager executed the calls. Only calls that come this way
    are recorded: who also talks to the wrapped manager itself (or to what is inside it) makes a
    trace that does not replay.

    Attributes that are not here are those of the wrapped manager.
    """

    def __init__(
        self,
        manager: Any,
        path: Path | str,
        configuration: Configuration,
        *,
        target: str | None = None,
        promises: Promises | None = None,
        max_pending_bytes: int = 1 << 28,
        max_bytes: int | None = None,
    ) -> None:
        """Begin to record, at once if the manager is empty and else when it is reset.

        Args:
            manager: has the methods of the contract, on tensors. The caller's; used from now on
                through this object alone.
            path: of the first trace; the next ones have -2, -3 and so on before the ending. What
                the files hold is replaced.
            configuration: how the manager was built, for whoever builds it again to replay.
            target: the registered name of the target that `kvref replay` is to run it on; None: it
                is given there.
            promises: of that target.
            max_pending_bytes: of buffers that wait to be written. A call for which there is no room
                ends the trace.
            max_bytes: of one trace, about; None for any.
        """
        self._manager = manager
        self._page_size = configuration.page_size
        header = header_of(MANAGER, target, promises or Promises(), configuration)
        self._log = TraceLog(
            Path(path), header, max_pending_bytes=max_pending_bytes, max_bytes=max_bytes
        )
        # Also at the interpreter's exit.
        self._end = weakref.finalize(self, self._log.close)
        self._lock = threading.Lock()
        self._handles = Handles()
        self._begin_if_empty()

    # ------------------------------------------------------------------------ the interface

    def match_prefix(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        """As the manager has it."""
        tokens = self._copy(input_ids)
        with self._lock:
            tokens = tokens or self._copy(input_ids)  # a trace may have begun meanwhile
            try:
                result = self._manager.match_prefix(input_ids, **keywords)
            except BaseException as error:
                self._raised(error, lambda: match_operation(tokens, keywords), tokens)
                raise
            try:
                handle, indices = result
                cached_len = handle.cached_len
                operation = match_operation(tokens, keywords)
                slots = self._copy(indices)
                if operation is None or slots is None:
                    self._log.lose("a match that no operation of a trace is")
                else:
                    call = RecordedCall(operation, slots, cached_len=cached_len, tokens=tokens)
                    index = self._log.put(call, call.num_bytes)
                    if index is not None:
                        self._handles.add(handle, self._log.generation, index)
            except Exception as error:
                self._log.lose(f"the recorder failed: {type(error).__name__}")
        return result

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor, **keywords: Any) -> Any:
        """As the manager has it."""
        tokens, slots = self._copy(input_ids), self._copy(indices)
        with self._lock:
            tokens, slots = tokens or self._copy(input_ids), slots or self._copy(indices)
            try:
                already = self._manager.insert_prefix(input_ids, indices, **keywords)
            except BaseException as error:
                # On a device it may have been refused for what it was and not for what it said.
                plain = slots is not None and indices.dtype == torch.int32 and indices.is_cpu
                if not plain and isinstance(error, TypeError | ValueError):
                    self._raised(error, lambda: None)
                else:
                    made = partial(insert_operation, tokens, slots, keywords)
                    self._raised(error, made, tokens, slots)
                raise
            made = partial(insert_operation, tokens, slots, keywords)
            self._returned(made, already, tokens, slots)
        return already

    def lock_handle(self, handle: Any, unlock: bool = False) -> Any:
        """As the manager has it."""
        with self._lock:
            try:
                result = self._manager.lock_handle(handle, unlock=unlock)
            except BaseException as error:
                self._raised(error, partial(self._lock_operation, handle, unlock, error))
                raise
            if not self._is_old_and_empty(handle):  # that does nothing
                self._returned(partial(self._lock_operation, handle, unlock), None)
        return result

    def evict(self, size: int) -> Any:
        """As the manager has it."""
        with self._lock:
            try:
                indices = self._manager.evict(size)
            except BaseException as error:
                self._raised(error, partial(evict_operation, size))
                raise
            self._returned(partial(evict_operation, size), indices)
        return indices

    def reset(self) -> Any:
        """As the manager has it; a trace begins here if none is in progress."""
        with self._lock:
            try:
                indices = self._manager.reset()
            except BaseException as error:
                self._raised(error, Reset)
                raise
            if self._log.recording:
                self._returned(Reset, indices)
            self._begin_if_empty()
        return indices

    @property
    def size_info(self) -> Any:
        """As the manager has it; not recorded."""
        return self._manager.size_info

    def check_integrity(self) -> None:
        """As the manager has it; not recorded."""
        self._manager.check_integrity()

    def __getattr__(self, name: str) -> Any:
        if name == "_manager":  # before there is one, as in a copy
            raise AttributeError(name)
        return getattr(self._manager, name)

    # ------------------------------------------------------------------------ the recording

    @property
    def recording(self) -> bool:
        """Whether a trace is in progress."""
        return self._log.recording

    @property
    def counts(self) -> Counts:
        """What became of the calls so far."""
        return self._log.counts

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all calls so far are in the file; False if it took longer."""
        return self._log.flush(timeout)

    def close(self) -> None:
        """Write what waits, and record nothing more; the manager can still be used."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # ---------------------------------------------------------------------- under the lock

    def _begin_if_empty(self) -> None:
        try:
            evictable, protected = self._manager.size_info
            if evictable == protected == 0:
                self._log.begin()
        except Exception:
            return

    def _returned(
        self,
        made: Callable[[], Operation | None],
        came_back: Any,
        tokens: Copy | None = None,
        slots: Copy | None = None,
    ) -> None:
        """A call that was accepted: in the trace, or the end of it.

        `made` gives the operation. It reads what the caller passed, so it may raise anything.
        """
        try:
            operation = made()
            value = self._copy(came_back) if isinstance(came_back, torch.Tensor) else came_back
            if operation is None or not (value is None or type(value) in (int, Copy)):
                self._log.lose("a call that no operation of a trace is")
                return
            call = RecordedCall(operation, value, tokens=tokens, slots=slots)
            self._log.put(call, call.num_bytes)
        except Exception as error:
            self._log.lose(f"the recorder failed: {type(error).__name__}")

    def _raised(
        self,
        error: BaseException,
        made: Callable[[], Operation | None],
        tokens: Copy | None = None,
        slots: Copy | None = None,
    ) -> None:
        """A call that was refused: in the trace if there are words for it. `made` as above."""
        if not isinstance(error, Exception):
            self._log.lose("a call was interrupted, and may have changed anything")
            return
        try:
            operation = made()
            if operation is None:
                self._log.leave_out()
                return
            name = type(error).__name__
            call = RecordedCall(operation, None, error=name, tokens=tokens, slots=slots)
            self._log.put(call, call.num_bytes)
        except Exception as mine:
            self._log.lose(f"the recorder failed: {type(mine).__name__}")

    def _copy(self, tensor: Any) -> Copy | None:
        """A copy; None of what no operation can have, or where no copy can be had."""
        if not self._log.recording:
            return None
        try:
            if isinstance(tensor, torch.Tensor) and tensor.dim() == 1 and tensor.dtype in _INTEGERS:
                return Copy(tensor)
        except Exception:
            return None
        return None

    def _reference(self, handle: Any, error: BaseException | None = None) -> HandleRef | None:
        """How a trace names the handle; None if it cannot."""
        index = self._handles.find(handle, self._log.generation)
        if index is not None or error is None:
            return index
        if classify(type(error)) is RefusalKind.FOREIGN:
            return FOREIGN
        is_none = type(getattr(handle, "cached_len", None)) is not int
        return NOT_A_HANDLE if is_none and isinstance(error, TypeError) else None

    def _is_old_and_empty(self, handle: Any) -> bool:
        """Whether it is the empty handle, from before the trace began."""
        if self._handles.find(handle, self._log.generation) is not None:
            return False
        try:
            return bool(handle.cached_len == 0)
        except Exception:
            return False

    def _lock_operation(
        self, handle: Any, unlock: Any, error: BaseException | None = None
    ) -> Operation | None:
        reference = self._reference(handle, error)
        if reference is None:
            return None
        return Unlock(reference) if unlock else Lock(reference)
