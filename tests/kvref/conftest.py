"""The command line, called in this process."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from kvref.cli.app import app


@pytest.fixture
def kvref(tmp_path, monkeypatch):
    """Runs a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: str, status: int) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == status, result.output
        return result.output

    return run
