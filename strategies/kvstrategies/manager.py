"""The state machine over a bare manager: every rule issues operations to target and oracle.

The rules include what a uniform generator lacks: a match held over an evict, an insert without
a match before it, duplicates, handles made twice, evictions of exactly what there is, and the
misuse that has to be refused. A failure's text is the program that the run issued.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from kvref.composer import drain, slots_for
from kvref.configuration import Configuration
from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.operations import (
    FOREIGN,
    NOT_A_HANDLE,
    Carried,
    Evict,
    Insert,
    Lock,
    Match,
    Operation,
    Reset,
    Unlock,
)
from kvref.registry import find
from kvref.situations import collector
from kvref.situations.counting import Counting
from kvref.situations.manager import ManagerWatcher
from kvref.target import TargetFactory
from kvref.traces.failures import FAILURES
from kvstrategies.configuration import configurations
from kvstrategies.sequences import ALPHABETS, Recipe, recipes
from kvstrategies.shards import JudgedMachine, shards_of

__all__ = ["ManagerMachine", "manager_machine", "manager_shards"]

_NAMESPACES: tuple[tuple[str | None, ...], ...] = ((None,), (None,), (None, ""), ("a", "b"))
_NARROW: tuple[Carried, ...] = ("int64", "int32", "int64-strided", "int32-strided")
_WIDE: tuple[Carried, ...] = ("int64", "int64-strided")
_INDEX = st.integers(0, 40)
_LOOKUPS = recipes(pages=(0, 0, 1))


class ManagerMachine(JudgedMachine):
    """Subclass it with a `factory`, or let `manager_shards` do so."""

    factory: ClassVar[TargetFactory]

    def __init__(self) -> None:
        super().__init__()
        self.judge: Judge | None = None
        self._executor: LocalExecutor | None = None
        self._counting: Counting | None = None
        self._watcher: ManagerWatcher | None = None
        self._sequences: list[tuple[int, ...]] = []
        self._matches: list[int] = []

    @initialize(
        data=st.data(),
        alphabet=st.sampled_from(ALPHABETS),
        spaces=st.sampled_from(_NAMESPACES),
        first=st.lists(recipes(), min_size=1, max_size=3),
    )
    def start(
        self,
        data: Any,
        alphabet: tuple[int, ...],
        spaces: tuple[str | None, ...],
        first: list[Recipe],
    ) -> None:
        """A new manager, and something in it: Hypothesis may leave `insert` out of the run."""
        promises = self.factory.promises
        configuration: Configuration = data.draw(configurations(promises))
        self._alphabet = alphabet
        self._spaces = spaces if promises.namespaces else (None,)
        self._carried = _NARROW if max(map(abs, alphabet)) < 2**31 else _WIDE
        self._executor = LocalExecutor(self.factory(configuration), self.time_limit)
        self._counting = collector.counting(self.factory, self.target or "", held=self.held)
        self._watcher = self._counting.watch(configuration) if self._counting else None
        self.judge = Judge(self._executor, configuration, promises, listener=self._watcher)
        if self._watcher:
            self._watcher.attach(self.judge)
        for recipe in first:
            self.insert(recipe, 0, recipe.content)

    # ----------------------------------------------------------------- match, lock, unlock

    @rule(recipe=_LOOKUPS, carried=st.integers(0, 3))
    def match(self, recipe: Recipe, carried: int) -> None:
        """Match, and hold the handle over whatever comes."""
        tokens, namespace = self._cook(recipe)
        self._apply(Match(tokens, namespace, self._carried[carried % len(self._carried)]))
        self._matches.append(len(self._judge.operations) - 1)

    @rule(recipe=_LOOKUPS, carried=st.integers(0, 3))
    def match_and_lock(self, recipe: Recipe, carried: int) -> None:
        """Match and lock at once, as a request does."""
        self.match(recipe, carried)
        self._apply(Lock(self._matches[-1]))

    @precondition(lambda self: self._matches)
    @rule(which=_INDEX)
    def lock_a_match_held(self, which: int) -> None:
        """Lock the handle of any match so far: locked twice, or gone stale meanwhile."""
        self._apply(Lock(self._matches[-1 - which % len(self._matches)]))

    @precondition(lambda self: self.judge and self.judge.outstanding())
    @rule(which=_INDEX)
    def unlock(self, which: int) -> None:
        """Give back a lock that is outstanding."""
        locked = self._judge.outstanding()
        self._apply(Unlock(locked[which % len(locked)]))

    @precondition(lambda self: self._matches)
    @rule(which=_INDEX)
    def unlock_a_match_held(self, which: int) -> None:
        """Unlock the handle of any match so far, which may have no lock, or be stale."""
        self._apply(Unlock(self._matches[-1 - which % len(self._matches)]))

    # --------------------------------------------------------------------- insert, evict

    @rule(recipe=recipes(), carried=st.integers(0, 3), at=_INDEX)
    def insert(self, recipe: Recipe, carried: int, at: int) -> None:
        """Insert; what is cached already is named by the cache's own slots."""
        self._apply(self._insert(recipe, carried, at, own=-1))

    @rule(recipe=recipes(), carried=st.integers(0, 3), at=_INDEX, own=st.sampled_from((0, 1, 5)))
    def insert_duplicates(self, recipe: Recipe, carried: int, at: int, own: int) -> None:
        """Insert; bit i of `own` says whether page i, if cached, is named by the cache's slots."""
        self._apply(self._insert(recipe, carried, at, own))

    @precondition(lambda self: self.judge and self.judge.oracle.evictable_size)
    @rule(size=st.sampled_from((1, 1, 2, 3, 5)))
    def evict(self, size: int) -> None:
        """Evict a few slots, or what there is if that is less."""
        self._apply(Evict(min(size, self._judge.oracle.evictable_size)))

    # The rare ones share one rule. Each with a rule of its own would be issued as often as a
    # match, and the cache would hardly ever hold anything.
    @rule(which=st.sampled_from((*range(14), *range(8, 14))), recipe=recipes(), at=_INDEX)
    def rarely(self, which: int, recipe: Recipe, at: int) -> None:
        """Evict all or too much, reset, or a call that can never be right."""
        evictable = self._judge.oracle.evictable_size
        token = self._alphabet[0]
        operations: tuple[Operation, ...] = (
            Evict(-1), Evict(True), Evict(1.0), Lock(FOREIGN), Unlock(FOREIGN), Lock(NOT_A_HANDLE),
            Insert((token,), ()), Insert((), (0,)),
            Reset(), Evict(0), Evict(evictable), Evict(evictable + 1),
        )  # fmt: skip
        if which < len(operations):
            self._apply(operations[which])
        else:
            self._insert_wrong_slots(recipe, at)

    def _insert_wrong_slots(self, recipe: Recipe, at: int) -> None:
        """In checked mode: one page of slots is out of range, twice, another's or not whole."""
        configuration = self._judge.configuration
        right = self._insert(recipe, 0, at, own=-1)
        size = configuration.page_size
        pages = len(right.slots) // size
        if pages == 0 or not configuration.checked:
            return
        slots = list(right.slots)
        start = at % pages * size
        page = slots[start : start + size]
        twin = at // 4 % pages * size
        any_page = at // 4 % configuration.num_pages * size
        slots[start : start + size] = (
            [configuration.num_slots + i for i in range(size)],
            slots[twin : twin + size],
            [any_page + i for i in range(size)],
            page[1:] + page[:1] if size > 1 else [-1],
        )[at % 4]
        self._apply(Insert(right.tokens, tuple(slots), right.namespace))

    # ---------------------------------------------------------------------------- the end

    def teardown(self) -> None:
        """Give back all locks, evict all: whatever was hidden must show now."""
        try:
            if self.judge is not None and self.judge.divergence is None:
                for operation in drain(self.judge):
                    self._apply(operation)
        finally:
            if self._counting and self._watcher and self.judge:
                self._counting.count(self._watcher, self.judge)
            if self._executor is not None:
                self._executor.close()

    @property
    def _judge(self) -> Judge:
        assert self.judge is not None
        return self.judge

    def _cook(self, recipe: Recipe) -> tuple[tuple[int, ...], str | None]:
        configuration = self._judge.configuration
        earlier = self._sequences[-4:]
        tokens = recipe.cook(earlier, self._alphabet, configuration.page_size)
        return tokens[: 2 * configuration.num_slots], self._spaces[recipe.space % len(self._spaces)]

    def _insert(self, recipe: Recipe, carried: int, at: int, own: int) -> Insert:
        tokens, namespace = self._cook(recipe)
        # What was inserted is what later sequences extend and cut: it may be there.
        bits = iter(range(len(tokens) + 1))
        kept, slots = slots_for(
            self._judge.oracle,
            self._judge.configuration,
            tokens,
            namespace,
            lambda below: at % below,
            lambda: bool(own >> next(bits) & 1),
        )
        if kept:
            self._sequences.append(kept)
        return Insert(kept, slots, namespace, self._carried[carried % len(self._carried)])

    def _apply(self, operation: Operation) -> None:
        divergence = self._judge.apply(operation)
        if divergence is None:
            return
        bench = ManagerBench(self.factory, look_every=1, seconds=self.time_limit)
        raise self.failure(MANAGER, bench, self._judge)


def manager_machine(target: str | TargetFactory, name: str = "Manager") -> type[ManagerMachine]:
    """A machine of one target: a registered name, `module:factory`, or a factory."""
    named = target if isinstance(target, str) else None
    factory = find(target) if isinstance(target, str) else target
    return type(name, (ManagerMachine,), {"factory": factory, "target": named})


def manager_shards(
    target: str | TargetFactory,
    *,
    shards: int = 4,
    name: str = "Manager",
    module: str = "",
    named: str | None = None,
    failures: Path = FAILURES,
) -> dict[str, type]:
    """Test classes to collect, each with the profile's full number of examples.

    A machine is one test, which one worker of pytest-xdist runs; shards are what `-n auto`
    spreads. A failure is shrunk by kvref alone: Hypothesis takes minutes for what takes it
    milliseconds. Load a profile first (`kvstrategies.profiles`), then:

        globals().update(manager_shards("kvgpu-radix", module=__name__))

    `named` is what a factory is called in the file of a failure, and `failures` their folder.
    """
    return shards_of(
        lambda each: manager_machine(target, each), shards, name, module, named, failures
    )
