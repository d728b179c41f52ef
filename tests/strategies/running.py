"""Runs a state machine as its test class would, with the same examples each time."""

from __future__ import annotations

from hypothesis import Phase, settings

from kvstrategies.shards import JudgedMachine


def run_machine(machine: type[JudgedMachine], *, seconds: float, examples: int) -> None:
    machine.time_limit = seconds
    case = machine.TestCase
    case.settings = settings(
        max_examples=examples, stateful_step_count=30, database=None, derandomize=True,
        report_multiple_bugs=False, deadline=None, phases=[Phase.generate],
    )  # fmt: skip
    case("runTest").debug()
