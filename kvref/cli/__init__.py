"""The command line: `kvref fuzz`, `kvref report`, `kvref situations`, `kvref targets`."""

from __future__ import annotations

from kvref.cli.app import main

__all__ = ["main"]
