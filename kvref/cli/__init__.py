"""The command line: `kvref fuzz`, `replay`, `shrink`, `known`, `targets`."""

from __future__ import annotations

from kvref.cli.app import main

__all__ = ["main"]
