"""What the rules of the request machine have in common: an engine that issues steps to a judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvref.operations import Carried
from kvref.oracle import Page
from kvref.refusals import RefusalKind
from kvref.requests.composer import drain, squeeze
from kvref.requests.judge import RequestJudge
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    RequestOperation,
    Store,
)
from kvref.requests.oracle import Request
from kvstrategies.sequences import Recipe

__all__ = ["ENDS", "Engine", "choices"]

ENDS = (Finish, Abort, Finish, Preempt)
"""How a request may end, the most frequent one twice."""

_NARROW: tuple[Carried, ...] = ("int64", "int32", "int64-strided", "int32-strided")
_WIDE: tuple[Carried, ...] = ("int64", "int64-strided")
_WAIT = (RefusalKind.NO_ROOM, RefusalKind.TOO_MANY)


def choices(number: int, *options: int) -> list[int]:
    """A choice among so many options each, and what is left of the number."""
    found = []
    for count in options:
        number, choice = divmod(number, count)
        found.append(choice)
    return [*found, number]


class Engine:
    """One run: the prompts so far, who waits, who has ended; and the steps, in small groups.

    `which` and `how` are small numbers that stand for choices. Each step raises what `failure`
    makes where target and oracle differ.

    Attributes:
        judge: that all steps go to.
        size: of a page.
        longest: tokens of a request at most.
        waiting: what was refused or preempted.
    """

    def __init__(
        self,
        judge: RequestJudge,
        alphabet: Sequence[int],
        spaces: Sequence[str | None],
        failure: Callable[[], Exception],
    ) -> None:
        """Begin a run; `failure` makes what is raised where the judge found a difference."""
        self.judge = judge
        self._failure = failure
        self.size = judge.configuration.page_size
        self.longest = judge.oracle.max_len
        self.waiting: list[Begin] = []
        self._alphabet = alphabet
        self._spaces = spaces
        self._carried = _NARROW if max(map(abs, alphabet)) < 2**31 else _WIDE
        self._prompts: list[tuple[int, ...]] = []
        self._ended: list[int] = []
        self._refused_since_an_end = 0

    # ------------------------------------------------------------------------ choosing

    def running(self) -> list[Request]:
        """The requests that run."""
        return self.judge.oracle.running()

    def one(self, which: int, how: int) -> Request | None:
        """One that runs; where none does, one is begun, and there is none this time."""
        running = self.running()
        if running:
            return running[which % len(running)]
        self.begin(self._prompts[-1 - which % len(self._prompts)], self._spaces[0], how)
        return None

    def cook(self, recipe: Recipe) -> tuple[tuple[int, ...], str | None]:
        """A prompt and its namespace."""
        tokens = recipe.cook(self._prompts[-4:], self._alphabet, self.size)
        # What takes the whole pool is begun to fit, or grows to it; others share it.
        most = max(2 * self.size + 1, self.judge.configuration.num_slots // 3)
        tokens = tokens[: min(most, self.longest)] or self.letters(recipe.content, 1)
        return tokens, self._spaces[recipe.space % len(self._spaces)]

    def letters(self, content: int, count: int) -> tuple[int, ...]:
        """So many tokens that a number stands for."""
        base = len(self._alphabet)
        return tuple(self._alphabet[content // base ** (at % 7) % base] for at in range(count))

    def pending(self, request: Request) -> tuple[int, ...]:
        """Tokens that were told ahead, and not to the request."""
        return tuple(self.judge.sequences[request.number][len(request.tokens) :])

    def pages_that(self, fit: int, matched: Sequence[Page] = ()) -> int:
        """So many that they just do not fit; that all goes; that some of the cache goes, or one.

        `fit` is 0 to 3, `matched` what a begin will lock.
        """
        free, evictable = self.judge.oracle.room(matched)
        evicted = (evictable + 1, evictable, (evictable + 1) // 2, min(1, evictable))[fit]
        return free + evicted

    def wrong(self, how: int) -> Iterator[RequestOperation]:
        """Calls that are refused; a flush only where something is in use."""
        tokens = self.letters(how, 1 + how % 4)
        yield Flush()
        yield Flush()
        yield Begin(())
        yield Begin(tokens, max_tokens=how % 2 - 1)
        yield Begin(self.letters(how, self.longest + 1))
        for request in self.running()[:1]:
            over = self.longest - len(request.row) + 1
            yield Extend(request.number, (0, -1, over, over)[how % 4])
        for number in self._ended[-1 - how % 4 :][:1]:
            ended: tuple[RequestOperation, ...] = (
                Extend(number, 1), Append(number, (0,)), Store(number), Commit(number),
                Finish(number), Abort(number), Preempt(number),
            )  # fmt: skip
            yield ended[how // 4 % 7]
            yield ended[how // 4 % 3 + 4]

    # ----------------------------------------------------------------------- admission

    def make_a_row_free(self, how: int) -> None:
        """Where a begin would be one too many, end one; now and then let it be that."""
        running = self.running()
        if len(running) == self.judge.configuration.max_requests and how % 8:
            self.end(running[how // 8 % len(running)], ENDS[how % 4])

    def begin(self, tokens: tuple[int, ...], namespace: str | None, how: int) -> Request | None:
        """Begin, perhaps with a chunk, and mostly store; where there is no room, make some."""
        chunked, carried, stored, how = choices(how, 6, 4, 4)
        chunk = (None, None, None, 1, self.size, self.size + 1)[chunked]
        begin = Begin(tokens, namespace, chunk, self._carried[carried % len(self._carried)])
        request = self.admit(begin)
        if request is None and begin in self.waiting and self._make_room(how):
            self.waiting.remove(begin)
            request = self.admit(begin)
        if request is not None and stored:
            self.apply(Store(request.number))
        return request

    def admit(self, begin: Begin) -> Request | None:
        """The request, or None where it has to wait."""
        self._prompts.append(begin.tokens)
        number = self.judge.count
        if self.apply(begin):
            return self.judge.oracle.requests[number]
        refused = self.judge.outcome.refused
        if refused is not None and refused.kind in _WAIT:
            self.waiting.append(begin)
            self._refused_since_an_end += 1
            # A run may be without the rules that end something: it would only be refused.
            if self._refused_since_an_end > 1 and self.running():
                self.end(self.running()[0], ENDS[number % len(ENDS)])
        return None

    def _make_room(self, how: int) -> bool:
        """What an engine does where there was none: it mostly ends somebody, and tries again."""
        running = self.running()
        if not running or how % 4 == 0:
            return False
        self.end(running[how // 4 % len(running)], Finish if how % 4 < 3 else Preempt)
        return True

    # ------------------------------------------------------------------- while it runs

    def tell(self, request: Request, length: int, how: int) -> None:
        """Values up to so many tokens: those that are late first, then new ones."""
        missing = length - len(request.tokens)
        if missing > 0:
            tokens = (self.pending(request) + self.letters(how, missing))[:missing]
            self.apply(Append(request.number, tokens))

    def extend(self, request: Request, count: int, how: int) -> bool:
        """Slots; where there is no room, an engine ends one, often the one that asked."""
        length = len(request.row) + count
        known = len(self.judge.sequences[request.number])
        ahead = self.letters(how, length - known) if length <= self.longest else ()
        if self.apply(Extend(request.number, count, ahead)):
            return True
        if how % 2:
            self.end(request, ENDS[how // 2 % 4])
        return False

    def store_all(self) -> None:
        """K and V of whatever has slots and is behind."""
        for request in self.running():
            if request.stored_len < len(request.row):
                self.apply(Store(request.number))

    def end(self, request: Request, how: type[Finish | Abort | Preempt]) -> None:
        """End one; what was preempted waits."""
        self._refused_since_an_end = 0
        if how is Finish and request.stored_len < len(request.row) and self.judge.count % 3:
            self.apply(Store(request.number))  # else the cache would hardly hold anything
        self._ended.append(request.number)
        tokens = tuple(request.tokens[: self.longest])
        self._prompts.append(tokens)
        self.apply(how(request.number))
        if how is Preempt:
            self.waiting.append(Begin(tokens, request.namespace))

    def end_all(self) -> None:
        """End all that runs, and empty the cache."""
        for operation in drain(self.judge):
            self.apply(operation)

    def lose_all(self, how: int) -> None:
        """All are stored and commit, in one order and the other; all end; memory gets short.

        So it shows in which order the commits and finishes were, also those with nothing new.
        """
        self.store_all()
        running = self.running()
        for request in (*running[::-1], *running):
            self.apply(Commit(request.number))
        for request in running[::-1]:
            self.end(request, ENDS[how % 4])
        for operation in squeeze(self.judge):
            self.apply(operation)

    def apply(self, operation: RequestOperation) -> bool:
        """Whether it had to be accepted, and was."""
        self.require(self.judge.apply(operation))
        return self.judge.outcome.refused is None

    def require(self, divergence: object) -> None:
        """Fail where there is one."""
        if divergence is not None:
            raise self._failure()
