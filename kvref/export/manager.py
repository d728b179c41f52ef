"""A program on a bare manager, for somebody who has never heard of this project.

Each operation is its call, what has to come back, and the sizes afterwards, in the order in which
the judge compares. The program ends with the comparison that failed, so it fails there, and passes
on a manager that is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvref.configuration import Configuration
from kvref.divergence import DivergenceKind
from kvref.export.lines import Lines
from kvref.export.rehearsal import Rehearsed, Step, rehearse
from kvref.export.steps import lines_of
from kvref.export.text import ManagerName, Style, about, comment
from kvref.operations import FOREIGN, tensor_functions
from kvref.promises import Promises
from kvref.traces.format import DivergenceLine, Trace

__all__ = ["export_manager_trace"]

_KIND = DivergenceKind
_INSIDE = (_KIND.STRUCTURE, _KIND.LEFT_A_TRACE)
"""Differences that no call of the interface returns."""

# By the name of a target. Not looked up: a trace that somebody sent must not have things imported.
_MANAGERS = {
    "kvgpu-radix": ManagerName("kvgpu", "RadixCacheManager"),
    "kvgpu-naive": ManagerName("kvgpu", "NaiveCacheManager"),
}
_UNKNOWN = (
    "# The trace does not say of what class that was, so this imports kvgpu's: put it in its",
    "# place, and build it in new_manager().",
)
_JUNK = "-(2**31) + 7"  # as the bridge has it: no token and no slot of any program


class _Ending(NamedTuple):
    """How the run ended, if it did by a difference."""

    divergence: DivergenceLine | None

    def at(self, step: Step) -> DivergenceLine | None:
        """The difference, if this is where it is."""
        divergence = self.divergence
        return divergence if divergence is not None and divergence.index == step.index else None


def export_manager_trace(trace: Trace, style: Style, manager: ManagerName | None) -> str:
    """The trace as a program; `manager` None for the class that its target says, or kvgpu's."""
    promises: Promises = trace.promises
    divergence = trace.divergence
    inside = divergence is not None and divergence.kind in _INSIDE
    program = trace.program
    if divergence is not None:  # what a file has after it was never issued
        program = program._replace(operations=program.operations[: divergence.index + 1])
    rehearsed = rehearse(program, promises, trace.records, show=inside)
    naive = "kvgpu-naive" if not promises.keeps_prefixes else "kvgpu-radix"
    known = manager or _MANAGERS.get(trace.header.target or "")
    manager = known or _MANAGERS[naive]
    body = list(_body(trace, rehearsed, _Ending(divergence), style))
    lines = [
        '"""Calls on a prefix cache of an LLM engine, and what has to come back from each.',
        "",
        "A slot is the place of one token in the pool, a page so many slots in a row, a handle the",
        "name of a cached prefix. Needs torch and the manager, and nothing else.",
        '"""',
        "",
        *about(trace),
        *([] if known else _UNKNOWN),
        "",
        *(["import pytest"] if style is Style.PYTEST and _raises(body) else []),
        "import torch",
        f"from {manager.module} import {manager.name}",
        "",
        *_preamble(trace.program.configuration, manager, promises, body),
        "",
    ]
    name = "it" if divergence is None else divergence.kind.value.replace("-", "_")
    if style is Style.PYTEST:
        lines += ["", f"def test_{name}():", *(f"    {line}" if line else "" for line in body)]
    else:
        lines += ["", *body]
    return "\n".join(lines) + "\n"


def _preamble(
    configuration: Configuration, manager: ManagerName, promises: Promises, body: list[str]
) -> Iterator[str]:
    """How the manager is built, and what the calls below use."""
    yield f"JUNK = {_JUNK}  # no token and no slot of this program"
    yield "buffers = []  # tensors that were passed to the manager since they were last overwritten"
    yield ""
    yield "def new_manager():"
    if promises.keeps_prefixes:
        yield f"    return {configuration.python(manager.name).removeprefix('cache = ')}"
    else:
        yield f'    return {manager.name}("cpu", page_size={configuration.page_size})'
    yield ""
    yield "def kept(tensor):"
    yield "    buffers.append(tensor)"
    yield "    return tensor"
    yield ""
    yield from tensor_functions(kept=True)
    yield ""
    yield "def overwrite(*results):"
    yield '    """Buffers are the caller\'s, who uses them for something else after the call."""'
    yield "    for tensor in (*results, *buffers):"
    yield "        tensor.fill_(JUNK)"
    yield "    buffers.clear()"
    if any("kinds(error" in line for line in body):
        yield ""
        yield "def kinds(error):"
        yield '    """The names of its class and of those that it derives from."""'
        yield "    return [each.__name__ for each in type(error).__mro__]"


def _body(trace: Trace, rehearsed: Rehearsed, ending: _Ending, style: Style) -> Iterator[str]:
    configuration: Configuration = trace.program.configuration
    operations = [step.operation for step in rehearsed.steps]
    if any(getattr(operation, "handle", None) == FOREIGN for operation in operations):
        page = list(range(configuration.page_size))
        yield "other = new_manager()"
        yield f"other.insert_prefix(ids({page}), slots({page}))"
        yield f"foreign, _ = other.match_prefix(ids({page}))"
        yield ""
    yield "cache = new_manager()"
    for step in rehearsed.steps:
        divergence = ending.at(step)
        lines = lines_of(step, trace.promises, style, divergence)
        yield from lines.text if divergence is None else _last(lines, divergence)
    if rehearsed.cut is not None:
        yield comment(f"It ends here: {rehearsed.cut}.")
    divergence = ending.divergence
    if divergence is None:
        return
    if divergence.kind in _INSIDE:
        yield ""
        yield "# What differs is inside, where no call looks. If it shows, then in what lies where:"
        if trace.promises.integrity:
            yield "cache.check_integrity()"
        for step in rehearsed.showing:
            yield from lines_of(step, trace.promises, style, None).text
    elif divergence.kind is _KIND.INTEGRITY:
        yield comment(f"A healthy cache; when this was recorded: {divergence.got}")
        yield "cache.check_integrity()"


def _last(lines: Lines, divergence: DivergenceLine) -> Iterator[str]:
    """Up to the comparison that failed, with what came back above it."""
    kept, failing = lines.until(divergence)
    yield from kept
    if failing:
        yield comment(f"When this was recorded, it was: {divergence.got}")
        yield from failing


def _raises(body: list[str]) -> bool:
    return any("pytest.raises(" in line for line in body)
