"""Whether bridges overwrite the buffers of a call once it is over.

They do: from then on a buffer is the caller's again, and a target that kept one is found out. The
program of such a failure says nothing of buffers and looks like nonsense; so it is run once more
with all buffers left alone, and where that makes the difference the failure says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["KEPT", "left_alone", "overwritten"]

KEPT = "It fails only because buffers are overwritten after their call: the target kept one."

_overwritten = True  # programs are run one after the other, by one thread


def overwritten() -> bool:
    """Whether a bridge that is built now has to overwrite what it passed in and got back."""
    return _overwritten


@contextmanager
def left_alone() -> Iterator[None]:
    """Bridges that are built meanwhile, in this process, leave buffers as they are."""
    global _overwritten
    _overwritten = False
    try:
        yield
    finally:
        _overwritten = True
