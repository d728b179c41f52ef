"""Which settings are in force: ours, and those that the environment names."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from kvstrategies import manager_machine, profiles
from tests.conftest import PROFILE


@pytest.fixture(autouse=True)
def _the_profile_of_before():
    yield
    settings.load_profile(PROFILE)


def expected() -> str:
    """By the words of the docstring, not by calling `load`."""
    named = os.environ.get("KV_PROFILE")
    if named:
        return named if named.startswith("kv-") else f"kv-{named}"
    return "kv-ci" if os.environ.get("CI") else "kv-dev"


def test_the_active_profile_is_the_one_that_the_environment_names():
    assert expected() == PROFILE
    assert settings.get_current_profile_name() == PROFILE
    sizes = profiles.PROFILES[PROFILE]
    assert settings.default.max_examples == sizes["max_examples"]
    assert settings.default.stateful_step_count == sizes["stateful_step_count"]


def test_each_run_looks_somewhere_else_and_remembers_what_it_found():
    assert settings.default.derandomize is False
    assert settings.default.database is not None
    assert settings.default.deadline is None
    assert settings.default.print_blob is True
    assert settings.default.report_multiple_bugs is False


def test_no_health_check_is_silent_that_hypofuzz_wants():
    """Where a nested `given` is allowed, HypoFuzz collects no test."""
    assert HealthCheck.nested_given not in settings.default.suppress_health_check
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_a_machine_takes_the_numbers_of_the_profile():
    case = manager_machine("tests.kvref.wrong_targets:right").TestCase
    assert case.settings.max_examples == profiles.PROFILES[PROFILE]["max_examples"]
    assert case.settings.stateful_step_count == profiles.PROFILES[PROFILE]["stateful_step_count"]


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "kv-dev"),
        ({"CI": "true"}, "kv-ci"),
        ({"CI": ""}, "kv-dev"),
        ({"KV_PROFILE": "nightly"}, "kv-nightly"),
        ({"KV_PROFILE": "kv-nightly", "CI": "1"}, "kv-nightly"),
        ({"KV_PROFILE": "", "CI": "1"}, "kv-ci"),
    ],
)
def test_the_environment_chooses(monkeypatch, environment, name):
    for variable in ("CI", "KV_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert profiles.load() == name
    assert settings.default.max_examples == profiles.PROFILES[name]["max_examples"]


def test_a_name_goes_before_the_environment(monkeypatch):
    monkeypatch.setenv("KV_PROFILE", "nightly")
    assert profiles.load("dev") == "kv-dev"
    assert settings.get_current_profile_name() == "kv-dev"


def test_one_that_is_active_already_stays_as_it_was_changed():
    profiles.load("nightly")
    settings.register_profile("kv-nightly", settings.default, max_examples=7)
    settings.load_profile("kv-nightly")
    profiles.ensure("nightly")
    assert settings.default.max_examples == 7
    profiles.ensure("ci")
    assert settings.get_current_profile_name() == "kv-ci"
    assert settings.default.max_examples == profiles.PROFILES["kv-ci"]["max_examples"]
    profiles.register()


def test_the_numbers_grow_from_profile_to_profile():
    sizes = [tuple(profile.values()) for profile in profiles.PROFILES.values()]
    assert list(profiles.PROFILES) == ["kv-dev", "kv-ci", "kv-nightly"]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("name", ["ci2", "kv-", "default"])
def test_an_unknown_name_is_refused_with_those_that_there_are(monkeypatch, name):
    monkeypatch.setenv("KV_PROFILE", name)
    before = settings.get_current_profile_name()
    with pytest.raises(ValueError, match="there are kv-dev, kv-ci, kv-nightly"):
        profiles.load()
    assert settings.get_current_profile_name() == before
