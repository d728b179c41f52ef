"""What the options of the plugin name, looked at when a session starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvref.known import KnownFailures, load
from kvref.registry import UnknownTarget, place
from kvref.testing.explaining import use_known
from kvref.traces.format import TraceError

__all__ = ["check_target", "load_known"]


def check_target(name: str) -> None:
    """UsageError unless it is registered or looks like `module:factory`, which is not imported.

    The test that asks for it does that, and says what went wrong.
    """
    try:
        place(name)
    except UnknownTarget as error:
        raise pytest.UsageError(f"--kv-target: {error}") from None


def load_known(path: Path) -> None:
    """Go past the failures of this file in this process; UsageError where it cannot be read."""
    try:
        use_known(KnownFailures(load(path)))
    except TraceError as error:
        raise pytest.UsageError(f"--kv-known: {error}") from None
