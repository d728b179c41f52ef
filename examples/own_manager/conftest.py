"""The settings profile, before the test classes are made."""

from __future__ import annotations

from kvstrategies import profiles

profiles.load()
