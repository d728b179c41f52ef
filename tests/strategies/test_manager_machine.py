"""The managers of kvgpu and requests over them under the suite that everybody's get."""

from __future__ import annotations

from kvstrategies.suite import ManagerSuite, RequestSuite


class TestRadix(ManagerSuite):
    target = "kvgpu-radix"


class TestNaive(ManagerSuite):
    target = "kvgpu-naive"
    shards = 1
    parts = 2


class TestRadixRequests(RequestSuite):
    target = "kvgpu-radix"


class TestNaiveRequests(RequestSuite):
    target = "kvgpu-naive"
    parts = 2
