"""The requests of kvgpu under the suite that everybody's get, in tests that `-n auto` spreads."""

from __future__ import annotations

from kvstrategies.suite import RequestSuite


class TestRadixRequests(RequestSuite):
    target = "kvgpu-radix"
    shards = 3


class TestNaiveRequests(RequestSuite):
    target = "kvgpu-naive"
    shards = 1
    parts = 2
