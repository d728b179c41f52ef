"""Lives of requests with one fault each, and factories of them that a child process can import."""

from __future__ import annotations

import os
import sys
from typing import Any

from kvref.configuration import Configuration
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.life import LifeRequest, NoRoom, _InspectableLife, life
from kvref.requests.operations import RequestOperation
from kvref.requests.promises import RequestPromises
from kvref.requests.target import RequestTargetFactory
from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget

PROMISES = RequestPromises(refused_begin="match")


class Life(_InspectableLife):
    """The reference life over the oracle; it tells no victims, and checks its cache alone."""

    victims = None  # type: ignore[assignment]

    def __init__(self, configuration: Configuration | None = None) -> None:
        configuration = configuration or RequestConfiguration()
        assert isinstance(configuration, RequestConfiguration)
        super().__init__(OracleTarget(configuration), configuration)

    def check(self) -> None:
        self.manager.check_integrity()


def judge_of(
    target: Any,
    *operations: RequestOperation,
    configuration: RequestConfiguration | None = None,
    promises: RequestPromises = PROMISES,
    look_every: int = 1,
    seconds: float | None = None,
    **options: Any,
) -> RequestJudge:
    """A judge that has applied the operations, up to the first divergence.

    `target` is a class of lives, or a target.
    """
    configuration = configuration or RequestConfiguration()
    made = target(configuration) if isinstance(target, type) else target
    executor = LocalRequestExecutor(made, seconds)
    judge = RequestJudge(executor, configuration, promises, look_every=look_every, **options)
    try:
        for operation in operations:
            if judge.apply(operation) is not None:
                break
    finally:
        executor.close()
    return judge


class MatchesAll(Life):
    """Leaves no token of a prompt to compute."""

    def looked_up(self, tokens: Any) -> Any:
        return tokens


class MatchesLess(Life):
    """Looks up one token too few."""

    def looked_up(self, tokens: Any) -> Any:
        return tokens[:-2]


class LeaksOnAbort(Life):
    """An abort gives back no pages."""

    def abort(self, request: Any) -> None:
        self.check_running(request)
        self.end(request)


class FreesTwice(Life):
    """A finish gives back the part page twice."""

    def finish(self, request: Any) -> None:
        tail = request.row[-1:]
        super().finish(request)
        self.give_back(tail)


class FreesAnothers(Life):
    """An abort gives back as many pages as it should, but those of another request."""

    def abort(self, request: Any) -> None:
        others = [r for r in self.running if r is not request]
        super().abort(request)
        if others:
            self.free[-1] = others[0].row[-1] // self.size


class GivesTwice(Life):
    """The same page several times in one request."""

    def allocate(self, count: int) -> list[int]:
        return super().allocate(count)[:1] * count


class GivesOutside(Life):
    """A page that the pool does not have."""

    def allocate(self, count: int) -> list[int]:
        return [page + self.num_pages for page in super().allocate(count)]


class GivesCached(Life):
    """Forgets to take a page from the list of the free."""

    def allocate(self, count: int) -> list[int]:
        return [self.free[-1] for _ in range(count)]


class GivesFewer(Life):
    """A slot less than asked for."""

    def slots_for(self, start: int, end: int, row: Any) -> list[int]:
        return super().slots_for(start, end, row)[:-1]


class BreaksPages(Life):
    """The slots of new pages in the wrong order."""

    def slots_for(self, start: int, end: int, row: Any) -> list[int]:
        return super().slots_for(start, end, row)[::-1]


class EvictsTheWholeNeed(Life):
    """Evicts as much as it needs, where some is free."""

    def shortfall(self, needed: int, free: int) -> int:
        return min(needed * self.size, self.sizes()[0])


class EvictsOthers(Life):
    """Evicts the right amount, and not the least wanted; it says which."""

    def slots_for(self, start: int, end: int, row: Any) -> list[int]:
        for page in self.manager.oracle.pages():
            page.recency = -page.recency
        return super().slots_for(start, end, row)

    def victims(self) -> list[int]:  # type: ignore[override]
        return self.evicted


class KeepsItsRow(Life):
    """A commit does not put the cache's slots into the row."""

    def commit(self, request: Any) -> int:
        row = list(request.row)
        length = super().commit(request)
        request.row = row
        return length


class LosesItsTail(Life):
    """A commit moves the slots that stay the request's own."""

    def commit(self, request: Any) -> int:
        length = super().commit(request)
        own = request.row[length:]
        request.row[length:] = own[::-1]
        return length


