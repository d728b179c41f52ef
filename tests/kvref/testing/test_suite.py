"""What a suite does with the target that it was given, by a name or as it is."""

from __future__ import annotations

import shutil

import pytest

from kvref.registry import UnknownTarget
from kvref.requests.life import life
from kvref.target import TargetFactory
from kvref.testing.found import Found
from kvref.traces.reader import read
from kvstrategies.suite import ManagerSuite, RequestSuite
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.testing.conftest import ROOT
from tests.kvref.wrong_targets import ForgetsRecency

TRACE = ROOT / "tests" / "regressions" / "split-prefix-keeps-its-age.jsonl"

named = TargetFactory(OracleTarget)


def suite(given, kind=ManagerSuite, **attributes):
    """A suite that pytest does not collect here, and that adds no shards to this module."""
    return type("Mine", (kind,), {"factory": given, "shards": 0, **attributes})


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A trace whose header names a target that agrees with the oracle."""
    monkeypatch.chdir(tmp_path)  # for the folder of failures
    path = tmp_path / shutil.copy(TRACE, tmp_path)
    assert read(path).header.target == "kvgpu-radix"
    return path


@pytest.mark.parametrize("given", [ForgetsRecency, TargetFactory(ForgetsRecency)])
def test_a_kept_trace_is_replayed_on_an_unnamed_factory_and_not_on_what_its_header_names(
    kept, given
):
    with pytest.raises(Found, match="victims at operation") as caught:
        suite(lambda configuration: given(configuration))()._test_trace(kept)
    assert caught.value.trace is not None
    assert read(caught.value.trace).header.target is None


def test_a_kept_trace_passes_on_an_unnamed_factory_that_is_right(kept):
    suite(TargetFactory(OracleTarget), traces=kept.parent)().test_trace(kept)


def test_a_kept_trace_of_a_bare_manager_does_not_pass_where_there_are_requests_alone(kept):
    with pytest.raises(UnknownTarget, match="runs requests alone"):
        suite(life(named), RequestSuite)()._test_trace(kept)


def test_a_kept_trace_of_a_bare_manager_runs_on_the_one_that_requests_were_put_over(kept):
    with pytest.raises(Found, match="victims at operation"):
        suite(ForgetsRecency, RequestSuite)()._test_trace(kept)


def test_a_factory_has_the_name_that_it_has_in_its_module_if_that_is_there():
    assert suite(OracleTarget)._name() == "tests.kvref.oracle_target:OracleTarget"
    assert suite(TargetFactory(OracleTarget))._name() is None

    def build(configuration):
        return OracleTarget(configuration)

    build.__module__ = "no.such.module"
    assert suite(build)._name() is None
