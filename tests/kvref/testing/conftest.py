"""Sessions of pytest inside this one, each in a process of its own, as a third party has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def session(pytester, monkeypatch):
    """Runs pytest with the plugin in a small folder."""
    for name in (
        "CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "KV_PROFILE", "PYTEST_ADDOPTS",
        "PYTEST_XDIST_AUTO_NUM_WORKERS",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    path = os.pathsep.join([str(ROOT), str(ROOT / "strategies"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("COLUMNS", "160")
    # Every start counts here: no plugin that this is not about.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*arguments: str, status: int = 0) -> str:
        done = pytester.runpytest_subprocess(
            "-p", "kvref.pytest_plugin", "-p", "xdist.plugin", *arguments, timeout=240
        )
        text = f"{done.stdout.str()}\n{done.stderr.str()}"
        assert done.ret == status, text
        return text

    return run
