"""Settings profiles of our own, named so that they are nobody else's.

Hypothesis loads a profile by itself where it sees that it runs in CI, and that one draws the same
examples in every run. Load one of these instead, before the machines are imported, since their
test classes take the settings of that moment:

    # conftest.py
    from kvstrategies import profiles
    profiles.load()
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

__all__ = ["ENVIRONMENT", "PROFILES", "ensure", "load", "register"]

ENVIRONMENT = "KV_PROFILE"
"""The environment variable that names a profile, with or without the prefix `kv-`."""

_COMMON = {
    "deadline": None,
    "print_blob": True,
    "report_multiple_bugs": False,  # one clear failure
    "derandomize": False,  # each run looks somewhere else; the blob and the seed have it again
    "suppress_health_check": [
        # A run of a machine is long on purpose; a slow machine is no fault of a cache.
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.large_base_example,
        HealthCheck.too_slow,
    ],
}

PROFILES: dict[str, dict[str, int]] = {
    "kv-dev": {"max_examples": 30, "stateful_step_count": 30},
    "kv-ci": {"max_examples": 200, "stateful_step_count": 40},
    "kv-nightly": {"max_examples": 5000, "stateful_step_count": 60},
}
"""Examples a test, and operations an example."""


def register() -> None:
    """Make the profiles known to Hypothesis; activates none."""
    # Not what is active now: in CI that is Hypothesis's own profile, without a database.
    parent = settings.get_profile("default")
    for name, sizes in PROFILES.items():
        settings.register_profile(name, parent, **_COMMON, **sizes)


def load(name: str | None = None) -> str:
    """Register all and activate one; returns its name.

    Without a name: that of the environment variable KV_PROFILE, else kv-ci where the variable
    CI is set, else kv-dev. ValueError for a name that is none of them.
    """
    chosen = _named(
        name or os.environ.get(ENVIRONMENT) or ("kv-ci" if os.environ.get("CI") else "kv-dev")
    )
    register()
    settings.load_profile(chosen)
    return chosen


def ensure(name: str) -> None:
    """Activate one, unless it is active: what a conftest changed in it stays."""
    if settings.get_current_profile_name() != _named(name):
        load(name)


def _named(name: str) -> str:
    chosen = name if name.startswith("kv-") else f"kv-{name}"
    if chosen not in PROFILES:
        raise ValueError(f"no profile {chosen!r}; there are {', '.join(PROFILES)}")
    return chosen
