"""All planted faults of managers, by name."""

from __future__ import annotations

# Each module registers its own.
from tests.faults import content_faults, lock_faults, order_faults, refusal_faults  # noqa: F401
from tests.faults.fault import MANAGER_FAULTS, Fault

__all__ = ["MANAGER_FAULTS", "Fault"]
