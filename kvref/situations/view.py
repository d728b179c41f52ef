"""What a report says of a tally, before it is laid out for a terminal or a browser."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvref.situations.laws import CONTRACT
from kvref.situations.registry import KINDS, SITUATIONS, ruled_out
from kvref.situations.tally import LawTally, SituationTally, Tally

__all__ = ["Changes", "LawRow", "SituationRow", "View", "view"]

_NOTABLE = 4.0
"""A share that grew or shrank by less than this factor is the luck of the draw."""
_SEEN_ENOUGH = 20
"""And where it was met less often than this, anything is."""


@dataclass(frozen=True)
class LawRow:
    """One law.

    `status`: "counted", "vacuous" (judged with nothing at stake), "not judged", "ruled out".
    """

    id: str
    sentence: str
    counts_when: str
    tally: LawTally
    status: str
    why: str


@dataclass(frozen=True)
class SituationRow:
    """One situation. `status`: "met", "missed" (and required), "not met", "ruled out"."""

    id: str
    group: str
    sentence: str
    why: str
    tally: SituationTally
    status: str
    reason: str


@dataclass
class Changes:
    """What differs from an earlier tally, by id."""

    newly_met: list[str] = field(default_factory=list)
    no_longer_met: list[str] = field(default_factory=list)
    rarer: list[str] = field(default_factory=list)
    more_often: list[str] = field(default_factory=list)
    laws_gained: list[str] = field(default_factory=list)
    laws_lost: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(vars(self).values())


@dataclass(frozen=True)
class View:
    """All that a report shows of one target."""

    tally: Tally
    laws: list[LawRow]
    situations: list[SituationRow]
    kinds: list[str]
    unknown: list[str]
    changes: Changes | None

    def count(self, status: str) -> int:
        """How many situations there are of this status."""
        return sum(row.status == status for row in self.situations)

    @property
    def missed(self) -> list[str]:
        """The required situations that were never met."""
        return [row.id for row in self.situations if row.status == "missed"]

    @property
    def headline(self) -> str:
        """One line: how many there are, and of which kind."""
        possible = len(self.situations) - self.count("ruled out")
        counted = sum(row.status == "counted" for row in self.laws)
        judged = sum(row.status in ("counted", "vacuous") for row in self.laws)
        return (
            f"{self.count('met')} of {possible} situations met, "
            f"{self.count('ruled out')} ruled out by its promises; "
            f"{counted} of {judged} judged laws had something at stake"
        )


def view(tally: Tally, baseline: Tally | None = None) -> View:
    """What a report says of `tally`, and of what changed since `baseline`."""
    machine = tally.machine
    reasons = tally.promises.not_judged()
    laws = [_law(name, tally, reasons) for name, law in CONTRACT.items() if law.machine == machine]
    situations = [
        _situation(name, tally) for name, each in SITUATIONS.items() if each.machine == machine
    ]
    seen = {*tally.accepted, *tally.refused}
    return View(
        tally=tally,
        laws=[row for row in laws if row is not None],
        situations=situations,
        kinds=[*KINDS[machine], *sorted(seen.difference(KINDS[machine]))],
        unknown=sorted({*tally.situations, *tally.laws} - {*SITUATIONS, *CONTRACT}),
        changes=None if baseline is None else _changes(baseline, tally),
    )


def _law(name: str, tally: Tally, reasons: dict[str, str]) -> LawRow | None:
    law = CONTRACT[name]
    if name == "legal-victims" and tally.promises.eviction == "exact":
        return None  # no gap: the law of victims says more
    counts = tally.laws.get(name, LawTally())
    out = ruled_out(law.needs, tally.promises)
    promised = [reasons[each] for each in law.judged_by if each in reasons]
    if counts.counted:
        status, why = "counted", ""
    elif out is not None:
        status, why = "ruled out", out
    elif counts.judged:
        status, why = "vacuous", "nothing was ever at stake"
    else:
        status = "not judged"
        why = "; ".join(promised) or "it did not come up, or cannot be looked at"
    return LawRow(name, law.sentence, law.counts_when, counts, status, why)


def _situation(name: str, tally: Tally) -> SituationRow:
    situation = SITUATIONS[name]
    counts = tally.situations.get(name, SituationTally())
    out = ruled_out(situation.needs, tally.promises)
    if counts.met:
        status = "met"
    elif out is not None:
        status = "ruled out"
    else:
        status = "missed" if situation.required else "not met"
    return SituationRow(
        name, situation.group, situation.sentence, situation.why, counts, status, out or ""
    )


def _changes(old: Tally, new: Tally) -> Changes:
    changes = Changes()
    for name in {**new.situations, **old.situations}:
        before = old.situations.get(name, SituationTally()).met
        after = new.situations.get(name, SituationTally()).met
        if bool(before) != bool(after):
            (changes.newly_met if after else changes.no_longer_met).append(name)
        elif before and max(before, after) >= _SEEN_ENOUGH:
            # Shares of all operations: the runs may differ in length.
            factor = (after / new.operations) / (before / old.operations)
            if factor >= _NOTABLE:
                changes.more_often.append(name)
            elif factor <= 1 / _NOTABLE:
                changes.rarer.append(name)
    for name in {**new.laws, **old.laws}:
        had = old.laws.get(name, LawTally()).counted
        has = new.laws.get(name, LawTally()).counted
        if bool(had) != bool(has):
            (changes.laws_gained if has else changes.laws_lost).append(name)
    return changes
