"""Runs the suite of this folder over the Triton kernels in Triton's interpreter.

In a process of its own: Triton reads TRITON_INTERPRET when it is imported, and a kernel that was
imported without it stays compiled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storage.targets import INTERPRETED

ROOT = Path(__file__).parents[2]


# Two, so that pytest-xdist can run them side by side.
@pytest.mark.parametrize("shard", ["0/2", "1/2"])
@pytest.mark.skipif(INTERPRETED, reason="this is the session that the test would start")
def test_the_suite_passes_in_tritons_interpreter(shard):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/storage"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "KVGPU_SHARD": shard},
        capture_output=True,
        text=True,
        timeout=600,
    )
    report = done.stdout[-8000:] + done.stderr[-2000:]
    assert done.returncode == 0, report
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, report
    # A run that collects nothing of the kernels would be green too.
    assert int(passed[1]) > 80, report
