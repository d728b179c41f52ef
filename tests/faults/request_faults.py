"""All planted faults of whole requests, by name."""

from __future__ import annotations

# Each module registers its own.
from tests.faults import (  # noqa: F401
    request_content_faults,
    request_end_faults,
    request_room_faults,
)
from tests.faults.fault import REQUEST_FAULTS, Fault

__all__ = ["REQUEST_FAULTS", "Fault"]
