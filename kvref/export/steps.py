"""One operation of a bare manager as lines of Python: the call, and what it is compared with."""

from __future__ import annotations

from kvref.divergence import DivergenceKind
from kvref.export.lines import Lines, add_refusal
from kvref.export.rehearsal import Step
from kvref.export.text import Style, comment
from kvref.operations import Evict, Insert, Match
from kvref.promises import Promises
from kvref.refusals import Refusal
from kvref.traces.format import DivergenceLine

__all__ = ["lines_of"]

_KIND = DivergenceKind
_REFUSALS = ("refusals", "answers-in-time")


def lines_of(
    step: Step, promises: Promises, style: Style, divergence: DivergenceLine | None
) -> Lines:
    """The operation; `divergence` if it is the one that differs."""
    lines = Lines()
    operation = step.operation
    call = operation.python(step.index)
    if step.skipped:
        lines.add((), comment(f"Not issued, since the manager promises nothing of it: {call}"))
        return lines
    if isinstance(step.expected, Refusal):
        add_refusal(
            lines, _REFUSALS, call, step.expected, promises.refusal_errors, style, divergence
        )
        _sizes(lines, step, divergence)
        return lines
    accepted = ("accepts", "answers-in-time")
    if isinstance(operation, Match):
        handle, slots = step.expected
        name = f"h{step.index}"
        lines.add(accepted, call, *_types(divergence, f"type({name}.cached_len) is int"))
        if divergence is not None and divergence.kind is _KIND.MATCH_LENGTH:
            length = handle.cached_len
            both = f"assert ({name}.cached_len, len(indices)) == ({length}, {length})"
            lines.add(("match-length",), both)
        else:
            lines.add((), f"assert {name}.cached_len == {handle.cached_len}")
        lines.add(("match-slots",), f"assert indices.tolist() == {slots}")
        if operation.tokens:
            lines.add((), "overwrite(indices)")
        if step.twin is not None:
            other, same = step.twin
            lines.add(("handles",), _compared(f"h{other}", name, same))
    elif isinstance(operation, Insert):
        if _wrong_type(divergence):
            lines.add(accepted, f"already = {call}", "assert type(already) is int")
        else:
            lines.add((*accepted, "already-cached"), f"assert {call} == {step.expected}")
        if operation.tokens or operation.slots:
            lines.add((), "overwrite()")
    elif isinstance(operation, Evict) and step.allowed is not None:
        lines.add(accepted, f"indices = {call}", *_types(divergence))
        _own_choice(lines, step, step.allowed, divergence)
    elif isinstance(step.expected, list):  # evict and reset
        lines.add(accepted, f"indices = {call}", *_types(divergence))
        if promises.ordered_victims and promises.eviction == "exact":
            same_slots = f"assert indices.tolist() == {step.expected}"
        else:
            same_slots = f"assert sorted(indices.tolist()) == {sorted(step.expected)}"
        lines.add(("victims", "reset"), same_slots)
        if step.expected:
            lines.add((), "overwrite(indices)")
    else:
        lines.add(accepted, call)
    _sizes(lines, step, divergence)
    return lines


def _sizes(lines: Lines, step: Step, divergence: DivergenceLine | None) -> None:
    if divergence is not None and divergence.law == "sizes" and divergence.kind is _KIND.MALFORMED:
        lines.add((), "evictable, protected = cache.size_info")
        lines.add(("sizes",), "assert type(evictable) is type(protected) is int")
        return
    lines.add(("sizes",), f"assert tuple(cache.size_info) == {step.sizes}  # evictable, protected")


def _compared(one: str, other: str, same: bool) -> str:
    if same:
        return f"assert {one} == {other} and hash({one}) == hash({other})"
    return f"assert {one} != {other}"


def _wrong_type(divergence: DivergenceLine | None) -> bool:
    """Whether it is the type of the answer that is wrong."""
    return (
        divergence is not None
        and divergence.law == "accepts"
        and (divergence.kind is _KIND.MALFORMED or "WrongTensor" in divergence.got)
    )


def _types(divergence: DivergenceLine | None, also: str = "") -> list[str]:
    """What asks for the types of slots that came back, where these are wrong."""
    asked = ["indices.dtype == torch.int32", "indices.dim() == 1", *([also] if also else [])]
    return [f"assert {' and '.join(asked)}"] if _wrong_type(divergence) else []


def _own_choice(
    lines: Lines, step: Step, allowed: list[int], divergence: DivergenceLine | None
) -> None:
    """Victims that the manager chooses itself: what they are is known from the recording alone."""
    if divergence is not None and divergence.law == "legal-victims":
        lines.add((), "# Which slots is its own choice: enough, that no lock covers, leaves first.")
        lines.add((), f"assert len(indices) >= {step.expected}")
        lines.add((), f"assert set(indices.tolist()) <= set({sorted(allowed)})")
        if step.chosen is not None:
            wrong = f"assert sorted(indices.tolist()) != {sorted(step.chosen)}"
            lines.add(("legal-victims",), wrong)
        return
    if step.chosen is not None:
        same = f"assert sorted(indices.tolist()) == {sorted(step.chosen)}"
        lines.add((), "# Its own choice; the calls that follow were made after this one:", same)
        lines.add((), "overwrite(indices)")
