"""Each situation has a smallest example that meets it, on the oracle and on kvgpu."""

from __future__ import annotations

import msgspec
import pytest

from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.operations import Lock, Operation, Unlock
from kvref.registry import find
from kvref.situations.counting import Counting
from kvref.situations.registry import SITUATIONS
from kvref.situations.witnesses import WITNESSES, Witness
from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget

ORACLE = TargetFactory(OracleTarget)


def situations_of(witness: Witness, factory: TargetFactory = ORACLE) -> set[str]:
    """What the operations meet; the run has to be clean."""
    counting = Counting("here", factory.promises)
    executor = LocalExecutor(factory(witness.configuration), 10.0)
    watcher = counting.watch(witness.configuration)
    judge = Judge(executor, witness.configuration, factory.promises, listener=watcher)
    watcher.attach(judge.judged)
    for operation in witness.operations:
        assert judge.apply(operation) is None, judge.divergence
    executor.close()
    counting.count(watcher, judge)
    return {name for name, each in counting.tally().situations.items() if each.met}


def without(operations: tuple[Operation, ...], dropped: int) -> tuple[Operation, ...]:
    """All but one, and but those that name it."""
    gone = {dropped}
    kept: list[Operation] = []
    places: dict[int, int] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, Lock | Unlock) and isinstance(operation.handle, int):
            if operation.handle in gone:
                gone.add(index)
                continue
            operation = msgspec.structs.replace(operation, handle=places[operation.handle])
        if index not in gone:
            places[index] = len(kept)
            kept.append(operation)
    return tuple(kept)


def test_each_situation_has_its_witness():
    assert list(WITNESSES) == list(SITUATIONS)


@pytest.mark.parametrize("name", WITNESSES)
def test_a_witness_meets_its_situation_on_the_oracle_and_on_kvgpu(name):
    assert name in situations_of(WITNESSES[name])
    assert name in situations_of(WITNESSES[name], find("kvgpu-radix"))


@pytest.mark.parametrize("name", WITNESSES)
def test_nothing_can_be_left_out_of_a_witness(name):
    witness = WITNESSES[name]
    for index in range(len(witness.operations)):
        shorter = witness._replace(operations=without(witness.operations, index))
        assert name not in situations_of(shorter), witness.operations[index]
