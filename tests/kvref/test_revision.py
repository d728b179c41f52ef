"""The revision of the current directory, read without git."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from kvref.revision import revision, versions


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    folder = tmp_path / "repository"
    folder.mkdir()

    def git(*arguments: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *author, *arguments], cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    return folder, git


def test_it_is_what_git_says(repository):
    folder, git = repository
    head = git("rev-parse", "HEAD")
    (folder / "a" / "b").mkdir(parents=True)
    assert revision(folder) == revision(folder / "a" / "b") == head
    git("pack-refs", "--all")
    assert revision(folder) == head
    git("checkout", "-q", "--detach")
    assert revision(folder) == head


def test_in_a_worktree_too(repository, tmp_path):
    folder, git = repository
    git("worktree", "add", "-q", str(tmp_path / "other"))
    git("commit", "-q", "--allow-empty", "-m", "two")
    other = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=tmp_path / "other", check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    assert revision(tmp_path / "other") == other != revision(folder)


@pytest.mark.parametrize("head", ["ref: refs/heads/nothing", "not a commit", "", "\udcff"])
def test_a_damaged_or_empty_repository_has_none(tmp_path, head):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(head.encode(errors="surrogateescape"))
    assert revision(tmp_path) is None


def test_no_repository_no_file_and_none_at_all(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    assert revision(tmp_path) is None
    monkeypatch.chdir(Path("/"))
    assert revision() is None


def test_versions(monkeypatch):
    assert set(versions()) >= {"python", "kvref"}
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert "torch" not in versions()
    monkeypatch.setitem(sys.modules, "torch", type("torch", (), {"__version__": "9"}))
    assert versions()["torch"] == "9"

    def missing(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr("kvref.revision.version", missing)
    assert versions()["kvref"] == "not installed"