class MovesRows(Life):
    """A store exchanges two slots of another request."""

    def store(self, request: Any, tags: Any) -> None:
        super().store(request, tags)
        for other in self.running:
            if other is not request:
                other.row.reverse()


class PublishesUnstored(Life):
    """Publishes whatever has slots."""

    def publishable(self, request: LifeRequest) -> int:
        return min(request.extended_len, len(request.tokens))


class PublishesUnknown(Life):
    """Publishes what is stored, also where the values were not told yet."""

    def commit(self, request: Any) -> int:
        request.tokens += [0] * (request.stored_len - len(request.tokens))
        return super().commit(request)


class StoresNextToIt(Life):
    """Stores each row one too far."""

    def store(self, request: Any, tags: Any) -> None:
        slots = request.row[request.stored_len :]
        super().store(request, tags)
        self.content.update({slot + 1: tag for slot, tag in zip(slots, tags, strict=True)})
        if slots:
            self.content[slots[0]] = tags[-1]


class ClearsFreePages(Life):
    """What a request gives back is cleared a page too far."""

    def abort(self, request: Any) -> None:
        last = request.row[-1]
        super().abort(request)
        self.content.pop(last + 1, None)


class KeepsLockOnRefusal(Life):
    """A begin without room keeps its lock."""

    def begin(self, tokens: Any, **keywords: Any) -> Any:
        unlock = self.manager.lock_handle
        try:
            self.manager.lock_handle = lambda handle, unlock=False: (  # type: ignore[method-assign]
                None if unlock else OracleTarget.lock_handle(self.manager, handle)
            )
            return super().begin(tokens, **keywords)
        finally:
            self.manager.lock_handle = unlock  # type: ignore[method-assign]


class LocksTwice(Life):
    """A commit locks the longer prefix and keeps the lock on the shorter."""

    def commit(self, request: Any) -> int:
        self.manager.lock_handle(request.handle)
        return super().commit(request)


class SaysMore(Life):
    """A commit returns what it published, not what is cached of the request."""

    def commit(self, request: Any) -> int:
        return super().commit(request) + 1


class CountsWrong(Life):
    """An append says that there are slots for it."""

    def append(self, request: Any, tokens: Any) -> None:
        super().append(request, tokens)
        request.row += [request.row[-1] + 1]


class ForgetsTokens(Life):
    """What was appended is lost in a preemption."""

    def preempt(self, request: Any) -> list[int] | None:
        return (super().preempt(request) or [])[:-1]


class EndsTwice(Life):
    """An ended request may end again."""

    def abort(self, request: Any) -> None:
        if request.running:
            super().abort(request)


class RaisesKeyError(Life):
    """An ended request is not found."""

    def check_running(self, request: LifeRequest) -> None:
        if not request.running:
            raise KeyError("no such request")


class RefusesChunks(Life):
    """Knows no chunks."""

    def begin(self, tokens: Any, **keywords: Any) -> Any:
        if keywords["max_tokens"] is not None:
            raise ValueError("no chunks here")
        return super().begin(tokens, **keywords)


class TakesBeforeItRefuses(Life):
    """An extend without room mixes up the free pages."""

    def extend(self, request: Any, count: Any) -> None:
        try:
            super().extend(request, count)
        except NoRoom:
            self.free.reverse()
            raise


class FlushesIntoNothing(Life):
    """What a flush gives up is lost."""

    def flush(self) -> None:
        self.manager.reset()


class FindsFault(Life):
    """Its check complains of nothing."""

    def check(self) -> None:
        raise RuntimeError("page 3 looks odd")


class ReadsTuples(Life):
    """Its contents come as a tuple."""

    def read(self, slots: Any) -> Any:
        return tuple(super().read(slots))


class ReadsLess(Life):
    """Reads no more than one slot."""

    def read(self, slots: Any) -> Any:
        return super().read(slots[:1])


class Hangs(Life):
    """A commit never returns."""

    def commit(self, request: Any) -> int:
        while True:
            pass


class Exits(Life):
    """A commit ends the process without a word."""

    def commit(self, request: Any) -> int:
        os._exit(7)


class SysExits(Life):
    """A commit raises SystemExit with a status that means success."""

    def commit(self, request: Any) -> int:
        sys.exit(0)


right = life(TargetFactory(OracleTarget, description="the oracle itself"))
leaks = RequestTargetFactory(LeaksOnAbort, PROMISES, "leaks")
moves_rows = RequestTargetFactory(MovesRows, PROMISES)
exits = RequestTargetFactory(Exits, PROMISES)
hangs = RequestTargetFactory(Hangs, PROMISES)
