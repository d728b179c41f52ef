"""The tally: what was judged and met, as a value that is written, read strictly, and merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kvref import revision
from kvref.files import replace
from kvref.machine import encode_promises
from kvref.promises import Promises
from kvref.requests.promises import RequestPromises
from kvref.situations.registry import SITUATIONS, ruled_out

__all__ = [
    "SCHEMA", "LawTally", "ManagerTally", "RequestTally", "SituationTally", "Tally", "TallyError",
    "decode", "encode", "merge", "missed", "read", "versions", "write",
]  # fmt: skip

SCHEMA: Literal["kvref.situations/1"] = "kvref.situations/1"
_LARGEST = 8 * 2**20

Count = Annotated[int, Meta(ge=0, le=2**53)]
Name = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9 -]{0,79}\Z")]
First = Annotated[str, Meta(pattern=r"\A([a-z0-9][a-z0-9 -]{0,79})?\Z")]
Text = Annotated[str, Meta(max_length=1000)]
Counts = Annotated[dict[Name, Count], Meta(max_length=100)]


class TallyError(ValueError):
    """A file that holds no tally; the text names it and says why."""


class LawTally(msgspec.Struct, forbid_unknown_fields=True):
    """How often a law was judged, and how often something was at stake."""

    judged: Count = 0
    counted: Count = 0


class SituationTally(msgspec.Struct, forbid_unknown_fields=True):
    """How often a situation was met: by which operations, and upon what.

    `first` is the kind of the operation that met it first, or "" if none did.
    """

    met: Count = 0
    first: First = ""
    operations: Counts = {}
    page_sizes: Counts = {}
    policies: Counts = {}
    shapes: Counts = {}

    def __post_init__(self) -> None:
        if self.met != sum(self.operations.values()):
            raise ValueError("a situation was met as often as all its operations met it")
        if bool(self.first) != (self.met > 0) or (self.first and self.first not in self.operations):
            raise ValueError("a situation was met first by one of its operations")


class Tally(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="machine"):
    """What one or more runs of one machine against one target have exercised.

    Fields:
        target: as the command line names it.
        promises: of the target; what they rule out cannot be missed.
        versions: of what ran, each once.
        runs, skipped: runs, and operations that were not issued.
        accepted, refused: operations by their kind.
        laws, situations: by id. What the reader does not know stays: the file may be older.
    """

    target: Text
    promises: Any
    versions: Annotated[
        dict[Name, Annotated[list[Text], Meta(max_length=100)]], Meta(max_length=20)
    ]
    runs: Count = 0
    skipped: Count = 0
    accepted: Counts = {}
    refused: Counts = {}
    laws: Annotated[dict[Name, LawTally], Meta(max_length=1000)] = {}
    situations: Annotated[dict[Name, SituationTally], Meta(max_length=1000)] = {}

    def __post_init__(self) -> None:
        if not self.operations and any(each.met for each in self.situations.values()):
            raise ValueError("situations were met, and there were no operations")

    @property
    def machine(self) -> str:
        """Whose operations these were."""
        return str(type(self).__struct_config__.tag)

    @property
    def about(self) -> tuple[str, str, Any]:
        """What tallies have in common that can be added up or compared."""
        return self.machine, self.target, self.promises

    @property
    def operations(self) -> int:
        """How many were judged."""
        return sum(self.accepted.values()) + sum(self.refused.values())


class ManagerTally(Tally, kw_only=True, forbid_unknown_fields=True, tag="manager"):
    """Of a bare manager."""

    promises: Promises


class RequestTally(Tally, kw_only=True, forbid_unknown_fields=True, tag="requests"):
    """Of whole requests."""

    promises: RequestPromises


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """`schema` comes first, for whoever looks at the file."""

    schema: Literal["kvref.situations/1"]
    tallies: Annotated[list[ManagerTally | RequestTally], Meta(max_length=1000)]


def versions() -> dict[str, list[str]]:
    """Of this process."""
    return {name: [each] for name, each in revision.versions().items()}


def missed(tally: Tally) -> list[str]:
    """The required situations that were never met, though the promises allow them."""
    return [
        name
        for name, situation in SITUATIONS.items()
        if situation.machine == tally.machine
        and situation.required
        and not (name in tally.situations and tally.situations[name].met)
        and ruled_out(situation.needs, tally.promises) is None
    ]


def merge(tallies: Iterable[Tally]) -> Tally:
    """Of several runs or processes against one target; ValueError if there are two, or none."""
    merged: Tally | None = None
    for tally in tallies:
        if merged is None:
            (merged,) = decode(encode([tally]))  # a copy
            continue
        if tally.about != merged.about:
            raise ValueError(
                f"tallies of {merged.target!r} and {tally.target!r} are not of one machine on "
                "one target with one set of promises"
            )
        merged.runs += tally.runs
        merged.skipped += tally.skipped
        _add(merged.accepted, tally.accepted)
        _add(merged.refused, tally.refused)
        for name, found in tally.versions.items():
            known = merged.versions.setdefault(name, [])
            known += [each for each in found if each not in known]
        for name, law in tally.laws.items():
            mine = merged.laws.setdefault(name, LawTally())
            mine.judged += law.judged
            mine.counted += law.counted
        for name, situation in tally.situations.items():
            own = merged.situations.setdefault(name, SituationTally())
            own.met += situation.met
            own.first = own.first or situation.first
            for part in ("operations", "page_sizes", "policies", "shapes"):
                _add(getattr(own, part), getattr(situation, part))
    if merged is None:
        raise ValueError("there is nothing to merge")
    return merged


def encode(tallies: Sequence[Tally]) -> bytes:
    """As JSON, the same bytes for the same tallies."""
    fields = [msgspec.to_builtins(tally) for tally in tallies]
    for each, tally in zip(fields, tallies, strict=True):
        each["promises"] = msgspec.Raw(encode_promises(tally.promises))
    data = msgspec.json.encode({"schema": SCHEMA, "tallies": fields})
    return msgspec.json.format(data, indent=1)


def decode(data: bytes | str) -> list[Tally]:
    """What `encode` wrote; msgspec.MsgspecError otherwise."""
    return [*_DECODER.decode(data).tallies]


def write(path: Path, tallies: Sequence[Tally]) -> None:
    """Write them to a file, whole or not at all."""
    replace(path, encode(tallies) + b"\n")


def read(path: Path) -> list[Tally]:
    """What `write` wrote; TallyError with the reason otherwise."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise TallyError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > _LARGEST:
        raise TallyError(f"{path} is larger than {_LARGEST >> 20} MiB, which no report is")
    try:
        return decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TallyError(f"{path} is not a report of kvref: {error}") from None


def _add(into: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        into[name] = into.get(name, 0) + count


_DECODER = msgspec.json.Decoder(_File, strict=True)
