"""Failures that are known: a campaign goes past them, counts them, and says which did not occur.

One JSON value a line. A failure is the one in the file if kind, law and shrunk program are equal,
whatever its tokens, slots and namespaces are called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kvref.divergence import Divergence, DivergenceKind
from kvref.files import replace
from kvref.machine import Machine, Program
from kvref.machines import MACHINES
from kvref.traces.format import TraceError
from kvref.traces.reader import decoded, lines_of

__all__ = ["Known", "KnownFailures", "add", "fingerprint", "load"]


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line: the fingerprint of a failure, and what somebody wants to say of it."""

    machine: str
    kind: DivergenceKind
    law: str
    configuration: msgspec.Raw
    operations: tuple[msgspec.Raw, ...]
    note: str = ""

    def same(self, other: Known) -> bool:
        """Whether both are one failure; the notes do not count."""
        return self._key() == other._key()

    def _key(self) -> tuple[object, ...]:
        machine = MACHINES[self.machine]
        configuration = machine.decode_configuration(bytes(self.configuration))
        operations = [machine.decode(bytes(each)) for each in self.operations]
        return self.machine, self.kind, self.law, configuration, operations


_DECODER = msgspec.json.Decoder(Known)


def fingerprint(
    machine: Machine, program: Program, divergence: Divergence, note: str = ""
) -> Known:
    """Of a program that was shrunk: one that was not has chance in it, and is never met again."""
    canonical = machine.canonical(program)
    return Known(
        machine=machine.name,
        kind=divergence.kind,
        law=divergence.law,
        configuration=msgspec.Raw(msgspec.json.encode(canonical.configuration)),
        operations=tuple(msgspec.Raw(machine.encode(each)) for each in canonical.operations),
        note=note,
    )


def load(path: Path) -> list[Known]:
    """The known failures in the file; TraceError if that is not what it holds."""
    found = []
    for number, line in lines_of(path):
        known = decoded(path, number, _DECODER.decode, line)
        if known.machine not in MACHINES:
            raise TraceError(path, number, f"machine {known.machine[:40]!r} is not known")
        decoded(path, number, known.same, known)  # reads what is in it
        found.append(known)
    return found


def add(path: Path, known: Known) -> bool:
    """Add a failure to the file, which need not be there; False if it holds it already."""
    earlier = load(path) if path.exists() else []
    if any(known.same(each) for each in earlier):
        return False
    replace(path, b"".join(msgspec.json.encode(each) + b"\n" for each in [*earlier, known]))
    return True


class KnownFailures:
    """Known failures, and how often each was met."""

    def __init__(self, known: Sequence[Known]) -> None:
        self._known = list(known)
        self._met: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self._known)

    def counts(self) -> dict[int, int]:
        """How often each occurred, by its place in the file: what a worker sends."""
        return dict(self._met)

    def anew(self) -> KnownFailures:
        """The same failures, none of them met."""
        return KnownFailures(self._known)

    def add_counts(self, counts: Mapping[int, int]) -> None:
        """What happened in another process."""
        self._met.update(counts)

    def meet(self, failure: Known) -> Known | None:
        """The entry that this failure is, counted; None if it is new."""
        for number, known in enumerate(self._known):
            if known.same(failure):
                self._met[number] += 1
                return known
        return None

    @property
    def met(self) -> list[tuple[Known, int]]:
        """Those that occurred, and how often."""
        return [(self._known[number], count) for number, count in sorted(self._met.items())]

    @property
    def not_met(self) -> list[Known]:
        """Those that did not."""
        return [known for number, known in enumerate(self._known) if not self._met[number]]
