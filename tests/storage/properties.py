"""How many examples a property of the storage tries, and what Hypothesis is told."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings


def examples(number: int, **options: Any) -> Any:
    """Settings for a property: no deadline, since the first call of a kernel compiles it."""
    return settings(
        max_examples=number,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        **options,
    )
