"""Every planted fault of requests is found: by the campaign, and by the state machine."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from kvref.campaign import REQUESTS_LOOK_EVERY, Totals, campaign, start_locally
from kvref.testing import explaining
from kvstrategies import RequestMachine, profiles, request_machine
from tests.faults.request_faults import REQUEST_FAULTS

RUNS = 400
"""Of a campaign, at about 100 operations each: ten seconds of a fuzz."""

SHARDS = 3
"""As many as the suite runs over kvgpu-radix (tests/strategies/test_request_machine.py)."""

EARLY = {
    "abort-between-chunks-is-a-flag": 2,
    "begin-drops-the-namespace": 5,
    "commit-hides-it-from-the-device": 17,
    "commit-of-the-cached-does-not-refresh": 2,
    "evicts-pages-for-slots": 7,
    "finished-is-preempted": 3,
    "flush-takes-what-it-can": 13,
    "late-tokens-go-behind-the-slots": 15,
    "publish-drops-the-namespace": 8,
    "publishes-what-is-not-stored": 5,
    "refused-begin-has-split": 2,
    "refused-extend-has-evicted": 8,
    "refused-extend-loses-pages": 25,
    "rejected-later-keeps-the-lock": 2,
}
"""A seed that finds a rare one within a few examples: see tests/README.md."""

pytestmark = pytest.mark.parametrize("name", sorted(REQUEST_FAULTS))


def test_the_campaign_finds_it(name):
    target = REQUEST_FAULTS[name].target
    start = start_locally(target, 10.0)
    runs = campaign(start, target, 0, Totals(), look_every=REQUESTS_LOOK_EVERY)
    failure = next((failure for failure in islice(runs, RUNS) if failure), None)
    assert failure is not None, f"not found in {RUNS} runs"


def test_the_state_machine_finds_it_in_the_ci_profile(name, tmp_path, monkeypatch):
    monkeypatch.setattr(RequestMachine, "failures", tmp_path)
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
            machine = seed(number)(request_machine(REQUEST_FAULTS[name].target))
            run_state_machine_as_test(machine, settings=once)

    with pytest.raises(AssertionError, match="the program"):
        run_the_shards()
