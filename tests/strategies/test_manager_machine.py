"""The managers of kvgpu under the suite that everybody's get, in tests that `-n auto` spreads."""

from __future__ import annotations

from kvstrategies.suite import ManagerSuite


class TestRadix(ManagerSuite):
    target = "kvgpu-radix"


class TestNaive(ManagerSuite):
    target = "kvgpu-naive"
    shards = 1
    parts = 2
