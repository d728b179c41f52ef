"""The snippet of docs/ci.md that shares Hypothesis's database is code that runs."""

from __future__ import annotations

import re

import pytest
from hypothesis import settings
from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    GitHubArtifactDatabase,
    MultiplexedDatabase,
)

from kvstrategies import profiles
from tests.conftest import PROFILE
from tests.kvref.testing.conftest import ROOT


@pytest.fixture
def run_the_snippet(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(# conftest\.py\n.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KV_PROFILE", raising=False)
    monkeypatch.setattr(profiles, "load", lambda: PROFILE)
    before = settings.get_profile(PROFILE)

    def run(**environment: str) -> None:
        for name in ("CI", "GITHUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        exec(compile(snippet, "docs/ci.md", "exec"), {})

    yield run
    settings.register_profile(PROFILE, before)
    settings.load_profile(PROFILE)


def test_on_ci_examples_are_kept_in_a_folder(run_the_snippet):
    run_the_snippet(CI="true", GITHUB_TOKEN="x")
    assert isinstance(settings.default.database, DirectoryBasedExampleDatabase)
    settings.default.database.save(b"key", b"value")
    assert set(settings.default.database.fetch(b"key")) == {b"value"}


def test_elsewhere_those_of_ci_are_read_too(run_the_snippet, monkeypatch):
    monkeypatch.setattr(GitHubArtifactDatabase, "fetch", lambda self, key: iter([b"theirs"]))
    run_the_snippet(GITHUB_TOKEN="x")
    database = settings.default.database
    assert isinstance(database, MultiplexedDatabase)
    database.save(b"key", b"mine")
    assert set(database.fetch(b"key")) == {b"mine", b"theirs"}


def test_without_a_token_nothing_is_asked_for(run_the_snippet):
    run_the_snippet()
    assert isinstance(settings.default.database, DirectoryBasedExampleDatabase)
    assert settings.get_current_profile_name() == PROFILE
