"""One operation on whole requests as lines of Python: the call, and what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from kvref.divergence import DivergenceKind
from kvref.export.lines import Lines, add_refusal
from kvref.export.request_expected import Content, Look, RequestStep, Span
from kvref.export.text import Style, comment
from kvref.listener import Foreseen
from kvref.refusals import Refusal
from kvref.requests.operations import Append, Begin, Commit, Extend, Preempt, Store
from kvref.requests.promises import RequestPromises
from kvref.traces.format import DivergenceLine

__all__ = ["lines_of_request", "located"]

_KIND = DivergenceKind
_ACCEPTED = ("request-accepts", "requests-in-time")
_REFUSALS = ("request-refusals", "requests-in-time")
_POOL = ("request-sizes", "free-pages", "drained")
_UNCHANGED = ("request-refused-unchanged",)
_CONTENT = ("content-cached", "content-running")


def lines_of_request(
    step: RequestStep, promises: RequestPromises, style: Style, divergence: DivergenceLine | None
) -> Lines:
    """The operation, and what is looked at after it; `divergence` if it is what differs."""
    lines = Lines()
    if step.skipped:
        why = "Not issued, since it is not promised, or does not fit what went before"
        lines.add((), comment(f"{why}: {step.operation.python(step.index)}"))
    elif isinstance(step.expected, Refusal):
        call = _call(step)
        add_refusal(
            lines, _REFUSALS, call, step.expected, promises.refusal_errors, style, divergence
        )
        _pool(lines, step, *_UNCHANGED)
    else:
        _accepted(lines, step, divergence)
    if step.look is not None and (divergence is None or divergence.law != "request-accepts"):
        _add_look(lines, step.look)
    return lines


def _add_look(lines: Lines, look: Look) -> None:
    """Rows, contents, and the target's own check, in the order in which the judge looks."""
    for number in look.rows:
        lines.add(("rows-stay",), f"assert values(r{number}.slots()) == row{number}")
    for content in look.contents:
        lines.add(_CONTENT, _holds(content))
    running = ", ".join(f"(r{number}, row{number})" for number in look.rows)
    lines.add(("request-structure", "ledger"), f"check({running})")


def located(spans: Sequence[Span]) -> str:
    """The slots there, as the program names them."""
    return " + ".join(map(_span, spans)) or "[]"


def _span(span: Span) -> str:
    start = "" if span.start == 0 else str(span.start)
    stop = "" if span.stop == span.length else str(span.stop)
    part = f"[{start}:{stop}]" if start or stop else ""
    return f"row{span.request}{part}"


def _holds(content: Content) -> str:
    return f"assert read({located(content.spans)}) == {_names(content)}"


def _names(content: Content) -> str:
    """The numbers that K and V of some tokens name."""
    namespace = "" if content.namespace is None else f", {content.namespace!r}"
    part = f"[{content.start}:]" if content.start else ""
    return f"names({list(content.tokens)}{namespace}){part}"


def _call(step: RequestStep) -> str:
    """What is called; values go in as tensors, which are then overwritten."""
    operation = step.operation
    if isinstance(operation, Append):
        return f"r{operation.request}.append(ids({list(operation.tokens)}))"
    if isinstance(operation, Store):
        what = "[]" if step.content is None else _names(step.content)
        device = ", on_device=True" if step.on_device else ""
        return f"store(r{operation.request}, {what}{device})"
    return operation.python(step.index)


def _accepted(lines: Lines, step: RequestStep, divergence: DivergenceLine | None) -> None:
    operation, call = step.operation, _call(step)
    number = step.index if isinstance(operation, Begin) else getattr(operation, "request", None)
    r, row = f"r{number}", f"row{number}"
    if isinstance(operation, Begin):
        lines.add(_ACCEPTED, call, f"{row} = values({r}.slots())", "overwrite()")
        assert step.content is not None
        cached = step.start
        lines.add(("token-left", "admission-match"), f"assert {r}.cached_len == {cached}")
        if cached:
            lines.add(("taken-over",), f"assert {row}[:{cached}] == {located(step.row)}")
            shared = step.content._replace(spans=[Span(step.index, 0, cached, -1)])
            lines.add(("content-cached",), _holds(shared))
    elif isinstance(operation, Extend):
        lines.add(_ACCEPTED, call, f"{row} += values({r}.slots({step.start}))")
    elif isinstance(operation, Append):
        lines.add(_ACCEPTED, call, *(["overwrite()"] if operation.tokens else []))
    elif isinstance(operation, Commit):
        assert step.lengths is not None
        if divergence is not None and divergence.kind is _KIND.MALFORMED:
            lines.add(_ACCEPTED, f"length = {call}", "assert type(length) is int")
            call = "length"
        lines.add((*_ACCEPTED, "request-lengths"), f"assert {call} == {step.lengths[0]}")
        _commit(lines, step, r, row)
    elif isinstance(operation, Preempt):
        assert isinstance(step.expected, Foreseen)
        tokens = list(step.expected.tokens or ())
        lines.add((*_ACCEPTED, "preempted-tokens"), f"assert {call}.tolist() == {tokens}")
    else:
        lines.add(_ACCEPTED, call)
    if isinstance(operation, Begin | Extend):
        _pages(lines, step, row, divergence)
    if step.lengths is not None:
        asked = f"({r}.cached_len, {r}.extended_len)"
        lines.add(("request-lengths",), f"assert {asked} == {step.lengths}")
    _pool(lines, step)
    if divergence is not None and divergence.kind is _KIND.MALFORMED:
        _types(lines, step, r, row)


def _commit(lines: Lines, step: RequestStep, r: str, row: str) -> None:
    """The row after it: the cache's slots where it had them already, and else as it was."""
    at = step.start
    for span in step.row:
        stop = at + span.stop - span.start
        if f"row{span.request}" != row:
            mine = f"{row}[{at or ''}:{stop}]"
            why = "the cache had these already; its own copies are free"
            lines.add((), f"{mine} = {_span(span)}  # {why}")
        at = stop
    if step.row:
        start = str(step.start or "")
        rest = f"{row}[{start}:]" if start else row
        lines.add(("taken-over", "rows-stay"), f"assert values({r}.slots({start})) == {rest}")


def _pages(lines: Lines, step: RequestStep, row: str, divergence: DivergenceLine | None) -> None:
    """What was evicted for it, and the slots that it was given."""
    assert isinstance(step.expected, Foreseen)
    if step.evicted or (divergence is not None and divergence.law == "shortfall"):
        total = step.pool[0] + step.pool[1]
        left = f"assert cache.size_info.total_size == {total}  # what was missing is evicted"
        lines.add(("shortfall",), left)
    end = step.start + step.expected.more_slots
    taken = "" if not step.taken else f", taken={located(step.taken)}"
    lines.add(("pages-owned",), f"assert_given({row}, {step.start}, {end}{taken})")


def _pool(lines: Lines, step: RequestStep, *more: str) -> None:
    meaning = "evictable, protected, pages free"
    lines.add((*_POOL, *more), f"assert pool() == {step.pool}  # {meaning}")


def _types(lines: Lines, step: RequestStep, r: str, row: str) -> None:
    """What asks for the types of all that came back."""
    asked = ["*pool()"]
    if step.lengths is not None:
        asked += [f"{r}.cached_len", f"{r}.extended_len", f"*{row}"]
    lines.add(("request-accepts",), f"assert {{*map(type, ({', '.join(asked)},))}} == {{int}}")
