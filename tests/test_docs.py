"""What the documents say is what the code does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from kvref.campaign import LOOK_EVERY
from kvref.configuration import Configuration
from kvref.executor import LocalExecutor
from kvref.judge import Judge
from kvref.operations import Evict, Insert, Match, program
from tests.faults.manager_faults import MANAGER_FAULTS
from tests.faults.request_faults import REQUEST_FAULTS
from tests.faults.storage_faults import STORAGE_FAULTS

ROOT = Path(__file__).resolve().parent.parent


def test_every_planted_fault_has_its_line_in_the_documents():
    page = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    lines = [f"| `{each.name}` | {each.origin} | {each.what} |" for each in MANAGER_FAULTS.values()]
    lines += [
        f"| `{each.name}` | {each.origin} | {each.what} |" for each in REQUEST_FAULTS.values()
    ]
    lines += [f"| `{each.name}` | {each.origin} | {each.breaks} |" for each in STORAGE_FAULTS]
    for line in lines:
        assert line in page, f"docs/faults.md lacks the line:\n{line}"
    assert len(re.findall(r"^\| `", page, re.MULTILINE)) == len(set(lines))
    for project in {line.split(" | ")[1].partition("-")[0] for line in lines}:
        if project.isupper():
            assert f"| {project} | " in page


def test_the_example_of_the_readme_is_what_the_judge_says():
    target = MANAGER_FAULTS["split-prefix-keeps-its-age"].target
    configuration = Configuration(num_pages=4)
    executor = LocalExecutor(target(configuration))
    judge = Judge(executor, configuration, look_every=LOOK_EVERY)
    for operation in (Insert((0, 1), (0, 1)), Insert((2,), (2,)), Match((0,)), Evict(2)):
        judge.apply(operation)
    executor.close()
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = program(configuration, judge.operations).splitlines()[-4:]
    assert "\n".join(lines) in page
    assert str(judge.divergence) in page


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "tests/README.md",
        *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
        *(f"examples/{page.parent.name}/README.md" for page in ROOT.glob("examples/*/README.md")),
    ],
)
def test_links_of_the_documents_lead_somewhere(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / document).parent / target).exists(), target


def test_no_path_of_a_machine_and_no_registry_is_in_the_repository():
    names = (
        subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
        .stdout.decode()
        .split("\0")
    )
    if names == [""]:
        pytest.skip("not a git checkout, so there is no list of files")
    forbidden = re.compile(
        r"/(root|home|work|tmp|opt|mnt)/\w|index-url|find-links|https?://\S*(/simple\b|\.whl)"
    )
    itself = Path(__file__).resolve()
    for path in (ROOT / name for name in names if name):
        if path.suffix not in (
            ".md",
            ".py",
            ".toml",
            ".txt",
            ".yml",
            ".yaml",
            ".sh",
            "",
        ) or path in (
            itself,
            ROOT / "LICENSE",
        ):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not forbidden.search(line), f"{path.relative_to(ROOT)}:{number}"
