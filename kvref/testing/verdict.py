"""What a whole session exercised, and whether that was enough: the table at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvref.known import KnownFailures
from kvref.situations.collector import merged, stop_session
from kvref.situations.page import page
from kvref.situations.registry import SITUATIONS
from kvref.situations.tally import Tally, decode, encode, write
from kvref.situations.view import View, view
from kvref.testing.explaining import known_failures

__all__ = ["Outcome", "collected", "judge", "write_report"]


@dataclass
class Outcome:
    """Of a session.

    Fields:
        views: of the targets that a suite or its shards ran on.
        others: what else ran: targets that nothing is asked of, broken ones among them.
        narrowed: why nothing can be said of what was not met.
        lost: workers that died with what they had counted.
        known: the known failures, and how often each was met.
        notes: more lines to show.
    """

    views: list[View] = field(default_factory=list)
    others: list[Tally] = field(default_factory=list)
    narrowed: str | None = None
    lost: Sequence[str] = ()
    known: KnownFailures = field(default_factory=lambda: KnownFailures(()))
    notes: list[str] = field(default_factory=list)

    @property
    def missed(self) -> list[tuple[View, list[str]]]:
        """What should have been met and was not; nothing where nobody can say."""
        if self.narrowed or self.lost:
            return []
        return [(each, each.missed) for each in self.views if each.missed]

    @property
    def failed(self) -> bool:
        """Whether the session fails for it, though all of its tests passed."""
        return bool(self.missed or self.lost)

    def lines(self) -> list[tuple[str, bool]]:
        """The table and what is to be said beside it; True for what somebody has to see."""
        plain = _table(self.views)
        for each in self.views:
            if reasons := _ruled_out(each):
                plain.append(f"{_title(each)}, ruled out by its promises: {reasons}")
        if self.others:
            operations = sum(each.operations for each in self.others)
            count = len(self.others)
            what = "1 target" if count == 1 else f"{count} targets"
            plain.append(f"{operations:,} operations on {what} that nothing is asked of")
        for known, count in self.known.met:
            plain.append(f"known, {count} times: {known.kind.value}, {known.note}")
        for known in self.known.not_met:
            plain.append(f"known, and did not occur: {known.kind.value}, {known.note}")
        return [
            *((line, False) for line in plain),
            *self._what_was_not_met(),
            *((line, False) for line in self.notes),
        ]

    def _what_was_not_met(self) -> list[tuple[str, bool]]:
        found = [
            (f"FAILED: worker {name} died, and what it met is not known", True)
            for name in self.lost
        ]
        for each, missing in self.missed:
            found.append((f"FAILED: required and never met by {_title(each)}:", True))
            found += [(f"  {name}: {SITUATIONS[name].sentence}", True) for name in missing]
        if self.narrowed and self.views:
            found.append((f"not a whole session, so nothing has to be met: {self.narrowed}", False))
        elif self.views and not self.failed:
            found.append(("every situation that has to be met was met", False))
        return found


def collected() -> dict[str, Any]:
    """What this process collected, as values that travel to another one."""
    found = stop_session()
    return {
        "tallies": encode([tally for tally, _ in found]).decode(),
        "held": [held for _, held in found],
        "known": {str(place): count for place, count in known_failures().counts().items()},
    }


def judge(
    received: Sequence[dict[str, Any]],
    narrowed: str | None,
    lost: Sequence[str],
    known: KnownFailures,
) -> Outcome:
    """The outcome of a session from what its processes collected."""
    tallies, held, known = [], set(), known.anew()
    for each in received:
        mine = decode(each["tallies"])
        tallies += mine
        held |= {tally.about for tally, is_held in zip(mine, each["held"], strict=True) if is_held}
        known.add_counts({int(place): count for place, count in each["known"].items()})
    together = merged(tallies)
    return Outcome(
        views=[view(tally) for tally in together if tally.about in held],
        others=[tally for tally in together if tally.about not in held],
        narrowed=narrowed,
        lost=lost,
        known=known,
    )


def write_report(path: Path, outcome: Outcome) -> str:
    """The tallies as JSON, and a page beside it; says where, or why not.

    Targets that nothing is asked of are in it only if there are no others.
    """
    views = outcome.views or [view(tally) for tally in outcome.others]
    html = path.with_suffix(".html")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, [each.tally for each in views])
        html.write_text(page(views), encoding="utf-8")
    except OSError as error:
        return f"report NOT written: {path}: {error.strerror or error}"
    return f"report: {path}, page: {html}"


def _title(shown: View) -> str:
    return f"{shown.tally.target} ({shown.tally.machine})"


def _ruled_out(shown: View) -> str:
    reasons = Counter(row.reason for row in shown.situations if row.status == "ruled out")
    return ", ".join(f"{count} ({reason})" for reason, count in reasons.most_common())


def _table(views: Sequence[View]) -> list[str]:
    if not views:
        return []
    rows = [("target", "machine", "runs", "operations", "laws at stake", "situations met")]
    for each in views:
        tally = each.tally
        possible = len(each.situations) - each.count("ruled out")
        counted = sum(row.status == "counted" for row in each.laws)
        judged = sum(row.status in ("counted", "vacuous") for row in each.laws)
        rows.append(
            (
                tally.target, tally.machine, f"{tally.runs:,}", f"{tally.operations:,}",
                f"{counted} of {judged}", f"{each.count('met')} of {possible}",
            )
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
