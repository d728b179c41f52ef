"""Failures on disk: JSON lines, a header, then the operations, then what differed."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec

from kvref.campaign import Failure
from kvref.operations import encode

__all__ = ["SCHEMA", "write"]

SCHEMA = "kvref.failure/1"


def write(folder: Path, target: str, failure: Failure) -> Path:
    """Write one failure, whole or not at all; returns the file.

    The name is that of the target, seed and run: the same failure found again overwrites it.
    """
    header = {
        "schema": SCHEMA,
        "target": target,
        "seed": failure.seed,
        "run": failure.run,
        "configuration": failure.configuration,
        "python": platform.python_version(),
    }
    lines = [
        msgspec.json.encode(header),
        *map(encode, failure.operations),
        msgspec.json.encode({"divergence": failure.divergence}),
    ]
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in target)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{safe}-seed{failure.seed}-run{failure.run}.jsonl"
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(b"\n".join(lines) + b"\n")
    os.replace(unfinished, path)
    return path
