"""What programs on a bare manager are made of: their tokens, pages and namespaces, and its size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kvref.machine import Program
from kvref.operations import Evict, Insert, Lock, Match, Unlock

__all__ = [
    "canonical",
    "mapped",
    "namespaces",
    "pages",
    "pages_numbered",
    "pages_renamed",
    "size",
    "tokens",
]


def tokens(program: Program) -> list[int]:
    """Each token once, in the order in which they occur."""
    sequences = (each.tokens for each in program.operations if isinstance(each, Match | Insert))
    return list(dict.fromkeys(token for sequence in sequences for token in sequence))


def namespaces(program: Program) -> list[str]:
    """Each namespace once, in the order in which they occur."""
    spaces = (getattr(each, "namespace", None) for each in program.operations)
    return list(dict.fromkeys(space for space in spaces if space is not None))


def pages(program: Program) -> list[int]:
    """The page of each slot once, in the order in which they occur."""
    step = program.configuration.page_size
    slots = (each.slots for each in program.operations if isinstance(each, Insert))
    return list(dict.fromkeys(slot // step for places in slots for slot in places))


def mapped(
    program: Program,
    *,
    token: Callable[[int], int] | None = None,
    space: Callable[[str], str | None] | None = None,
    carried: str | None = None,
) -> Program:
    """Every token, or every namespace, replaced; or all tokens carried in one way."""
    operations = []
    for operation in program.operations:
        changed: dict[str, Any] = {}
        if isinstance(operation, Match | Insert):
            if token is not None:
                changed["tokens"] = tuple(map(token, operation.tokens))
            if space is not None and operation.namespace is not None:
                changed["namespace"] = space(operation.namespace)
            if carried is not None:
                changed["carried"] = carried
        operations.append(msgspec.structs.replace(operation, **changed) if changed else operation)
    return Program(tuple(operations), program.configuration)


def pages_renamed(program: Program, names: dict[int, int]) -> Program:
    """Every slot moved to another page, where its own has another name."""
    step: int = program.configuration.page_size

    def renamed(slot: int) -> int:
        page = slot // step
        return names.get(page, page) * step + slot % step

    operations = tuple(
        msgspec.structs.replace(each, slots=tuple(map(renamed, each.slots)))
        if isinstance(each, Insert)
        else each
        for each in program.operations
    )
    return Program(operations, program.configuration)


def canonical(program: Program) -> Program:
    """Tokens, pages and namespaces numbered in the order in which they occur.

    Slots past the end of the pool stay past its end, and those before its begin as they are.
    """
    token = {token: number for number, token in enumerate(tokens(program))}
    space = {space: chr(ord("a") + number) for number, space in enumerate(namespaces(program))}
    renamed = mapped(program, token=token.__getitem__, space=space.__getitem__)
    return pages_numbered(renamed)


def pages_numbered(program: Program) -> Program:
    """Pages alone numbered in the order in which they occur."""
    total = program.configuration.num_pages
    page: dict[int, int] = {}
    for inside in (True, False):
        found = [each for each in pages(program) if each >= 0 and (each < total) == inside]
        page |= {each: number for number, each in enumerate(found, 0 if inside else total)}
    return pages_renamed(program, page)


def size(program: Program) -> tuple[int, ...]:
    """How long and how complicated, the more important first."""
    operations, configuration = program.operations, program.configuration
    sequences = [each.tokens for each in operations if isinstance(each, Match | Insert)]
    places = [each.slots for each in operations if isinstance(each, Insert)]
    return (
        len(operations),
        configuration.page_size,
        sum(map(len, sequences)) + sum(map(len, places)),
        len(namespaces(program)),
        sum(getattr(each, "namespace", None) is not None for each in operations),
        sum(getattr(each, "carried", "int64") != "int64" for each in operations),
        int(not configuration.checked) + int(configuration.policy != "lru"),
        len(tokens(program)),
        sum(weight(token) for sequence in sequences for token in sequence),
        sum(weight(slot) for slots in places for slot in slots),
        sum(weight(int(each.size or 0)) for each in operations if isinstance(each, Evict)),
        configuration.num_pages,
        sum(_handles(program)),
        # Names count for little, but of two orders one has to be the simpler.
        sum(abs(page - number) for number, page in enumerate(pages(program))),
        sum(abs(token - number) for number, token in enumerate(tokens(program))),
        *(ord(space[:1] or "z") for space in namespaces(program)),
    )


def weight(value: int) -> int:
    """What makes a value complicated: its size, and then its sign."""
    return 2 * abs(value) + int(value < 0)


def _handles(program: Program) -> Iterator[int]:
    for operation in program.operations:
        if isinstance(operation, Lock | Unlock) and isinstance(operation.handle, int):
            yield operation.handle
