"""`kvref targets`."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvref.cli.report import id_width
from kvref.registry import GROUP, UnknownTarget, load, registered
from kvref.requests.target import RequestTargetFactory

__all__ = ["targets"]


def targets() -> None:
    """Print the registered targets; one that cannot be imported says why."""
    console = Console()
    found = registered()
    if not found:
        console.print(f"No targets are registered (entry point group {GROUP}).")
        return
    table = Table(box=None, header_style="bold")
    width = id_width(max(map(len, found)), console.width)
    table.add_column("target", min_width=width, overflow="fold")
    table.add_column("factory", overflow="fold")
    table.add_column("what it is", overflow="fold")
    for name, entry in found.items():
        try:
            factory = load(name)
        except UnknownTarget as error:
            table.add_row(escape(name), escape(entry.value), escape(f"not usable here: {error}"))
            continue
        table.add_row(escape(name), escape(entry.value), escape(factory.description))
        requests = factory if isinstance(factory, RequestTargetFactory) else factory.requests
        what = "whole requests alone" if requests is factory else "a manager, and whole requests"
        table.add_row("", "", f"[dim]{'a bare manager' if requests is None else what}[/dim]")
        for law, reason in factory.promises.not_judged().items():
            if not (law == "legal-victims" and factory.promises.eviction == "exact"):
                table.add_row("", "", f"[dim]not judged: {law} ({escape(reason)})[/dim]")
    console.print(table)
    console.print("\nOr name your own factory: kvref fuzz module:factory")
