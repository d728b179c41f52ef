"""Shows steps on a terminal, or as plain text where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from kvref.cli.exits import shown
from kvref.steps import Change, PoolPage, Step
from kvref.tree import TreeNode

__all__ = ["StepView"]

_LONGEST = 24
"""More tokens or slots than this are cut in the middle: a step is to be seen at a glance."""


class StepView:
    """Prints one step after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, step: Step) -> None:
        """Operation, what was said, what changed, and the tree after it."""
        put = self._put
        put(f"\n{step.index:>4}  {step.call}", "bold")
        if step.status == "skipped":
            put(
                "      not issued: the target does not promise it, or its handle is not there",
                "dim",
            )
        else:
            put(f"      oracle  {step.expected}")
            differs = step.got is None or (step.status == "accepted" and step.got != step.expected)
            got = "nothing was said" if step.got is None else step.got
            put(f"      target  {got}", "yellow" if differs else "")
        for change in step.changed:
            put(f"      {_change(change)}", "cyan")
        put(f"      evictable {step.evictable_size}, protected {step.protected_size}", "dim")
        for line in _tree(step.tree):
            put(f"        {line}")
        put(f"      pool  {_pool(step.pool)}", "dim")
        if step.divergence is not None:
            put("      " + "=" * 60, "bold red")
            for line in f"DIFFERENCE {step.divergence}".splitlines():
                put(f"      {line}", "bold red")
            put("      " + "=" * 60, "bold red")

    def _put(self, line: str, style: str = "") -> None:
        self._console.print(Text(shown(line), style=style))


def _tree(roots: Iterable[TreeNode]) -> Iterator[str]:
    """A line a node, those below it further to the right; the empty tree says so."""
    waiting = [(0, node) for node in reversed(tuple(roots))]
    if not waiting:
        yield "(nothing is cached)"
    while waiting:
        depth, node = waiting.pop()
        where = f"{node.namespace!r} " if depth == 0 and node.namespace is not None else ""
        locks = f"locks {node.locks}" + (f" ({node.own_locks} its own)" if node.own_locks else "")
        end = "  evictable" if node.evictable else ""
        yield (
            f"{'  ' * depth}{where}{_short(node.tokens)} in slots {_short(node.slots)}  {locks}  "
            f"used {node.recency}  created {node.created}{end}"
        )
        waiting += [(depth + 1, child) for child in reversed(node.children)]


def _change(change: Change) -> str:
    where = "" if change.namespace is None else f" of {change.namespace!r}"
    node = f"{_short(change.prefix)}{where}"
    match change.what:
        case "cached":
            return f"+ {node}"
        case "evicted":
            return f"- {node}"
        case "split":
            return f"/ a node ends at {node} now"
        case "locks":
            return f"* {node}: locks {change.before} -> {change.after}"
        case "used":
            return f"* {node}: used {change.before} -> {change.after}"


def _pool(pages: Iterable[PoolPage]) -> str:
    """Pages by owner, as runs of their numbers."""
    owners: dict[str, list[int]] = {}
    for page in pages:
        owner = page.owner + (" and locked" if page.locks else "")
        owners.setdefault(owner, []).append(page.number)
    return "; ".join(f"{owner}: {_runs(numbers)}" for owner, numbers in sorted(owners.items()))


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _short(values: tuple[int, ...]) -> str:
    if len(values) <= _LONGEST:
        return str(list(values))
    half = _LONGEST // 2
    first, last = (", ".join(map(str, part)) for part in (values[:half], values[-half:]))
    return f"[{first}, ... {len(values) - 2 * half} more ..., {last}]"
