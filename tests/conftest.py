"""What holds for the whole suite: our Hypothesis profile, and devices where there are some."""

from __future__ import annotations

from kvstrategies import profiles

# Before any test module is imported: the classes of the machines take the settings of then.
PROFILE = profiles.load()
