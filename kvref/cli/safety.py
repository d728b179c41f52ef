"""What must not pass for a verdict: a bug of kvref's own, and an output that takes no more."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from kvref.cli.exits import INTERRUPTED, MISUSED, UNREAD, UNTESTABLE

__all__ = ["Group", "checked_output"]

_ClickException: Any = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)
"""Of the click that typer uses, which is its own since 0.26."""


class Group(TyperGroup):
    """The commands; whatever else comes out of one of them is no verdict.

    An exception that nobody caught would end Python with status 1, which says that the target
    differs from the oracle.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, _ClickException):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception:
            traceback.print_exc()
            print(  # noqa: T201
                "kvref: this is a bug of kvref's own, and no verdict on the target", file=sys.stderr
            )
            status = UNTESTABLE if ctx.invoked_subcommand == "replay" else MISUSED
            raise typer.Exit(status) from None


class _OutputEnded(BaseException):
    """No Exception: a command that goes on after a failed write must not go on after this."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(str(error))


class _Checked:
    """A standard output whose errors cannot be taken for those of another file."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> Any:
        return self._try(lambda: self._stream.write(text))

    def flush(self) -> Any:
        return self._try(self._stream.flush)

    @staticmethod
    def _try(what: Callable[[], Any]) -> Any:
        try:
            return what()
        except OSError as error:
            raise _OutputEnded(error) from None


def checked_output(app: Callable[[], Any]) -> None:
    """Call `app`; where its output takes no more, the exit status says that and nothing else."""
    stream = sys.stdout
    if stream is None:  # closed from the beginning: nobody wants to hear anything
        app()
        return
    sys.stdout = _Checked(stream)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except _OutputEnded as ended:
        # What is left in the buffer would fail again while Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(ended.error, BrokenPipeError):
            sys.exit(UNREAD)  # as a shell says of a program that went on writing; no word of it
        print(f"kvref: the output cannot be written: {ended.error}", file=sys.stderr)  # noqa: T201
        sys.exit(MISUSED)
    finally:
        sys.stdout = stream
