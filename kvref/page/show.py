"""Runs a trace and makes the page of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kvref.machine import Bench
from kvref.page.builder import MOST_STEPS, PageBuilder
from kvref.page.document import document
from kvref.page.text import cut
from kvref.page.verdict import Verdict, facts, verdict
from kvref.replaying import first_difference
from kvref.steps import Step, walk
from kvref.traces.failures import python_of
from kvref.traces.format import Record, Trace
from kvref.traces.writer import Recorder

__all__ = ["show"]

_LONGEST_PROGRAM = 500, 100_000
"""Operations and characters that are also shown as a Python program: a shrunk failure is."""


def show(
    trace: Trace,
    bench: Bench,
    *,
    target: str,
    name: str,
    in_plain: Callable[[Step], str],
    most: int = MOST_STEPS,
) -> tuple[str, Verdict]:
    """Run the trace on the bench, a long one twice; returns the page, and the verdict on it.

    Args:
        trace: its operations are judged anew, whatever it recorded.
        bench: of the target of that name.
        target: the name of the target.
        name: the title of the page.
        in_plain: a step as lines of text, for a reader whose browser runs no script.
        most: steps on the page.
    """
    since, heard = 0, Recorder(trees=False)
    if len(trace.program.operations) > most:
        # Where it ends is known when it has ended; steps are made of what is shown alone, and of
        # one before it, which says what the first one changes.
        bench.run(trace.program, heard)
        since = max(0, len(heard.records) - most - 1)
    builder = PageBuilder(most, since)
    records = heard.records[:since]
    last: list[Step] = []

    def each(step: Step) -> None:
        builder.add(step)
        records.append(Record(step.expected, step.got))
        last[:] = [step]

    divergence = walk(bench, trace.program, each, since=since)
    # Not the digests of trees: a page that shows each tree need not say that they differ.
    then = [Record(record.expected, record.got) for record in trace.records]
    otherwise = first_difference(then, records)
    ending = verdict(trace, divergence, target=target, ran=builder.ran, otherwise=otherwise)
    configuration: dict[str, Any] = msgspec.to_builtins(trace.program.configuration)
    legal = getattr(bench.promises, "eviction", "exact") == "legal"
    data = builder.page(
        page_size=configuration.get("page_size", 1),
        num_pages=configuration.get("num_pages", 0),
        order="own" if legal else configuration.get("policy", "lru"),
        operations=len(trace.program.operations),
    )
    if ending.difference is not None:
        data.expected_slots = ending.difference.expected_slots
        data.got_slots = ending.difference.got_slots
        data.moved = ending.difference.moved
    for step in data.steps:
        if otherwise is not None and step.index == otherwise[0]:
            step.otherwise = cut(otherwise[1], 1000)
    program = ""
    if len(trace.program.operations) <= _LONGEST_PROGRAM[0]:
        program = python_of(trace.machine, trace.program, records)
    if len(program) > _LONGEST_PROGRAM[1]:
        program = ""
    plain = in_plain(last[0]) if last else "no operation ran"
    text = document(
        data, name=name, facts=facts(trace, target), verdict=ending, program=program, plain=plain
    )
    return text, ending
