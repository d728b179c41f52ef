"""How many workers a device has room for."""

from __future__ import annotations

import pytest

from kvref import pytest_plugin
from kvref.testing import workers
from kvref.testing.workers import fitting, parsed

PRINTED = "0, GPU-aaa, 80000\n1, GPU-abc, 2500\n2, GPU-ddd, [N/A]\n"


@pytest.mark.parametrize(
    ("cores", "free", "needed", "count"),
    [
        (16, [80_000], 2_000, 16),
        (16, [9_000], 2_000, 4),
        (16, [5_000, 3_000], 2_000, 3),
        (16, [100], 2_000, 1),
        (1, [80_000], 1, 1),
    ],
)
def test_no_more_than_fit_and_none_beyond_the_cores(cores, free, needed, count):
    assert fitting(cores, free, needed) == count


def test_a_worker_takes_something():
    with pytest.raises(ValueError, match="at least 1 MiB, got 0"):
        fitting(2, [100], 0)


@pytest.mark.parametrize(
    ("visible", "free"),
    [
        (None, [80_000, 2_500]),
        ("", []),
        ("1", [2_500]),
        ("1,0", [2_500, 80_000]),
        ("GPU-ab", [2_500]),
        ("0,7,1", [80_000]),
    ],
)
def test_devices_that_may_be_used_are_those_that_cuda_shows(visible, free):
    assert parsed(PRINTED, visible) == free


def test_without_the_drivers_tool_there_is_no_device(monkeypatch):
    monkeypatch.setattr(workers.shutil, "which", lambda name: None)
    assert workers.free_memory() == []


class TestTheHook:
    @pytest.fixture
    def ask(self, monkeypatch):
        monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
        monkeypatch.setattr(workers, "usable_cores", lambda: 8)

        def run(needed: str, free: list[int]) -> int | None:
            monkeypatch.setattr(workers, "free_memory", lambda: free)
            monkeypatch.setattr(pytest_plugin, "_setting", lambda config, name: needed)
            return pytest_plugin.pytest_xdist_auto_num_workers(None)

        return run

    def test_it_answers_where_it_was_asked_for_and_a_device_is_found(self, ask):
        assert ask("2000", [6_500]) == 3
        assert ask("2000", []) is None
        assert ask("", [6_500]) is None

    def test_the_variable_of_xdist_goes_before_it(self, ask, monkeypatch):
        monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "5")
        assert ask("2000", [6_500]) is None

    def test_what_is_no_number_is_an_error(self, ask):
        with pytest.raises(pytest.UsageError, match="'much' is no number of MiB"):
            ask("much", [6_500])
