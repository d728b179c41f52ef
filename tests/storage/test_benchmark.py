"""The benchmark, the GPU task and the documentation run as far as they can without a GPU."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

from tests.storage.targets import INTERPRETED

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing of this is interpreted")


def run(*command, **environment):
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_benchmark_runs_small_on_the_cpu(tmp_path):
    command = ("benchmarks/store_kv.py", "--device", "cpu", "--small", "--out", tmp_path)
    done = run(sys.executable, *command)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "store_kv.csv").open() as file:
        lines = list(csv.DictReader(file))
    # 2 layouts, 2 kinds of slots, 3 lengths; torch.compile is for GPUs.
    assert len(lines) == 2 * 2 * 3 * 4
    assert {line["method"] for line in lines} >= {"store_kv", "indexing", "index_copy_"}
    assert all(float(line["microseconds"]) > 0 for line in lines)
    picture = ET.parse(tmp_path / "store_kv.svg").getroot()
    assert sum(part.tag.endswith("polyline") for part in picture) == 4 * 5


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_neither_passes(tmp_path):
    done = run(sys.executable, "benchmarks/store_kv.py", "--out", tmp_path)
    assert done.returncode == 1
    assert "no CUDA device" in done.stderr
    done = run("ci/gpu", OUT=str(tmp_path))
    assert done.returncode == 1
    assert "no CUDA device" in done.stderr


def test_the_gpu_task_refuses_the_interpreter(tmp_path):
    done = run("ci/gpu", OUT=str(tmp_path), TRITON_INTERPRET="1")
    assert done.returncode == 2
    assert "TRITON_INTERPRET" in done.stderr
    done = run("ci/compile", TRITON_INTERPRET="1")
    assert done.returncode == 2
    assert "TRITON_INTERPRET" in done.stderr


def test_the_gpu_task_needs_neither_msgspec_nor_plugins():
    """As on a machine that has torch, triton, pytest and hypothesis, and nothing else of ours."""
    program = (
        "import sys\n"
        "sys.modules['msgspec'] = None\n"
        "import pytest\n"
        "sys.exit(pytest.main(sys.argv[1:]))\n"
    )
    options = ("-q", "-m", "gpu", "--collect-only", "-p", "no:cacheprovider")
    done = run(
        sys.executable, "-c", program, *options, "--confcutdir=tests/storage", "tests/storage",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    collected = re.search(r"(\d+)/\d+ tests collected", done.stdout)
    assert collected is not None, done.stdout
    assert int(collected[1]) > 60


def test_the_example_of_the_documentation_runs():
    page = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "docs/storage.md", "exec"), {})
