"""The lines of a trace, and a trace in memory.

    {"schema":"kvref.trace/1","machine":"manager","target":"kvgpu-radix", ...}
    {"line":"operation","index":0,"operation":{"do":"match","tokens":[1]},"expected":"..."}
    {"line":"outcome","index":0,"got":"...","tree":"0123456789abcdef"}
    ...
    {"line":"divergence","kind":"victims","law":"victims","index":3,"expected":"...","got":"..."}

or, at the end of a recording that could not keep all:

    {"line":"gap","index":3,"reason":"the queue was full"}

An operation is written before it runs and its outcome after it, so whatever happened in between,
the file says what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from kvref.divergence import DivergenceKind
from kvref.machine import Machine, Program

__all__ = [
    "SCHEMA",
    "DivergenceLine",
    "GapLine",
    "Header",
    "Line",
    "OperationLine",
    "OutcomeLine",
    "Record",
    "Trace",
    "TraceError",
]

SCHEMA = "kvref.trace/1"


class TraceError(Exception):
    """The file is no trace that can be read: which line (from 1, or 0 for the file), and why."""

    def __init__(self, path: object, line: int, reason: str) -> None:
        self.path, self.line, self.reason = str(path), line, reason
        super().__init__(f"{path}, line {line}: {reason}" if line else f"{path}: {reason}")


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Header(_Struct, frozen=True):
    """The first line. What belongs to a machine is in JSON until the machine reads it.

    Fields:
        target: its name, as `kvref fuzz` takes it; None where it has none.
        seed, run: of the campaign that found it.
        look_every: how often structure and integrity were looked at.
        commit: the git revision of the directory that it ran in.
        note: what it is, for a trace that is kept.
    """

    schema: str
    machine: str
    target: str | None
    promises: msgspec.Raw
    configuration: msgspec.Raw
    seed: int | None = None
    run: int | None = None
    look_every: Annotated[int, msgspec.Meta(ge=1)] = 1
    commit: str | None = None
    versions: dict[str, str] = {}
    note: str | None = None


class OperationLine(_Struct, frozen=True, tag_field="line", tag="operation"):
    """What is asked. `expected` is in words; None where it was not issued, or is not known."""

    index: int
    operation: msgspec.Raw
    expected: str | None = None


class OutcomeLine(_Struct, frozen=True, tag_field="line", tag="outcome"):
    """What came back, in words, and the digest of the oracle's tree after it.

    The digest is empty where there was no oracle: in a recording.
    """

    index: int
    got: str | None
    tree: str


class DivergenceLine(_Struct, frozen=True, tag_field="line", tag="divergence"):
    """How the run ended: the first difference from the oracle."""

    kind: DivergenceKind
    law: str
    index: int
    expected: str
    got: str


class GapLine(_Struct, frozen=True, tag_field="line", tag="gap"):
    """A recording ended here, before the manager did: what came next could not be kept, and why.

    What comes before it is whole. `index` is that of the last operation, -1 if there is none.
    """

    index: int
    reason: str


Line = OperationLine | OutcomeLine | DivergenceLine | GapLine


@dataclass(frozen=True)
class Record:
    """What a trace says of one operation beside the operation; None where it does not."""

    expected: str | None = None
    got: str | None = None
    tree: str | None = None


@dataclass(frozen=True)
class Trace:
    """A trace in memory: one record for each operation, and how it ended if that is known.

    `gap` says why a recording ends where it does, if it was not the manager that ended.
    """

    header: Header
    machine: Machine
    promises: Any
    program: Program
    records: tuple[Record, ...]
    divergence: DivergenceLine | None
    gap: str | None = None
