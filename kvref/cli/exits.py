"""What the exit statuses of the commands mean."""

from __future__ import annotations

__all__ = ["CLEAN", "FOUND", "INTERRUPTED", "MISUSED"]

CLEAN = 0
FOUND = 1
"""A difference, or too little was accepted to say."""
MISUSED = 2
INTERRUPTED = 130
