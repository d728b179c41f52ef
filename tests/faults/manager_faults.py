"""All planted faults of managers, by name."""

from __future__ import annotations

import content_faults  # noqa: F401 - each module registers its own
import lock_faults  # noqa: F401
import order_faults  # noqa: F401
import refusal_faults  # noqa: F401
from fault import MANAGER_FAULTS, Fault

__all__ = ["MANAGER_FAULTS", "Fault"]
