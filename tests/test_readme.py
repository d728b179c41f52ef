"""The README's two commands, as written, in an empty copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "ci"))

from readme_command import command  # noqa: E402

INSIDE = "KVREF_README_TEST"


@pytest.fixture
def copy(tmp_path):
    """The files that git knows, or all but the environment, in an empty folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def _run(name: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    cleaned = {key: value for key, value in os.environ.items() if not key.startswith("COV")}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command(name)],
        cwd=folder, env=cleaned | {INSIDE: "1"} | environment,
        capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip


@pytest.mark.readme
def test_the_first_command_sets_up_and_runs_a_clean_campaign_and_replay(copy):
    done = _run("run", copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "clean: no difference from the oracle" in done.stdout
    assert "300 of 300 requests" in done.stdout
    assert "clean: every request read what was stored for it" in done.stdout


@pytest.mark.readme
@pytest.mark.skipif(
    INSIDE in os.environ, reason="this run was begun by the README's command itself"
)
def test_the_second_command_sets_up_and_passes_the_tests(copy):
    # The command as written; the environment narrows it to a few tests, since ci/test runs it all.
    done = _run("test", copy, PYTEST_ADDOPTS="tests/kvgpu/test_naive_manager.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(LookupError, match="'fly'"):
        command("fly")


def test_the_commands_are_one_line_each():
    assert [command(name).count("\n") for name in ("run", "test")] == [1, 1]
