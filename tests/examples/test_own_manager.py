"""The manager of somebody's own, from outside the repository, against the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "own_manager"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with kvref as its wheel has it; its dependencies are those of this environment."""
    made, found = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    for command in (
        ["hatchling", "build", "-t", "wheel", "-d", str(made)],
        ["pip", "install", "-q", "--no-deps", "--no-index", "--no-compile", "--target", str(found)],
    ):
        wheels = map(str, made.glob("*.whl")) if command[0] == "pip" else ()
        done = subprocess.run(
            [sys.executable, "-m", *command, *wheels],
            cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    return found


@pytest.fixture
def outside(site, tmp_path):
    """Runs a module of Python in a copy of the example."""
    folder = tmp_path / "own_manager"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    kept = ("PATH", "HOME", "LANG", "OMP_NUM_THREADS", "SYSTEMROOT", "TMPDIR")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment |= {"PYTHONPATH": str(site), "COLUMNS": "160", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*command: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    run.folder = folder
    return run


def test_the_suite_passes_and_meets_all_that_is_required(outside, site):
    (outside.folder / "test_where.py").write_text(
        "from pathlib import Path\nimport kvref\n"
        "def test_it_is_the_wheel():\n"
        f"    assert Path(kvref.__file__).is_relative_to({str(site)!r})\n"
    )
    said = outside("pytest", "-n", "2", "-p", "no:cacheprovider", "-p", "no:anyio")
    assert "kvref: what this session exercised" in said
    assert "every situation that has to be met was met" in said
    assert "bridge:factory  manager" in said
    assert "bridge:factory  requests" in said


def test_the_first_try_fails_with_the_program_of_the_guide(outside):
    test = outside.folder / "test_block_cache.py"
    test.write_text(test.read_text().replace("bridge:factory", "bridge:first"))
    said = outside("pytest", "-p", "no:cacheprovider", "-k", "trace", status=1)
    guide = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    for line in (
        "cache.insert_prefix(ids([0, 0]), slots([0, 1]))",
        "cache.evict(1)",
        "victims at operation 1, cache.evict(1)",
        "  got:      a page whose continuation stays cached: [0]",
    ):
        assert line in said
        assert line in guide
    assert (
        "replay it: kvref replay kvref-failures/bridge-first-victims-evict.jsonl bridge:first"
        in said
    )


def test_the_campaign_finds_what_the_guide_says(outside):
    said = outside("kvref", "fuzz", "bridge:first", "--seed", "0", "--seconds", "3", status=1)
    guide = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    assert "shrunk to 2 operations" in said
    assert "a page whose continuation stays cached" in said
    assert "shrunk to 2 operations" in guide


def test_a_suite_that_uses_none_of_it_sees_no_line_of_the_installed_plugin(outside):
    for path in outside.folder.iterdir():
        if path.is_file():
            path.unlink()
    (outside.folder / "test_other.py").write_text(
        "import sys\ndef test_it(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('kvref.pytest_plugin')\n"
        "    assert 'msgspec' not in sys.modules\n"
    )
    said = outside("pytest", "-p", "no:cacheprovider")
    assert "1 passed" in said
    assert "kvref:" not in said


def test_the_guide_shows_the_code_as_it_is():
    guide = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    for name, line in (
        ("block_cache.py", "        return not block.holds and not block.children"),
        ("first_try.py", "        return not block.holds"),
        ("bridge.py", "        chain = self.cache.lookup(tuple(tokens))"),
        ("bridge.py", "        return self._slots(self.cache.shrink(-(-size // self.size)))"),
    ):
        assert line in (EXAMPLE / name).read_text()
        assert line.strip() in guide
