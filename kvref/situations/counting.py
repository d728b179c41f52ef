"""Counts of one target in one process: hands out watchers, and sums up what they saw."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from kvref.configuration import Configuration
from kvref.promises import Promises
from kvref.requests.promises import RequestPromises
from kvref.situations.laws import CONTRACT
from kvref.situations.manager import ManagerWatcher
from kvref.situations.registry import ACCEPTED, PAGE_SIZES, POLICIES, SHAPES, SITUATIONS, names
from kvref.situations.requests import RequestWatcher
from kvref.situations.tally import (
    LawTally,
    ManagerTally,
    RequestTally,
    SituationTally,
    Tally,
    versions,
)

__all__ = ["Counting", "Judged"]

_SUM_UP_AT = 20_000
_PARTS = {"page_sizes": PAGE_SIZES, "policies": POLICIES, "shapes": SHAPES}


class Judged(Protocol):
    """What is read from a judge."""

    skipped: list[int]

    @property
    def judged(self) -> Counter[str]:
        """How often each law was judged."""


class Counting:
    """Of one target with one set of promises; `watch` each run, then `count` its judge.

    To watch costs a fifth of the time that a fast target and its judge take. Where that is too
    much, only one of `every` so many runs is watched; the tally is then of those alone.
    """

    def __init__(
        self, target: str, promises: Promises | RequestPromises, *, every: int = 1
    ) -> None:
        self.target, self.promises, self.every = target, promises, every
        self._asked = 0
        self._machine = "requests" if isinstance(promises, RequestPromises) else "manager"
        self._raw: dict[int, int] = {}
        self._looks: dict[str, int] = {}
        self._judged: Counter[str] = Counter()
        self._runs = 0
        self._skipped = 0
        self._accepted: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()
        self._situations = {
            name: SituationTally()
            for name, situation in SITUATIONS.items()
            if situation.machine == self._machine
        }

    def watch(self, configuration: Configuration) -> Any:
        """The listener, or observer, of one new judge, or None if that run is not watched.

        Its `attach` wants the judge.
        """
        self._asked += 1
        if (self._asked - 1) % self.every:
            return None
        if len(self._raw) > _SUM_UP_AT:
            self._sum_up()
        if self._machine == "requests":
            return RequestWatcher(configuration, self._raw, self._looks)
        return ManagerWatcher(configuration, self._raw, self._looks)

    def count(self, watcher: Any, judge: Judged) -> None:
        """The run has ended, wherever it got to."""
        watcher.finish()
        self._runs += 1
        self._skipped += len(judge.skipped)
        self._judged += judge.judged

    def tally(self) -> Tally:
        """All of it so far."""
        self._sum_up()
        counts = {
            **self._judged,
            **{f"accepted {kind}": count for kind, count in self._accepted.items()},
        }
        laws = {}
        for name, law in CONTRACT.items():
            if law.machine != self._machine:
                continue
            counted = self._counted[name] + self._looks.get(name, 0)
            judged = sum(counts.get(each, 0) for each in law.judged_by)
            if not law.judged_by:
                judged = counted
            elif not law.counts_when:
                counted = judged
            # After a difference the judge has not compared all that was at stake.
            laws[name] = LawTally(judged, min(counted, judged))
        tally: type[Tally] = RequestTally if self._machine == "requests" else ManagerTally
        return tally(
            target=self.target,
            promises=self.promises,
            versions=versions(),
            runs=self._runs,
            skipped=self._skipped,
            accepted=dict(self._accepted),
            refused=dict(self._refused),
            laws=laws,
            situations=self._situations,
        )

    def _sum_up(self) -> None:
        """Turn the bits into names. In the order in which they came: the first is named."""
        for bits, count in self._raw.items():
            found = names(bits)
            (kind,) = found["kind"]
            accepted = ACCEPTED in found["mark"]
            (self._accepted if accepted else self._refused)[kind] += count
            for law in found["law"]:
                self._counted[law] += count
            for name in found["situation"]:
                situation = self._situations[name]
                situation.met += count
                situation.first = situation.first or kind
                _add(situation.operations, kind, count)
                for part, marks in _PARTS.items():
                    for mark in found["mark"]:
                        if mark in marks:
                            _add(getattr(situation, part), mark, count)
        self._raw.clear()


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count
