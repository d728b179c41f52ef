"""Targets with one fault each, and factories of them that a child process can import."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from kvref.configuration import Configuration
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget


class BusyLoop(OracleTarget):
    """Never returns from an evict."""

    def evict(self, size: Any) -> Any:
        while True:
            pass


class Deadlock(OracleTarget):
    """Waits for a lock that nobody gives back."""

    def evict(self, size: Any) -> Any:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()


class Swallows(OracleTarget):
    """Hangs, and takes any Exception for a reason to try again."""

    def evict(self, size: Any) -> Any:
        while True:
            try:
                while True:
                    pass
            except Exception:
                continue


class Exits(OracleTarget):
    """Ends its process without a word."""

    def evict(self, size: Any) -> Any:
        os._exit(7)


class Segfaults(OracleTarget):
    """Dies of a signal."""

    def evict(self, size: Any) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)


class HangsUp(OracleTarget):
    """Closes the pipe to its parent and runs on. Never in the process of a test: it closes all."""

    def evict(self, size: Any) -> Any:
        os.closerange(3, 1024)
        time.sleep(60)  # not for ever: if nobody kills it, it has to go by itself


class SysExits(OracleTarget):
    """Raises SystemExit with a status that means success."""

    def evict(self, size: Any) -> Any:
        sys.exit(0)


class Prints(OracleTarget):
    """Writes to the standard output."""

    def evict(self, size: Any) -> Any:
        os.write(1, b"chatter")
        return super().evict(size)


class ForgetsRecency(OracleTarget):
    """A match does not refresh what it found."""

    def match_prefix(
        self, tokens: Sequence[int], *, namespace: str | None = None, carried: str = "int64"
    ) -> tuple[Any, Any]:
        times = {page: page.recency for page in self.oracle._table.values()}
        found = super().match_prefix(tokens, namespace=namespace, carried=carried)
        for page, recency in times.items():
            page.recency = recency
        return found


class SlotsAsTuple(OracleTarget):
    """Evicts into a tuple."""

    def evict(self, size: Any) -> Any:
        return tuple(super().evict(size))


class NodesOfText(OracleTarget):
    """Its nodes do not hold what nodes hold."""

    def nodes(self) -> Any:
        return [node._replace(slots="none") for node in super().nodes()]


class NodesOfObjects(OracleTarget):
    """Its nodes hold what JSON cannot."""

    def nodes(self) -> Any:
        return [node._replace(slots=object()) for node in super().nodes()]


class Accepts(OracleTarget):
    """Evicts what there is where it is asked for more."""

    def evict(self, size: Any) -> Any:
        if type(size) is int:
            size = min(size, self.oracle.evictable_size)
        return super().evict(size)


class EvictsNothing(OracleTarget):
    """Says of an evict that nothing went."""

    def evict(self, size: Any) -> Any:
        super().evict(size)
        return []


class TwoWays(OracleTarget):
    """Evicts wrongly after it has locked and unlocked, and on its own now and then."""

    unlocked = False

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        super().lock_handle(handle, unlock)
        self.unlocked = self.unlocked or (unlock and bool(handle.cached_len))

    def evict(self, size: Any) -> Any:
        found = super().evict(size)
        wrong = self.unlocked or (len(found) >= 4 and size == 3)
        return found[::-1] if wrong and len(found) > 1 else found


class Flaky(OracleTarget):
    """Evicts wrongly once in the life of its process."""

    failed = False

    def evict(self, size: Any) -> Any:
        found = super().evict(size)
        if found and not Flaky.failed:
            Flaky.failed = True
            return []
        return found


class SlowThenHangs(OracleTarget):
    """Hangs the first time in its process, and is only slow from then on."""

    hung = False

    def evict(self, size: Any) -> Any:
        seconds = 0.15 if SlowThenHangs.hung else 5.0
        SlowThenHangs.hung = True
        time.sleep(seconds)
        return super().evict(size)


right = TargetFactory(OracleTarget, description="the oracle itself")
modest = TargetFactory(
    OracleTarget,
    Promises(value_handles=False, refuses=frozenset(RefusalKind) - {RefusalKind.STALE}),
    "promises little",
)
lru_only = TargetFactory(OracleTarget, Promises(policies=("lru",)))
not_a_factory = 7


def cannot_be_built(configuration: Configuration) -> OracleTarget:
    """A constructor that refuses every configuration."""
    raise ValueError("no such pool")
