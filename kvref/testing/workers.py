"""How many workers of pytest-xdist a device has room for."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

__all__ = ["fitting", "free_memory", "parsed", "usable_cores"]


def fitting(cores: int, free: Sequence[int], needed: int) -> int:
    """At most one worker a core, and no more than fit: at least one.

    Args:
        cores: of the host.
        free: MiB that are free on each device.
        needed: MiB that one worker takes, of which a context alone is about 500.
    """
    if needed < 1:
        raise ValueError(f"a worker takes at least 1 MiB, got {needed}")
    return max(1, min(cores, sum(each // needed for each in free)))


def parsed(text: str, visible: str | None) -> list[int]:
    """What nvidia-smi printed (index, uuid, MiB free), of the devices that may be used.

    `visible` is CUDA_VISIBLE_DEVICES: a list of indices or of (the beginnings of) uuids.
    """
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines()]
    rows = [row for row in rows if len(row) == 3 and row[2].isdigit()]
    if visible is None:
        return [int(row[2]) for row in rows]
    found = []
    for name in (part.strip() for part in visible.split(",")):
        if not name:
            continue
        row = next((row for row in rows if row[0] == name or row[1].startswith(name)), None)
        if row is None:
            break  # as CUDA does: what follows a device that is not there is not seen either
        found.append(int(row[2]))
    return found


def free_memory() -> list[int]:
    """MiB free on each CUDA device that this process may use; none where there is none.

    Asks the driver's own tool: torch would take seconds, and a context on the device.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        done = subprocess.run(  # noqa: S603
            [tool, "--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return (
        parsed(done.stdout, os.environ.get("CUDA_VISIBLE_DEVICES")) if not done.returncode else []
    )


def usable_cores() -> int:
    """Of the host, as far as this process may use them."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
