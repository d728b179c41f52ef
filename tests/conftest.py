"""What holds for the whole suite: our Hypothesis profile, and devices where there are some."""

from __future__ import annotations

import os

import pytest

# Before torch is imported: its threads spin, and beside the workers of xdist they only wait.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from kvstrategies import profiles

# Before any test module is imported: the classes of the machines take the settings of then.
PROFILE = profiles.load()


def pytest_collection_modifyitems(config, items):
    """Leave what takes minutes to those who ask for it by its marker."""
    if "readme" in config.option.markexpr:
        return
    left_out = pytest.mark.skip(
        reason="makes a virtual environment, which takes minutes: ci/readme runs it"
    )
    for item in items:
        if item.get_closest_marker("readme"):
            item.add_marker(left_out)
