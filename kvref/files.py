"""Writes files: whole or not at all, in place of nothing but what was meant."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["check_writable", "over_input", "replace"]


def replace(path: Path, content: bytes) -> None:
    """Put the content in place of what the file holds, all of it or nothing; makes its folder.

    A link stays one: what it points to is replaced. What is no regular file (a pipe, a device) is
    written into, and is there afterwards. An OSError names `path`, and leaves nothing behind.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                file.write(content)
            return
        real = _real(path)
        real.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _unfinished(real)
        try:
            unfinished.write_bytes(content)
            os.replace(unfinished, real)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _of(error, path) from error


def check_writable(path: Path) -> None:
    """OSError if `replace` could not write there now; makes the folder."""
    try:
        if path.exists() and not path.is_file():
            with path.open("ab"):
                return
        real = _real(path)
        real.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _unfinished(real)
        unfinished.write_bytes(b"")
        unfinished.unlink()
    except OSError as error:
        raise _of(error, path) from error


def over_input(out: Path, *inputs: Path) -> str | None:
    """Why nothing may be written to `out`, in words, if it is one of the inputs."""
    for each in inputs:
        with suppress(OSError):  # one of them is not there
            if os.path.samefile(out, each):
                return f"{out} is the input itself; give another file"
    return None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _unfinished(real: Path) -> Path:
    return real.with_name(f"{real.name}.part")


def _of(error: OSError, path: Path) -> OSError:
    """The same about the path that was asked for, and not about a file beside it."""
    if error.errno is None:
        return OSError(f"{path}: {error}")
    return OSError(error.errno, error.strerror, str(path))
