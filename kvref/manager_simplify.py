"""What is simpler than a program on a bare manager, beside one with fewer operations.

The boldest simplifications come first: they change all operations alike (a token everywhere, a
page everywhere, the configuration). Then come those of one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kvref.configuration import Configuration
from kvref.machine import Program
from kvref.operations import Evict, Insert, Lock, Match, Operation, Unlock
from kvref.promises import Promises

__all__ = ["canonical", "simpler", "size"]

_T = TypeVar("_T")


def canonical(program: Program) -> Program:
    """Tokens, pages and namespaces numbered in the order in which they occur."""
    tokens = {token: number for number, token in enumerate(_tokens(program))}
    spaces = {space: chr(ord("a") + number % 26) for number, space in enumerate(_spaces(program))}
    return _pages_renamed(
        _mapped(program, token=lambda token: tokens[token], space=lambda space: spaces[space]),
        _numbered(_pages(program)),
    )


def size(program: Program) -> tuple[Any, ...]:
    """The more important first: operations, tokens, what is rare, and then values."""
    operations, configuration = program.operations, program.configuration
    sequences = [each.tokens for each in operations if isinstance(each, Match | Insert)]
    slots = [each.slots for each in operations if isinstance(each, Insert)]
    evicts = [each.size for each in operations if isinstance(each, Evict)]
    return (
        len(operations),
        configuration.page_size,
        sum(map(len, sequences)) + sum(map(len, slots)),
        len(set(_spaces(program))),
        sum(getattr(each, "carried", "int64") != "int64" for each in operations),
        sum(getattr(each, "namespace", None) is not None for each in operations),
        len(_tokens(program)),
        (not configuration.checked) + (configuration.policy != "lru"),
        sum(_weight(token) for tokens in sequences for token in tokens),
        sum(_weight(place) for places in slots for place in places),
        sum(_weight(int(amount or 0)) for amount in evicts),
        configuration.num_pages,
        sum(_handles(operations)),
    )


def simpler(program: Program, promises: Promises) -> Iterator[Program]:
    """Each has a smaller `size` than the program."""
    before = size(program)
    for candidate in _candidates(program, promises):
        if size(candidate) < before:
            yield candidate


def _candidates(program: Program, promises: Promises) -> Iterator[Program]:
    yield canonical(program)
    yield from _configurations(program, promises)
    yield from _of_all(program)
    for index, operation in enumerate(program.operations):
        for other in _of_one(index, operation, program):
            operations = list(program.operations)
            operations[index] = other
            yield Program(tuple(operations), program.configuration)
    yield from _shorter_everywhere(program)


# --------------------------------------------------------------------------- the configuration


def _configurations(program: Program, promises: Promises) -> Iterator[Program]:
    configuration: Configuration = program.configuration
    allowed = promises.page_sizes
    for page_size in sorted({1, 2, configuration.page_size - 1}):
        if page_size < configuration.page_size and (allowed is None or page_size in allowed):
            yield _page_size_changed(program, page_size, first=True)
            yield _page_size_changed(program, page_size, first=False)
    if configuration.policy != "lru" and "lru" in promises.policies:
        yield _with(program, policy="lru")
    if not configuration.checked and promises.checked_inserts:
        yield _with(program, checked=True)
    used = [page for page in _pages(program) if 0 <= page < configuration.num_pages]
    least = max(used, default=0) + 1
    yield _pool_changed(program, least)
    for less in _less(configuration.num_pages - 1):
        yield _pool_changed(program, less + 1)


def _page_size_changed(program: Program, to: int, *, first: bool) -> Program:
    """Of each page only the first (or the last) tokens, on pages of fewer slots."""
    old = program.configuration.page_size

    def pages(values: tuple[int, ...], slot: bool) -> tuple[int, ...]:
        found: list[int] = []
        for start in range(0, len(values), old):
            page = values[start : start + old]
            if slot:
                kept = tuple(each // old * to + min(each % old, to - 1) for each in page[:to])
            else:
                kept = page[:to] if first else page[-to:]
            # A part page must not become a whole one.
            found += kept if len(page) == old else kept[: to - 1]
        return tuple(found)

    def change(operation: Operation) -> Operation:
        match operation:
            case Match(tokens):
                return msgspec.structs.replace(operation, tokens=pages(tokens, False))
            case Insert(tokens, slots):
                return msgspec.structs.replace(
                    operation, tokens=pages(tokens, False), slots=pages(slots, True)
                )
            case Evict(amount) if type(amount) is int:
                return Evict(-(-amount * to // old))
            case _:
                return operation

    configuration = msgspec.structs.replace(program.configuration, page_size=to)
    return Program(tuple(map(change, program.operations)), configuration)


def _pool_changed(program: Program, to: int) -> Program:
    """Fewer pages; slots past the end stay past the end."""
    old = program.configuration.num_pages
    pages = {page: page - old + to for page in _pages(program) if page >= old}
    return _with(_pages_renamed(program, pages), num_pages=to)


def _with(program: Program, **changed: Any) -> Program:
    configuration = msgspec.structs.replace(program.configuration, **changed)
    return Program(program.operations, configuration)


# ----------------------------------------------------------------------- all operations alike


def _of_all(program: Program) -> Iterator[Program]:
    tokens, spaces, pages = _tokens(program), _spaces(program), _pages(program)
    if spaces:
        yield _mapped(program, space=lambda _: None)
        for space in spaces:
            yield _mapped(program, space=_to(space, None))
            for other in spaces:
                yield _mapped(program, space=_to(space, other))
    yield _mapped(program, carried="int64")
    for token in sorted(tokens, key=_weight, reverse=True):
        for simple in (*sorted(tokens, key=_weight), *_smaller(token)):
            yield _mapped(program, token=_to(token, simple))
    used = set(pages)
    for page in sorted(used, reverse=True):
        free = next((each for each in range(len(used) + 1) if each not in used), page)
        if page not in range(free + 1):
            yield _pages_renamed(program, {page: free})


def _smaller(token: int) -> Iterator[int]:
    """Values that are simpler and still like the token in some way: its sign, its halves."""
    if token < 0:
        yield min(-token, 2**63 - 1)
    yield token & 0xFFFF_FFFF
    yield token >> 32 << 32
    if token:
        yield 1 << (abs(token).bit_length() - 1)
    yield from _less(abs(token))


def _less(value: int) -> Iterator[int]:
    """From 0 up to one less, in steps that halve: where the least is found in logarithmic time."""
    step = value
    while step:
        yield value - step
        step //= 2


def _shorter_everywhere(program: Program) -> Iterator[Program]:
    """The same page of every sequence left out, where no single one can be."""
    step = program.configuration.page_size
    longest = max(
        (len(each.tokens) for each in program.operations if isinstance(each, Match | Insert)),
        default=0,
    )
    for start in range(0, longest, step):
        operations = tuple(
            _cut(each, start, step) if isinstance(each, Match | Insert) else each
            for each in program.operations
        )
        yield Program(operations, program.configuration)


# ------------------------------------------------------------------------------ one operation


def _of_one(index: int, operation: Operation, program: Program) -> Iterator[Operation]:
    match operation:
        case Match(tokens, namespace, carried) | Insert(tokens, _, namespace, carried):
            for start, length in _cuts(len(tokens), program.configuration.page_size):
                yield _cut(operation, start, length)
            if namespace is not None:
                yield msgspec.structs.replace(operation, namespace=None)
            if carried != "int64":
                yield msgspec.structs.replace(operation, carried="int64")
            known = sorted({*_tokens(program), 0, 1}, key=_weight)
            for at, token in enumerate(tokens):
                for simple in known:
                    if _weight(simple) < _weight(token):
                        changed = (*tokens[:at], simple, *tokens[at + 1 :])
                        yield msgspec.structs.replace(operation, tokens=changed)
            if isinstance(operation, Insert):
                yield from _of_slots(operation, program)
        case Evict(amount) if type(amount) is int:
            yield from map(Evict, _less(abs(amount)))
        case Lock(handle) | Unlock(handle) if isinstance(handle, int):
            for earlier in range(min(index, handle)):
                if isinstance(program.operations[earlier], Match):
                    yield msgspec.structs.replace(operation, handle=earlier)
        case _:
            pass


def _of_slots(insert: Insert, program: Program) -> Iterator[Insert]:
    """One page of the slots replaced by a smaller one, or by one past the end of the pool."""
    step, slots = program.configuration.page_size, insert.slots
    for start in range(0, len(slots), step):
        page = slots[start : start + step]
        for number in range(min(len(_pages(program)) + 1, max(page) // step)):
            new = tuple(range(number * step, number * step + len(page)))
            changed = (*slots[:start], *new, *slots[start + step :])
            yield msgspec.structs.replace(insert, slots=changed)


def _cuts(length: int, page_size: int) -> Iterator[tuple[int, int]]:
    """What to leave out of a sequence: the whole, halves, and so on down to single tokens."""
    chunk = length
    while chunk >= 1:
        aligned = chunk - chunk % page_size or chunk
        for start in range(length - aligned, -1, -aligned):
            yield start, aligned
        chunk //= 2
    if length % page_size:
        yield length - length % page_size, page_size


def _cut(operation: _T, start: int, length: int) -> _T:
    changed: dict[str, Any] = {}
    for field in ("tokens", "slots"):
        values = getattr(operation, field, None)
        if values is not None:
            changed[field] = values[:start] + values[start + length :]
    found: _T = msgspec.structs.replace(operation, **changed)  # type: ignore[type-var]
    return found


# --------------------------------------------------------------------------------- the parts


def _tokens(program: Program) -> list[int]:
    """Each token once, in the order in which they occur."""
    sequences = (each.tokens for each in program.operations if isinstance(each, Match | Insert))
    return list(dict.fromkeys(token for tokens in sequences for token in tokens))


def _spaces(program: Program) -> list[str]:
    spaces = (getattr(each, "namespace", None) for each in program.operations)
    return list(dict.fromkeys(space for space in spaces if space is not None))


def _pages(program: Program) -> list[int]:
    """The page of each slot once, in the order in which they occur."""
    step = program.configuration.page_size
    slots = (each.slots for each in program.operations if isinstance(each, Insert))
    return list(dict.fromkeys(slot // step for places in slots for slot in places))


def _handles(operations: tuple[Operation, ...]) -> Iterator[int]:
    for operation in operations:
        if isinstance(operation, Lock | Unlock) and isinstance(operation.handle, int):
            yield operation.handle


@dataclass(frozen=True)
class _To:
    """Maps one value to another and leaves all else."""

    old: Any
    new: Any

    def __call__(self, value: Any) -> Any:
        return self.new if value == self.old else value


_to = _To


def _mapped(
    program: Program,
    *,
    token: Callable[[int], int] | None = None,
    space: Callable[[str], str | None] | None = None,
    carried: str | None = None,
) -> Program:
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


def _pages_renamed(program: Program, pages: dict[int, int]) -> Program:
    step: int = program.configuration.page_size

    def renamed(slot: int) -> int:
        page = slot // step
        return pages.get(page, page) * step + slot % step

    return Program(
        tuple(
            msgspec.structs.replace(each, slots=tuple(map(renamed, each.slots)))
            if isinstance(each, Insert)
            else each
            for each in program.operations
        ),
        program.configuration,
    )


def _numbered(pages: list[int]) -> dict[int, int]:
    """Pages that are no number of a page (before the pool's begin) keep theirs."""
    return {page: number for number, page in enumerate(page for page in pages if page >= 0)}


def _weight(value: int) -> int:
    """What makes a value complicated: its size, and its sign."""
    return 2 * abs(value) + int(value < 0)
