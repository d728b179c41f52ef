"""What became of a trace that was run again, in sentences, and its header as facts."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import msgspec

from kvref.divergence import Divergence, DivergenceKind
from kvref.laws import LAWS
from kvref.page.text import cut
from kvref.requests.laws import REQUEST_LAWS
from kvref.traces.format import Trace

__all__ = ["Difference", "Verdict", "facts", "in_step", "verdict"]

_WORDS = 20_000
_MOST_SLOTS = 256
_OF_SLOTS = {
    DivergenceKind.MATCH_SLOTS,
    DivergenceKind.VICTIMS,
    DivergenceKind.RESET_SLOTS,
    DivergenceKind.ROW,
}


class Difference(msgspec.Struct, frozen=True):
    """The difference from the oracle, to be shown.

    Fields:
        law: the sentence of the law that was broken.
        expected_slots, got_slots: where the two are lists of slots.
    """

    kind: str
    law: str
    index: int
    call: str
    expected: str
    got: str
    expected_slots: tuple[int, ...] | None
    got_slots: tuple[int, ...] | None

    @property
    def moved(self) -> tuple[int, ...]:
        """Slots that both have, and one of the two at another place in the order."""
        ours, theirs = self.expected_slots or (), self.got_slots or ()
        alike = {ours[i] for i, _ in in_step(ours, theirs)}
        return tuple(slot for slot in ours if slot in theirs and slot not in alike)


class Verdict(msgspec.Struct, frozen=True):
    """How the run ended: the difference if there is one, and sentences on what was recorded."""

    difference: Difference | None
    title: str
    sentences: tuple[str, ...]


def verdict(
    trace: Trace,
    divergence: Divergence | None,
    *,
    target: str,
    ran: int,
    otherwise: tuple[int, str] | None,
) -> Verdict:
    """Of a run of the trace on this target, which ran so many of the operations."""
    recorded, sentences = trace.divergence, []
    if divergence is not None and recorded is not None:
        now = (divergence.kind, divergence.law, divergence.index)
        if now == (recorded.kind, recorded.law, recorded.index):
            sentences.append("The recorded failure still occurs.")
        else:
            sentences.append(
                "It fails otherwise than recorded: recorded was "
                f"{recorded.kind.value} at operation {recorded.index}."
            )
    elif divergence is not None:
        sentences.append("The trace recorded no difference.")
    elif recorded is not None:
        sentences.append(
            "The recorded failure does not occur: recorded was "
            f"{recorded.kind.value} at operation {recorded.index}."
        )
    if trace.header.target is not None and target != trace.header.target:
        sentences.append(
            f"This page shows {cut(target, 200)}; recorded was {cut(trace.header.target, 200)}."
        )
    if otherwise is not None:
        sentences.append(
            f"First otherwise than recorded at operation {otherwise[0]}: {cut(otherwise[1], 1000)}."
        )
    operations = len(trace.program.operations)
    if divergence is None and ran < operations:
        left = f"{operations - ran:,} of {operations:,}"
        sentences.append(
            f"The run ended before operation {ran}, with {left} left: "
            "that one breaks the contract itself, and nothing can be said about the target there."
        )
    if divergence is None:
        early = f" before operation {ran}" if ran < operations else ""
        return Verdict(None, f"No difference from the oracle{early}", tuple(sentences))
    kind = divergence.kind.value
    title = f"{kind} at operation {divergence.index}"
    return Verdict(_difference(divergence), title, tuple(sentences))


def _difference(divergence: Divergence) -> Difference:
    of_slots = divergence.kind in _OF_SLOTS
    expected = _slots(divergence.expected) if of_slots else None
    got = _slots(divergence.got) if of_slots else None
    return Difference(
        kind=divergence.kind.value,
        law=(LAWS | REQUEST_LAWS).get(divergence.law, divergence.law),
        index=divergence.index,
        call=cut(divergence.operation.python(divergence.index), 1000),
        expected=cut(divergence.expected, _WORDS),
        got=cut(divergence.got, _WORDS),
        expected_slots=expected if got is not None else None,
        got_slots=got if expected is not None else None,
    )


def _slots(words: str) -> tuple[int, ...] | None:
    """The slots, if the words are a list of them and nothing else, and not too many to look at."""
    try:
        slots = msgspec.json.decode(words, type=tuple[int, ...])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None
    return slots if len(slots) <= _MOST_SLOTS else None


def in_step(ours: tuple[int, ...], theirs: tuple[int, ...]) -> list[tuple[int, int]]:
    """The places of what is alike in both, as much as is in the same order."""
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]


def facts(trace: Trace, target: str) -> list[tuple[str, str]]:
    """The header of the page, each fact with its name."""
    header = trace.header
    configuration: dict[str, Any] = msgspec.to_builtins(trace.program.configuration)
    found: list[tuple[str, object]] = [
        ("target", target),
        ("recorded on", header.target if header.target != target else None),
        ("configuration", ", ".join(f"{name} {value}" for name, value in configuration.items())),
        ("seed", header.seed),
        ("run", header.run),
        ("looked at every", f"{header.look_every} operations" if header.look_every > 1 else None),
        ("versions", ", ".join(f"{name} {value}" for name, value in header.versions.items())),
        ("commit", header.commit and header.commit[:12]),
        ("note", header.note),
    ]
    return [(name, cut(str(value), 2000)) for name, value in found if value not in (None, "")]
