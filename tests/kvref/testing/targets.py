"""Factories that a session in another process imports by name."""

from __future__ import annotations

from typing import Any

from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.wrong_targets import ForgetsRecency

forgets = TargetFactory(ForgetsRecency)


class KeepsAVictim(OracleTarget):
    """Does not say which page it evicted last."""

    def evict(self, size: Any) -> Any:
        return super().evict(size)[:-1]


keeps = TargetFactory(KeepsAVictim)
