"""The command line: a module for each of the commands of `kvref`."""

from __future__ import annotations

from kvref.cli.app import main

__all__ = ["main"]
