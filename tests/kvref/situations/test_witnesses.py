"""Each situation has a smallest example that meets it, on the oracle and on kvgpu."""

from __future__ import annotations

import msgspec
import pytest

from kvref.registry import find, find_requests
from kvref.requests.life import life
from kvref.situations.registry import SITUATIONS
from kvref.situations.replay import run
from kvref.situations.tally import SituationTally
from kvref.situations.witness import Witness
from kvref.situations.witnesses import WITNESSES
from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget

ORACLE = TargetFactory(OracleTarget)
ON_ORACLE = {"manager": ORACLE, "requests": life(ORACLE)}


def situations_of(name: str, witness: Witness | None = None) -> set[str]:
    """What the operations meet on the oracle; the run has to be clean."""
    judge, tally = run(witness or WITNESSES[name], "oracle", ON_ORACLE[SITUATIONS[name].machine])
    assert judge.divergence is None, judge.divergence
    return met(tally.situations)


def met(situations: dict[str, SituationTally]) -> set[str]:
    return {name for name, each in situations.items() if each.met}


def without(operations: tuple, dropped: int) -> tuple:
    """All but one, and but those that name it."""
    gone = {dropped}
    kept: list = []
    places: dict[int, int] = {}
    for index, operation in enumerate(operations):
        field = next((f for f in ("handle", "request") if hasattr(operation, f)), None)
        named = getattr(operation, field) if field else None
        if isinstance(named, int):
            if named in gone:
                gone.add(index)
                continue
            operation = msgspec.structs.replace(operation, **{field: places[named]})
        if index not in gone:
            places[index] = len(kept)
            kept.append(operation)
    return tuple(kept)


def test_each_situation_has_its_witness():
    assert list(WITNESSES) == list(SITUATIONS)


@pytest.mark.parametrize("name", WITNESSES)
def test_a_witness_meets_its_situation_on_the_oracle_and_on_kvgpu(name):
    assert name in situations_of(name)
    found = find if SITUATIONS[name].machine == "manager" else find_requests
    judge, tally = run(WITNESSES[name], "kvgpu-radix", found("kvgpu-radix"))
    assert judge.divergence is None, judge.divergence
    assert name in met(tally.situations)
    assert tuple(judge.refused) == WITNESSES[name].refused
    assert judge.skipped == []


@pytest.mark.parametrize("name", WITNESSES)
def test_nothing_can_be_left_out_of_a_witness(name):
    witness = WITNESSES[name]
    for index in range(len(witness.operations)):
        shorter = witness._replace(operations=without(witness.operations, index))
        assert name not in situations_of(name, shorter), witness.operations[index]


@pytest.mark.parametrize("name", WITNESSES)
def test_a_witness_is_a_program_against_kvgpu(name):
    compile(WITNESSES[name].python(), name, "exec")
    assert len(WITNESSES[name].steps().splitlines()) > len(WITNESSES[name].operations)
