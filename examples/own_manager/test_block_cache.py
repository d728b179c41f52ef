"""The whole suite: the state machine, a campaign, the trace of the bug, and whole requests."""

from __future__ import annotations

from pathlib import Path

from kvstrategies.suite import ManagerSuite, RequestSuite


class TestBlockCache(ManagerSuite):
    """Of the cache itself."""

    target = "bridge:factory"
    traces = Path(__file__).parent / "traces"


class TestRequests(RequestSuite):
    """kvref leads whole requests through the same bridge."""

    target = "bridge:factory"
