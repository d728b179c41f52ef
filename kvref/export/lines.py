"""The lines of one operation, in parts that each ask for something that a judge compares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from kvref.divergence import DivergenceKind
from kvref.export.text import Style, comment
from kvref.refusals import BUILTIN, NAMES, Refusal
from kvref.traces.format import DivergenceLine

__all__ = ["Lines", "add_refusal"]

_KIND = DivergenceKind
RefusalErrors = Literal["named", "builtin", "any"]


@dataclass
class Lines:
    """The lines of one operation, by the law that each part of them asks for."""

    parts: list[tuple[tuple[str, ...], list[str]]] = field(default_factory=list)

    def add(self, laws: tuple[str, ...], *lines: str) -> None:
        """In the order in which the judge compares."""
        self.parts.append((laws, list(lines)))

    @property
    def text(self) -> list[str]:
        """All of them."""
        return [line for _laws, lines in self.parts for line in lines]

    def until(self, divergence: DivergenceLine) -> tuple[list[str], list[str]]:
        """What comes before the part that fails, and that part; nothing comes after it.

        Where several parts ask for that law, nobody knows which of them failed: it is all from
        the first to the last of them. It is empty where none does.
        """
        asking = [at for at, (laws, _) in enumerate(self.parts) if divergence.law in laws]
        first, end = (asking[0], asking[-1] + 1) if asking else (len(self.parts),) * 2
        before = [line for _, lines in self.parts[:first] for line in lines]
        return before, [line for _, lines in self.parts[first:end] for line in lines]


def add_refusal(
    lines: Lines,
    laws: tuple[str, ...],
    call: str,
    refusal: Refusal,
    errors: RefusalErrors,
    style: Style,
    divergence: DivergenceLine | None,
) -> None:
    """A call that has to be refused, in the words of the style.

    Args:
        laws: that it asks for.
        errors: what the target promises of its errors.
    """
    builtin = "Exception" if errors == "any" else BUILTIN[refusal.kind].__name__
    wrong_error = divergence is not None and divergence.kind is _KIND.WRONG_REFUSAL
    checks = list(_checks(refusal, errors, "error"))
    if wrong_error:
        # Whatever came is caught, so that it is the comparison that fails.
        checks.insert(0, f"isinstance(error, {builtin})")
        builtin = "Exception"
    accepted = divergence is not None and divergence.kind is _KIND.ACCEPTED
    asserted = [] if accepted else [f"assert {' and '.join(checks)}"] if checks else []
    above = comment(f"Has to be {refusal}.")
    if style is Style.PYTEST:
        binding = " as caught" if asserted else ""
        block = [f"with pytest.raises({builtin}){binding}:", f"    {call}"]
        if asserted:
            block += ["error = caught.value", *asserted]
    else:
        binding = " as error" if asserted else ""
        block = ["try:", f"    {call}", f"except {builtin}{binding}:"]
        block += [f"    {line}" for line in asserted or ["pass"]]
        block += ["else:", '    raise AssertionError("accepted")']
    lines.add(laws, above, *block)


def _checks(refusal: Refusal, errors: RefusalErrors, error: str) -> Iterator[str]:
    """What the exception has to be besides the builtin that is caught."""
    if errors != "named":
        return
    name = NAMES.get(refusal.kind)
    if name is not None:
        yield f'"{name}" in kinds({error})'
    for field_name, value in refusal.fields.items():
        yield f"{error}.{field_name} == {value}"
