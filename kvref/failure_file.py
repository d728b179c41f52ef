"""Failures on disk: JSON lines (header, operations, what differed), and a Python program."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec

from kvref.campaign import Failure

__all__ = ["SCHEMA", "write"]

SCHEMA = "kvref.failure/1"


def write(folder: Path, target: str, failure: Failure) -> Path:
    """Write one failure, whole or not at all; returns the file.

    Beside it, with the ending .py, goes the same as a Python program for a person to read and run.
    The name is that of the target, seed and run: the same failure found again overwrites it.
    """
    header = {
        "schema": SCHEMA,
        "machine": failure.machine,
        "target": target,
        "seed": failure.seed,
        "run": failure.run,
        "configuration": failure.configuration,
        "python": platform.python_version(),
    }
    lines = [
        msgspec.json.encode(header),
        *map(msgspec.json.encode, failure.operations),
        msgspec.json.encode({"divergence": failure.divergence}),
    ]
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in target)
    folder.mkdir(parents=True, exist_ok=True)
    which = "-requests" if failure.machine == "requests" else ""
    path = folder / f"{safe}{which}-seed{failure.seed}-run{failure.run}.jsonl"
    said = "".join(f"# {line}\n" for line in str(failure.divergence).splitlines())
    about = f"# Judged was {target}; this issues the same to kvgpu.\n"
    _replace(path.with_suffix(".py"), f"{said}{about}{failure.program}".encode())
    _replace(path, b"\n".join(lines) + b"\n")
    return path


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)
