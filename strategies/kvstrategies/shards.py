"""What the machines have in common: how they fail, and how they become test classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import Phase, reject, settings
from hypothesis.stateful import RuleBasedStateMachine

from kvref.machine import Bench, Machine
from kvref.testing.found import Found
from kvref.traces.failures import FAILURES
from kvstrategies.failures import is_final, is_known, shorter

__all__ = ["JudgedMachine", "shards_of"]


class JudgedMachine(RuleBasedStateMachine):
    """A machine whose every step is judged.

    Attributes:
        target: the name of the target, for the file of a failure; None where it has none.
        failures: the folder for these files.
        held: a whole session has to meet on this target all that is required.
        time_limit: of one operation, in seconds.
    """

    target: ClassVar[str | None] = None
    failures: ClassVar[Path] = FAILURES
    held: ClassVar[bool] = False
    time_limit: ClassVar[float] = 10.0

    def failure(self, machine: Machine, bench: Bench, judge: Any) -> Found:
        """What to raise for the judge's divergence. One that is known ends this run instead."""
        if is_known(machine, bench, judge):
            reject()
        text = f"{judge.divergence}\n\nthe program:\n{judge.program()}"
        if is_final():  # a failure may be run hundreds of times before Hypothesis shows it
            return shorter(machine, bench, judge, text, self.target, self.failures)
        return Found(text)


def shards_of(
    machine: Callable[[str], type[JudgedMachine]],
    shards: int,
    name: str,
    module: str,
    named: str | None = None,
    failures: Path = FAILURES,
) -> dict[str, type]:
    """Classes `Test{name}Shard{number}`, each of a machine of its own, by name.

    A machine is one test, which one worker of pytest-xdist runs; shards are what `-n auto`
    spreads. A failure is shrunk by kvref alone: Hypothesis takes minutes for what takes it
    milliseconds.
    """
    found: dict[str, type] = {}
    for number in range(shards):
        made = machine(f"{name}{number}")
        made.held, made.failures = True, failures
        made.target = named or made.target
        case = made.TestCase
        phases = [phase for phase in case.settings.phases if phase is not Phase.shrink]
        case.settings = settings(case.settings, phases=phases)
        case.__name__ = case.__qualname__ = f"Test{name}Shard{number}"
        case.__module__ = module or case.__module__
        found[case.__name__] = case
    return found
