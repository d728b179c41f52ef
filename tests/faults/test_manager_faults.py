"""Every planted fault is found: by the campaign, and by the state machine in the ci profile."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from kvref.campaign import Totals, campaign, start_locally
from kvref.testing import explaining
from kvstrategies import ManagerMachine, manager_machine, profiles
from tests.faults.manager_faults import MANAGER_FAULTS

RUNS = 400
"""Of a campaign, at about 100 operations each: two seconds of a fuzz."""

SHARDS = 4
"""As many as the suite runs over kvgpu-radix (tests/strategies/test_manager_machine.py)."""

EARLY = {
    "handle-outlives-its-incarnation": 4,
    "lock-refreshes": 2,
    "locked-by-length-alone": 1,
    "matches-part-of-a-page": 5,
    "partial-match-refreshes-all": 3,
    "reads-the-buffer-by-its-own-dtype": 1,
    "reset-ignores-locks": 2,
    "split-prefix-keeps-its-age": 11,
    "stale-handle-is-accepted": 1,
    "unlock-steals-a-lock": 3,
}
"""A seed that finds a rare one within a few examples: see tests/README.md."""

pytestmark = pytest.mark.parametrize("name", sorted(MANAGER_FAULTS))


def test_the_campaign_finds_it(name):
    target = MANAGER_FAULTS[name].target
    runs = campaign(start_locally(target, 10.0), target, 0, Totals())
    failure = next((failure for failure in islice(runs, RUNS) if failure), None)
    assert failure is not None, f"not found in {RUNS} runs"


def test_the_state_machine_finds_it_in_the_ci_profile(name, tmp_path, monkeypatch):
    monkeypatch.setattr(ManagerMachine, "failures", tmp_path)
    monkeypatch.setattr(explaining, "SECONDS", 0.1)  # found is enough
    profiles.register()
    once = settings(
        settings.get_profile("kv-ci"),
        phases=[Phase.generate],  # found is enough: shrinking takes a minute
        database=None,
        print_blob=False,
    )

    def run_the_shards() -> None:
        for number in (EARLY.get(name, 0), *range(1, SHARDS)):
            machine = seed(number)(manager_machine(MANAGER_FAULTS[name].target))
            run_state_machine_as_test(machine, settings=once)

    with pytest.raises(AssertionError, match="the program"):
        run_the_shards()
