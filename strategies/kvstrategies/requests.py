"""The state machine over whole requests: every rule issues the steps of an engine to both sides.

The rules include what a uniform generator lacks: equal prompts in flight at once, prompts that
just fit and just do not, a refused one tried again, results that come a step late, and every way
to end at every stage. A failure's text is the program that the run issued.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from kvref.registry import find_requests
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import LocalRequestExecutor
from kvref.requests.judge import RequestJudge
from kvref.requests.machine import REQUESTS, RequestBench
from kvref.requests.operations import Append, Begin, Commit, Finish, Store
from kvref.requests.target import RequestTargetFactory
from kvref.situations import collector
from kvref.situations.counting import Counting
from kvref.situations.requests import RequestWatcher
from kvref.traces.failures import FAILURES
from kvstrategies.configuration import request_configurations
from kvstrategies.request_engine import ENDS, Engine, choices
from kvstrategies.sequences import ALPHABETS, Recipe, recipes
from kvstrategies.shards import JudgedMachine, shards_of

__all__ = ["RequestMachine", "request_machine", "request_shards"]

_NAMESPACES: tuple[tuple[str | None, ...], ...] = ((None,), (None,), (None, ""), ("a", "b"))
_WHICH = st.integers(0, 11)
# The small choices of a rule, drawn as one number: each draw costs as much as a step does.
_HOW = st.integers(0, 2**16 - 1)
_PROMPTS = recipes(pages=(1, 2, 0, 1))


class RequestMachine(JudgedMachine):
    """Subclass it with a `factory`, or let `request_shards` do so."""

    factory: ClassVar[RequestTargetFactory]

    def __init__(self) -> None:
        super().__init__()
        self.judge: RequestJudge | None = None
        self._executor: LocalRequestExecutor | None = None
        self._counting: Counting | None = None
        self._watcher: RequestWatcher | None = None
        self._look_every = 1

    @initialize(
        data=st.data(),
        alphabet=st.sampled_from(ALPHABETS),
        spaces=st.sampled_from(_NAMESPACES),
        look_every=st.sampled_from((1, 5, 5)),
        first=st.lists(_PROMPTS, min_size=2, max_size=4),
        how=_HOW,
    )
    def start(
        self,
        data: Any,
        alphabet: tuple[int, ...],
        spaces: tuple[str | None, ...],
        look_every: int,
        first: list[Recipe],
        how: int,
    ) -> None:
        """New requests, of which one is cached and some run: rules may be left out of the run."""
        promises = self.factory.promises
        configuration: RequestConfiguration = data.draw(request_configurations(promises))
        self._executor = LocalRequestExecutor(self.factory(configuration), self.time_limit)
        # A look brings the page table on the device up to date, so to look at once each time
        # would hide what is wrong with changes that gather.
        self._look_every = look_every
        name = self.target or ""
        self._counting = collector.counting(self.factory, name, held=self.held)
        self._watcher = self._counting.watch(configuration) if self._counting else None
        self.judge = RequestJudge(
            self._executor, configuration, promises, look_every=look_every, observer=self._watcher
        )
        if self._watcher:
            self._watcher.attach(self.judge)
        self.engine = Engine(
            self.judge, alphabet, spaces if promises.namespaces else (None,), self._failure
        )
        at, how = choices(how, 2)
        for number, recipe in enumerate(first):
            self.engine.begin(*self.engine.cook(recipe), how)
            # Before the others, which then share it; or while they run, and have copies.
            if number == at and self.engine.running():
                begun = self.engine.running()[0]
                self.engine.apply(Store(begun.number))
                self.engine.end(begun, Finish)

    # ------------------------------------------------------------------------- admission

    @rule(recipe=_PROMPTS, how=_HOW)
    def begin(self, recipe: Recipe, how: int) -> None:
        """A prompt that extends or cuts an earlier one; perhaps in chunks, perhaps stored."""
        self.engine.make_a_row_free(how)
        self.engine.begin(*self.engine.cook(recipe), how)

    @rule(which=_WHICH, how=_HOW)
    def begin_an_equal_one(self, which: int, how: int) -> None:
        """What one that runs knows by now, or a token or two less."""
        self.engine.make_a_row_free(how)
        request = self.engine.one(which, how)
        if request is not None:
            fewer, how = choices(how, 3)
            tokens = tuple(request.tokens)[: self.engine.longest]
            kept = max(1, len(tokens) - fewer)
            self.engine.begin(tokens[:kept], request.namespace, how)

    @rule(recipe=_PROMPTS, how=_HOW)
    def admit_a_batch(self, recipe: Recipe, how: int) -> None:
        """Several at once that share a prefix, before any of them is stored."""
        self.engine.make_a_row_free(how)
        tokens, namespace = self.engine.cook(recipe)
        count, longer, stored, how = choices(how, 3, 3, 2)
        judge = self.engine.judge
        count = min(1 + count, judge.configuration.max_requests - judge.oracle.num_running)
        begun = []
        for number in range(max(1, count)):
            more = self.engine.letters(how + number, number * (0, 1, self.engine.size)[longer])
            prompt = (tokens + more)[: self.engine.longest]
            begun.append(self.engine.admit(Begin(prompt, namespace)))
        for request in begun:
            if request is not None and stored:
                self.engine.apply(Store(request.number))

    @rule(which=_WHICH, how=_HOW)
    def begin_a_waiting_one(self, which: int, how: int) -> None:
        """One that was refused or preempted: what it matches may be another prefix by now."""
        self.engine.make_a_row_free(how)
        if self.engine.waiting:
            self.engine.admit(self.engine.waiting.pop(which % len(self.engine.waiting)))
        else:
            self.engine.one(which, how)

    @rule(recipe=_PROMPTS, how=_HOW)
    def begin_to_fit(self, recipe: Recipe, how: int) -> None:
        """A prompt for which all that is evictable has to go, or some, or a page more."""
        self.engine.make_a_row_free(how | 1)
        tokens, namespace = self.engine.cook(recipe)
        fit, short, how = choices(how, 4, self.engine.size)
        matched = self.engine.judge.oracle.cache.walk(tokens[:-1], namespace)
        pages = self.engine.pages_that(fit, matched)
        cached = len(matched) * self.engine.size
        length = max(1, cached + pages * self.engine.size - short)
        tokens = (tokens[:cached] + self.engine.letters(how, length))[:length]
        self.engine.admit(Begin(tokens[: self.engine.longest], namespace))

    # ------------------------------------------------------------------- while it runs

    @rule(which=_WHICH, how=_HOW)
    def store(self, which: int, how: int) -> None:
        """K and V of what has slots: of one, or of all that are behind."""
        request = self.engine.one(which, how)
        if request is not None and how % 2:
            self.engine.apply(Store(request.number))
        elif request is not None:
            self.engine.store_all()

    @rule(which=_WHICH, how=_HOW)
    def decode(self, which: int, how: int) -> None:
        """The next chunk of a prompt, or tokens one after the other, over the page's end too."""
        request = self.engine.one(which, how)
        if request is None:
            return
        far, stored, early, committed, how = choices(how, 4, 4, 4, 4)
        count = (1, 1, self.engine.size, self.engine.size + 1)[far]
        count = min(count, self.engine.longest - len(request.row))
        if count < 1:
            self.engine.end(request, ENDS[how % 4])
            return
        self.engine.tell(request, len(request.row) + count + (early == 0), how)
        if self.engine.extend(request, count, how) and stored:
            self.engine.apply(Store(request.number))
            if committed == 0:
                self.engine.apply(Commit(request.number))

    @rule(which=_WHICH, how=_HOW)
    def launch(self, which: int, how: int) -> None:
        """A step before the results of the last one: slots, and K and V, of unknown tokens.

        Perhaps another launch before any result, and perhaps the end in between.
        """
        request = self.engine.one(which, how)
        if request is None:
            return
        far, again, ends, stored, how = choices(how, 3, 2, 8, 8)
        left = max(0, len(request.tokens) - len(request.row))
        for _ in range(1 + again):
            count = left + (1, 1, 1 + self.engine.size)[far]
            count = min(count, self.engine.longest - len(request.row))
            if count < 1 or not self.engine.extend(request, count, how):
                return
            if stored:
                self.engine.apply(Store(request.number))
            left = 0
        if ends < len(ENDS):
            self.engine.end(request, ENDS[ends])

    @rule(which=_WHICH, how=_HOW)
    def results(self, which: int, how: int) -> None:
        """Some or all of the results that are late; perhaps one more."""
        late = [each for each in self.engine.running() if self.engine.pending(each)]
        request = late[which % len(late)] if late else self.engine.one(which, how)
        if request is not None:
            told, how = choices(how, 3)
            pending = self.engine.pending(request)
            tokens = (pending + self.engine.letters(how, 1), pending, pending[:1])[told]
            self.engine.apply(Append(request.number, tokens))

    @rule(which=_WHICH, how=_HOW)
    def grow_to_fit(self, which: int, how: int) -> None:
        """As much as makes all that is evictable go, or some, or a page more."""
        request = self.engine.one(which, how)
        if request is not None:
            fit, short, how = choices(how, 4, self.engine.size)
            length, size = len(request.row), self.engine.size
            count = -length % size + self.engine.pages_that(fit) * size - short
            count = min(max(1, count), self.engine.longest - length)
            if count < 1:
                self.engine.end(request, ENDS[how % 4])
                return
            self.engine.tell(request, length + count, how)
            self.engine.extend(request, count, how)

    @rule(which=_WHICH, how=_HOW)
    def commit(self, which: int, how: int) -> None:
        """Publish what one has, or all; and perhaps again, which is a use and no more."""
        request = self.engine.one(which, how)
        if request is not None:
            order, stored = choices(how, 4, 2)[:2]
            running = self.engine.running()
            for each in (running, running[::-1] + running, [request], [request])[order]:
                if stored and each.stored_len < len(each.row):
                    self.engine.apply(Store(each.number))
                self.engine.apply(Commit(each.number))

    # -------------------------------------------------------------------------- the end

    @rule(which=_WHICH, how=_HOW)
    def end(self, which: int, how: int) -> None:
        """Finish, abort or preempt one, at whatever stage."""
        request = self.engine.one(which, how)
        if request is not None:
            self.engine.end(request, ENDS[how % 4])

    # The rare ones share one rule. Each with a rule of its own would be issued as often as a
    # begin, and hardly anything would run for long.
    @rule(which=st.integers(0, 15), how=_HOW)
    def rarely(self, which: int, how: int) -> None:
        """End everything, or a call that can never be right."""
        if which == 0:
            self.engine.end_all()
            self.engine.one(0, how)
        elif which == 1:
            self.engine.lose_all(how)
            self.engine.one(0, how)
        else:
            wrong = list(self.engine.wrong(how))
            self.engine.apply(wrong[which % len(wrong)])

    def teardown(self) -> None:
        """End all requests, empty the cache: whatever was hidden must show now."""
        judge = self.judge
        try:
            if judge is not None and judge.divergence is None:
                self.engine.require(judge.look())
                if judge.count % 2:
                    self.engine.lose_all(judge.count // 2)
                self.engine.end_all()
                self.engine.require(judge.look())
        finally:
            if self._counting and self._watcher and judge:
                self._counting.count(self._watcher, judge)
            if self._executor is not None:
                self._executor.close()

    def _failure(self) -> Exception:
        bench = RequestBench(self.factory, look_every=self._look_every, seconds=self.time_limit)
        return self.failure(REQUESTS, bench, self.judge)


def request_machine(
    target: str | RequestTargetFactory, name: str = "Requests"
) -> type[RequestMachine]:
    """A machine of one target: a registered name, `module:factory`, or a factory."""
    named = target if isinstance(target, str) else None
    factory = find_requests(target) if isinstance(target, str) else target
    return type(name, (RequestMachine,), {"factory": factory, "target": named})


def request_shards(
    target: str | RequestTargetFactory,
    *,
    shards: int = 4,
    name: str = "Requests",
    module: str = "",
    named: str | None = None,
    failures: Path = FAILURES,
) -> dict[str, type]:
    """Test classes to collect, as `kvstrategies.manager_shards` makes them."""
    return shards_of(
        lambda each: request_machine(target, each), shards, name, module, named, failures
    )
