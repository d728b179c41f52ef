"""What ran: the versions, and the git revision of the current directory where it is at hand."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["revision", "versions"]


def versions() -> dict[str, str]:
    """Of python and kvref, and of torch where it is loaded."""
    found = {"python": platform.python_version()}
    try:
        found["kvref"] = version("kvref")
    except PackageNotFoundError:
        found["kvref"] = "not installed"
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(getattr(torch, "__version__", "unknown"))
    return found


def revision(folder: Path | None = None) -> str | None:
    """The commit that is checked out around `folder`, read without starting git; None if unknown.

    Whether files were changed since is not looked at.
    """
    start = (folder or Path.cwd()).absolute()
    try:
        for place in (start, *start.parents):
            dot_git = place / ".git"
            if dot_git.is_dir():
                return _head(dot_git)
            if dot_git.is_file():  # of a worktree: "gitdir: <path>"
                return _head(place / dot_git.read_text("utf-8").removeprefix("gitdir:").strip())
    except (OSError, UnicodeDecodeError):
        return None
    return None


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref:"):
        return _commit(head)
    name = head.removeprefix("ref:").strip()
    common = git / "commondir"
    folders = [git, git / common.read_text("utf-8").strip()] if common.exists() else [git]
    for folder in folders:
        if (folder / name).is_file():
            return _commit((folder / name).read_text("utf-8").strip())
    packed = folders[-1] / "packed-refs"
    lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
    return next((_commit(line.split()[0]) for line in lines if line.endswith(f" {name}")), None)


def _commit(text: str) -> str | None:
    return text if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) else None
