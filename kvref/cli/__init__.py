"""The command line: `kvref fuzz`, and what goes on from there."""

from __future__ import annotations

from kvref.cli.app import main

__all__ = ["main"]
