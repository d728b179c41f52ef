"""A program on whole requests, for somebody who has never heard of this project.

Each operation is its call, what has to come back, and the pool afterwards, in the order in which
the judge compares; rows, contents and the target's own check as often as the run looked at them.
The program ends with the comparison that failed, as that on a bare manager does.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvref.divergence import DivergenceKind
from kvref.export.lines import Lines
from kvref.export.request_helpers import helpers
from kvref.export.request_rehearsal import RehearsedRequests, rehearse_requests
from kvref.export.request_steps import lines_of_request, located
from kvref.export.text import ManagerName, Style, about, comment
from kvref.requests.promises import RequestPromises
from kvref.traces.format import DivergenceLine, Trace

__all__ = ["export_requests_trace"]

_KIND = DivergenceKind
_INSIDE = (_KIND.STRUCTURE, _KIND.LEFT_A_TRACE)
"""Differences that no call of the interface returns."""
_WHOLE = (_KIND.REFUSED, _KIND.MALFORMED, _KIND.HANG, _KIND.CRASH)
"""Differences of the call, or of what reads its result: nobody knows which."""

# By the name of a target. Not looked up: a trace that somebody sent must not have things imported.
_KVGPU = ("kvgpu-radix", "kvgpu-naive")
_UNKNOWN = (
    "# The trace does not say of what class that was, so this imports kvgpu's: put it in its",
    "# place, and build it in new_requests().",
)
_LIFE = (
    "# There a request without room has matched before it was refused, as in a life of requests",
    "# over a cache manager that knows none. What has to come back here is what does so there.",
)


def export_requests_trace(trace: Trace, style: Style, manager: ManagerName | None) -> str:
    """The trace as a program; `manager` is the class of requests, None for kvgpu's."""
    promises: RequestPromises = trace.promises
    divergence = trace.divergence
    program = trace.program
    if divergence is not None:
        program = program._replace(operations=program.operations[: divergence.index + 1])
    rehearsed = rehearse_requests(
        program,
        promises,
        look_every=trace.header.look_every,
        show=_shows(divergence),
        find_again=divergence is not None and divergence.kind is _KIND.STRUCTURE,
    )
    known = manager is not None or trace.header.target in _KVGPU
    manager = manager or ManagerName("kvgpu", "RequestManager")
    body = list(_body(trace, rehearsed, style))
    lines = [
        '"""Requests over the prefix cache of an LLM engine, and what has to come back of each.',
        "",
        "A slot is the place of one token's K and V in the pool, a page so many slots in a row.",
        "The first `cached_len` slots of a request are the cache's, shared with others and locked;",
        "the rest, up to `extended_len`, are its own. It may get any pages that are nobody's: so",
        "slots are compared with those of the request that they were given to first. `row3` is",
        "what `r3` has. Needs torch and kvgpu, and nothing else.",
        '"""',
        "",
        *about(trace),
        *([] if known else _UNKNOWN),
        *(_LIFE if promises.refused_begin == "match" else ()),
        "",
        *helpers(program.configuration, manager, promises, body),
        "",
    ]
    name = "it" if divergence is None else divergence.kind.value.replace("-", "_")
    if style is Style.PYTEST:
        indented = [f"    {line}" if line else "" for line in body]
        lines += ["", f"def test_{name}():", *(indented or ["    pass"])]
    else:
        lines += ["", *body]
    return "\n".join(lines) + "\n"


def _shows(divergence: DivergenceLine | None) -> bool:
    """Whether nothing that was asked for up to there need show it.

    That is so too where a target itself said which slots it evicted, and not how many it kept.
    """
    if divergence is None:
        return False
    told = divergence.kind is _KIND.SHORTFALL and not divergence.got.endswith(" left")
    return told or divergence.kind in _INSIDE


def _body(trace: Trace, rehearsed: RehearsedRequests, style: Style) -> Iterator[str]:
    divergence, promises = trace.divergence, trace.promises
    for number, step in enumerate(rehearsed.steps):
        if number:
            yield ""
        if divergence is None or divergence.index != step.index:
            yield from lines_of_request(step, promises, style, None).text
        else:
            yield from _last(lines_of_request(step, promises, style, divergence), divergence)
    if rehearsed.cut is not None:
        yield comment(f"It ends here: {rehearsed.cut}. What was called next:")
        for index in range(len(rehearsed.steps), len(trace.program.operations)):
            yield comment(trace.program.operations[index].python(index))
    elif _shows(divergence):
        yield ""
        yield "# What differs is inside, where no call looks. If it shows, then when all requests"
        yield "# have ended: in what is left, and in what goes first. If it does not, this passes."
        for step in rehearsed.showing:
            yield from lines_of_request(step, promises, style, None).text
        for spans in rehearsed.evicted:
            yield f"assert cache.evict(1).tolist() == {located(spans)}"


def _last(lines: Lines, divergence: DivergenceLine) -> Iterator[str]:
    """Up to the comparison that failed, with what came back above it."""
    kept, failing = lines.until(divergence)
    if divergence.kind in _WHOLE or _shows(divergence):
        failing = lines.text[len(kept) :]
    yield from kept
    if failing:
        yield comment(f"When this was recorded, it was: {divergence.got}")
        if divergence.kind in (_KIND.HANG, _KIND.CRASH):
            yield "# So there is nothing to compare: the call itself is what differs."
    yield from failing
