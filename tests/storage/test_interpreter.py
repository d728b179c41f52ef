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


@pytest.mark.skipif(INTERPRETED, reason="this is the session that the test would start")
def test_the_suite_passes_in_tritons_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/storage"]
    # Side by side: pytest-xdist may give two tests that lie together to one worker.
    halves = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "TRITON_INTERPRET": "1", "KVGPU_SHARD": shard},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for shard in ("0/2", "1/2")
    ]
    try:
        reports = [half.communicate(timeout=600)[0] for half in halves]
    finally:
        for half in halves:
            half.kill()
            half.wait()
    for half, report in zip(halves, reports, strict=True):
        assert half.returncode == 0, report[-8000:]
        passed = re.search(r"(\d+) passed", report)
        assert passed is not None, report[-8000:]
        # A run that collects nothing of the kernels would be green too.
        assert int(passed[1]) > 80, report[-8000:]
