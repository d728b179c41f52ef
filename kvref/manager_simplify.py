"""What is simpler than a program on a bare manager, beside one with fewer operations.

Each pass simplifies in one respect, and goes from bold to timid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from kvref.configuration import Configuration
from kvref.machine import Program
from kvref.manager_parts import (
    canonical,
    mapped,
    namespaces,
    pages,
    pages_numbered,
    pages_renamed,
    size,
    tokens,
    weight,
)
from kvref.operations import Evict, Insert, Lock, Match, Operation, Unlock
from kvref.promises import Promises

__all__ = ["PASSES"]

Pass = Callable[[Program, Promises], Iterator[Program]]


def _smaller(candidates: Pass) -> Pass:
    """Only those that are simpler: so that taking one after the other ends."""

    def those(program: Program, promises: Promises) -> Iterator[Program]:
        before = size(program)
        for candidate in candidates(program, promises):
            if size(candidate) < before:
                yield candidate

    return those


# --------------------------------------------------------------------------- the configuration


def _configuration(program: Program, promises: Promises) -> Iterator[Program]:
    """Smaller pages, the usual policy, checked, a smaller pool."""
    configuration: Configuration = program.configuration
    allowed = promises.page_sizes
    for page_size in sorted({1, 2, configuration.page_size - 1}):
        if 0 < page_size < configuration.page_size and (allowed is None or page_size in allowed):
            yield _page_size_changed(program, page_size, first=True)
            yield _page_size_changed(program, page_size, first=False)
    if "lru" in promises.policies:
        yield _with(program, policy="lru")
    if promises.checked_inserts:
        yield _with(program, checked=True)
    used = [page for page in pages(program) if 0 <= page < configuration.num_pages]
    yield _pool_changed(program, max(used, default=0) + 1)
    for less in _less(configuration.num_pages - 1):
        yield _pool_changed(program, less + 1)


def _page_size_changed(program: Program, to: int, *, first: bool) -> Program:
    """Of each page only the first (or the last) tokens, on pages of fewer slots."""
    old = program.configuration.page_size

    def of_tokens(values: tuple[int, ...]) -> tuple[int, ...]:
        found: list[int] = []
        for start in range(0, len(values), old):
            page = values[start : start + old]
            # A part page must not become a whole one.
            kept = to if len(page) == old else min(len(page), to - 1)
            found += page[:kept] if first else page[len(page) - kept :]
        return tuple(found)

    def of_slots(values: tuple[int, ...]) -> tuple[int, ...]:
        found: list[int] = []
        for start in range(0, len(values), old):
            page = values[start : start + old]
            kept = to if len(page) == old else min(len(page), to - 1)
            found += (slot // old * to + min(slot % old, to - 1) for slot in page[:kept])
        return tuple(found)

    def change(operation: Operation) -> Operation:
        if isinstance(operation, Insert):
            return msgspec.structs.replace(
                operation, tokens=of_tokens(operation.tokens), slots=of_slots(operation.slots)
            )
        if isinstance(operation, Match):
            return msgspec.structs.replace(operation, tokens=of_tokens(operation.tokens))
        if isinstance(operation, Evict) and type(operation.size) is int:
            return Evict(-(-operation.size * to // old))
        return operation

    configuration = msgspec.structs.replace(program.configuration, page_size=to)
    return Program(tuple(map(change, program.operations)), configuration)


def _pool_changed(program: Program, to: int) -> Program:
    """Fewer pages; slots past the end stay past the end."""
    old = program.configuration.num_pages
    names = {page: page - old + to for page in pages(program) if page >= old}
    return _with(pages_renamed(program, names), num_pages=to)


def _with(program: Program, **changed: Any) -> Program:
    configuration = msgspec.structs.replace(program.configuration, **changed)
    return Program(program.operations, configuration)


# ------------------------------------------------------------------------------ all alike


def _spaces(program: Program, promises: Promises) -> Iterator[Program]:
    """No namespaces, or fewer; tokens carried as int64."""
    known = namespaces(program)
    yield mapped(program, carried="int64")
    yield mapped(program, space=lambda _: None)
    for old in known:
        for new in (None, *known):
            yield mapped(program, space=partial(_to, old, new))
        yield _told_apart(program, old)
    for index, operation in enumerate(program.operations):
        if isinstance(operation, Match | Insert):
            yield _replaced(program, index, namespace=None)
            yield _replaced(program, index, carried="int64")


def _told_apart(program: Program, namespace: str) -> Program:
    """Without this namespace: what is in it begins with a token of its own instead."""
    fresh = next(token for token in range(len(tokens(program)) + 1) if token not in tokens(program))
    operations = tuple(
        msgspec.structs.replace(
            each, namespace=None, tokens=tuple(fresh for _ in each.tokens[:1]) + each.tokens[1:]
        )
        if isinstance(each, Match | Insert) and each.namespace == namespace
        else each
        for each in program.operations
    )
    return Program(operations, program.configuration)


def _names(program: Program, promises: Promises) -> Iterator[Program]:
    """Tokens, pages and namespaces numbered as they occur."""
    yield canonical(program)
    yield pages_numbered(program)


def _tokens(program: Program, promises: Promises) -> Iterator[Program]:
    """Fewer distinct tokens, then smaller ones: a token everywhere."""
    known = sorted(tokens(program), key=weight)
    for old in reversed(known):
        for new in (*known, *_simpler_values(old)):
            if weight(new) < weight(old):
                yield mapped(program, token=partial(_to, old, new))


def _simpler_values(token: int) -> Iterator[int]:
    """Values that are simpler and still like the token in some way: its sign, its halves."""
    if token < 0:
        yield min(-token, 2**63 - 1)
    yield token & 0xFFFF_FFFF
    yield token >> 32 << 32
    if token:
        yield min(1 << (abs(token).bit_length() - 1), 2**62)
    yield from _less(min(abs(token), 2**63 - 1))


def _pages(program: Program, promises: Promises) -> Iterator[Program]:
    """Smaller pages of slots: a page everywhere."""
    used = set(pages(program))
    for page in sorted(used, reverse=True):
        for free in range(min(page, len(used) + 1)):
            if free not in used:
                yield pages_renamed(program, {page: free})
                break


def _less(value: int) -> Iterator[int]:
    """From 0 up to one less, in steps that halve: where the least is found in logarithmic time."""
    step = value
    while step:
        yield value - step
        step //= 2


def _to(old: Any, new: Any, value: Any) -> Any:
    return new if value == old else value


# -------------------------------------------------------------------------- single operations


def _sequences(program: Program, promises: Promises) -> Iterator[Program]:
    """Shorter sequences: parts of one left out, and then of all alike."""
    step = program.configuration.page_size
    for index, operation in enumerate(program.operations):
        if isinstance(operation, Match | Insert):
            for start, length in _cuts(len(operation.tokens), step):
                yield _cut(program, {index}, start, length)
    longest = max(
        (len(each.tokens) for each in program.operations if isinstance(each, Match | Insert)),
        default=0,
    )
    for start in range(0, longest, step):
        yield _cut(program, range(len(program.operations)), start, step)


def _cuts(length: int, page_size: int) -> Iterator[tuple[int, int]]:
    """What to leave out of a sequence: the whole, halves, and so on down to single tokens."""
    chunk = length
    while chunk >= 1:
        aligned = chunk - chunk % page_size or chunk
        for start in range(length - aligned, -1, -aligned):
            yield start, aligned
        chunk //= 2


def _cut(program: Program, which: Any, start: int, length: int) -> Program:
    operations = list(program.operations)
    for index in which:
        operation = operations[index]
        changed = {
            field: values[:start] + values[start + length :]
            for field in ("tokens", "slots")
            if (values := getattr(operation, field, None)) is not None
        }
        operations[index] = msgspec.structs.replace(operation, **changed)
    return Program(tuple(operations), program.configuration)


def _handles(program: Program, promises: Promises) -> Iterator[Program]:
    """Handles of earlier matches: the later match may then be superfluous."""
    for index, operation in enumerate(program.operations):
        if isinstance(operation, Lock | Unlock) and isinstance(operation.handle, int):
            for earlier in range(min(index, operation.handle)):
                if isinstance(program.operations[earlier], Match):
                    yield _replaced(program, index, handle=earlier)


def _amounts(program: Program, promises: Promises) -> Iterator[Program]:
    """Smaller evictions."""
    for index, operation in enumerate(program.operations):
        if isinstance(operation, Evict) and type(operation.size) is int:
            for less in _less(abs(operation.size)):
                yield _replaced(program, index, size=less)


def _together(program: Program, promises: Promises) -> Iterator[Program]:
    """What goes only together: an eviction of less with an insert of less, two evictions in one."""
    step = program.configuration.page_size
    for at, evict in enumerate(program.operations):
        if not isinstance(evict, Evict) or type(evict.size) is not int:
            continue
        for index, operation in enumerate(program.operations[:at]):
            if isinstance(operation, Insert):
                whole = len(operation.tokens) // step * step
                for less in range(min(whole, evict.size) // step * step, 0, -step):
                    smaller = _replaced(program, at, size=evict.size - less)
                    yield _without(smaller, index)
                    yield _cut(smaller, {index}, whole - less, less)
            elif isinstance(operation, Evict) and type(operation.size) is int:
                yield _without(_replaced(program, at, size=evict.size + operation.size), index)


def _without(program: Program, index: int) -> Program:
    """Without an operation that no other names."""
    operations = [
        msgspec.structs.replace(each, handle=each.handle - 1)
        if isinstance(each, Lock | Unlock) and isinstance(each.handle, int) and each.handle > index
        else each
        for each in program.operations
    ]
    del operations[index]
    return Program(tuple(operations), program.configuration)


def _places(program: Program, promises: Promises) -> Iterator[Program]:
    """One token, or the slots of one page, replaced by simpler ones at one place alone."""
    step = program.configuration.page_size
    known = sorted({*tokens(program), 0, 1}, key=weight)
    used = len(pages(program))
    for index, operation in enumerate(program.operations):
        if isinstance(operation, Match | Insert):
            values = operation.tokens
            for at, old in enumerate(values):
                for new in known:
                    if weight(new) < weight(old):
                        changed = (*values[:at], new, *values[at + 1 :])
                        yield _replaced(program, index, tokens=changed)
        if isinstance(operation, Insert):
            slots = operation.slots
            for start in range(0, len(slots), step):
                page = slots[start : start + step]
                for number in range(min(used + 1, max(page) // step)):
                    new_page = range(number * step, number * step + len(page))
                    changed = (*slots[:start], *new_page, *slots[start + step :])
                    yield _replaced(program, index, slots=changed)


def _replaced(program: Program, index: int, **changed: Any) -> Program:
    operations = list(program.operations)
    operations[index] = msgspec.structs.replace(operations[index], **changed)
    return Program(tuple(operations), program.configuration)


PASSES: tuple[Pass, ...] = (
    _smaller(_configuration),
    _smaller(_spaces),
    _smaller(_sequences),
    _smaller(_handles),
    _smaller(_amounts),
    _smaller(_together),
    _smaller(_names),
    _smaller(_tokens),
    _smaller(_pages),
    _smaller(_places),
)
