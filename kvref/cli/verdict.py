"""What `kvref fuzz` says at the end."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.markup import escape

from kvref.cli.exits import shown
from kvref.cli.machines import Machine
from kvref.known import KnownFailures

__all__ = ["LEAST_ACCEPTED", "judged", "known_failures", "verdict"]

LEAST_ACCEPTED = 0.5
"""Below this share the run says little: most calls were only refused."""


def judged(console: Console, machine: Machine, of_what: str, *, title: bool) -> None:
    """What one machine did, and how often each law was judged."""
    totals = machine.totals
    console.print(
        (f"\n[bold]{machine.name}[/bold]: " if title else "\n")
        + f"{totals.operations:,} operations in {totals.runs:,} runs and {machine.seconds:.1f} s, "
        f"{totals.rate:,.0f}/s{of_what}; {totals.share_accepted:.0%} accepted, "
        f"{totals.refused:,} rightly refused"
        + (f", {totals.skipped:,} skipped" if totals.skipped else "")
    )
    console.print("judged, how often:")
    promises = machine.factory.promises
    reasons = promises.not_judged()
    for law, sentence in machine.laws.items():
        count = totals.judged[law]
        if law == "legal-victims" and promises.eviction == "exact":
            continue  # no gap: the law of victims says more
        if count:
            note = f"  [dim]({escape(reasons[law])})[/dim]" if law in reasons else ""
            console.print(f"  {count:>10,}  {law}: {sentence}{note}")
        else:
            reason = reasons.get(law, "it did not come up, or the target cannot be looked into")
            console.print(f"           -  {law}: [yellow]not judged[/yellow], {escape(reason)}")
    if machine.name == "manager":
        seldom, ends = "structure, integrity", "before its locks are given back"
    else:
        seldom, ends = "rows, contents, structure, ledger", "before its requests are ended"
    console.print(
        f"{seldom} and the oracle's own recount: every {machine.look_every} operations of a "
        f"run, {ends}, and at its end; all else after each operation"
    )


def known_failures(console: Console, known: KnownFailures) -> None:
    """How often each known failure was met."""
    for each, count in known.met:
        console.print(f"known, {count} times: {each.kind.value}, {shown(each.note)}", markup=False)
    for each in known.not_met:
        note = shown(each.note)
        console.print(f"known, and did not occur: {each.kind.value}, {note}", markup=False)


def verdict(
    console: Console,
    lowest: float,
    found: Counter[tuple[str, str]],
    known: KnownFailures,
    missed: list[str],
) -> bool:
    """The last line; returns whether the run is worth to be called clean.

    `lowest` is the least share accepted of a machine, `missed` what should have been met.
    """
    meaningless = "[bold red]not a meaningful run[/bold red]:"
    if found:
        kinds = ", ".join(f"{kind} at {where} ({count})" for (kind, where), count in found.items())
        console.print(f"[bold red]found {found.total()}[/bold red]: {kinds}")
        return False
    if lowest < LEAST_ACCEPTED:
        console.print(
            f"{meaningless} only {lowest:.0%} of the operations were accepted, "
            f"fewer than {LEAST_ACCEPTED:.0%}"
        )
        return False
    if missed:
        console.print(f"{meaningless} it never met {', '.join(missed)}")
        return False
    beside = " beside those that are known" if known.met else ""
    console.print(f"[bold green]clean[/bold green]: no difference from the oracle{beside}")
    return True
