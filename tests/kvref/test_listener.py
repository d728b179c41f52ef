"""Two listeners of one judge."""

from __future__ import annotations

from kvref.configuration import Configuration
from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.listener import both
from kvref.operations import Evict, Insert, Lock
from tests.kvref.oracle_target import OracleTarget


class Hears:
    def __init__(self) -> None:
        self.heard = []

    def begins(self, index, operation, expected):
        self.heard.append(("begins", index, operation, expected))

    def answers(self, index, answer):
        self.heard.append(("answers", index, answer))

    def ends(self, index, oracle):
        self.heard.append(("ends", index, oracle))

    def skips(self, index, operation, oracle):
        self.heard.append(("skips", index, operation, oracle))


def test_both_hear_the_same_and_all_of_it():
    one, other = Hears(), Hears()
    configuration = Configuration()
    executor = LocalExecutor(OracleTarget(configuration), None)
    judge = Judge(executor, configuration, listener=both(one, other))
    for operation in (Insert((0,), (0,)), Lock(7), Evict(2)):
        judge.apply(operation)
    assert one.heard == other.heard
    kinds = [(what, index) for what, index, *_ in one.heard]
    assert kinds == [
        ("begins", 0), ("answers", 0), ("ends", 0), ("skips", 1),
        ("begins", 2), ("answers", 2), ("ends", 2),
    ]  # fmt: skip


def test_one_alone_is_itself_and_none_is_none():
    alone = Hears()
    assert both(alone, None) is both(None, alone) is alone
    assert both(None, None) is None
