"""What is simpler than a program of whole requests, beside one with fewer operations.

Each pass simplifies in one respect, and goes from bold to timid. What does not fit any more (a
step whose tokens come late, say) is skipped by the judge, so no pass has to keep a program right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kvref.machine import Program
from kvref.requests.operations import Append, Begin, Extend, RequestOperation
from kvref.requests.promises import RequestPromises

__all__ = ["PASSES", "canonical", "size"]

_Pass = Callable[[Program, RequestPromises], Iterator[Program]]


def size(program: Program) -> tuple[int, ...]:
    """How long and how complicated, the more important first."""
    operations, configuration = program.operations, program.configuration
    values = [token for each in operations for token in _tokens_of(each)]
    begins = [each for each in operations if isinstance(each, Begin)]
    return (
        len(operations),
        configuration.page_size,
        len(values) + sum(abs(each.count) for each in operations if isinstance(each, Extend)),
        len(_namespaces(program)),
        sum(each.namespace is not None for each in begins),
        sum(each.carried != "int64" for each in begins),
        sum(each.max_tokens is not None for each in begins),
        sum(abs(each.max_tokens or 0) for each in begins),
        int(not configuration.checked) + int(configuration.policy != "lru"),
        int(configuration.dtype != "float32") + int(configuration.layout != "LayerFirst"),
        configuration.layers * configuration.kv_heads,
        configuration.max_requests,
        int(configuration.max_len is not None),
        configuration.num_pages,
        configuration.head_dim,
        len(set(values)),
        sum(2 * abs(token) + (token < 0) for token in values),
        sum(abs(token - number) for number, token in enumerate(_distinct(program))),
        *(ord(space[:1] or "z") for space in _namespaces(program)),
    )


def canonical(program: Program) -> Program:
    """Tokens and namespaces numbered in the order in which they occur."""
    names = {token: number for number, token in enumerate(_distinct(program))}
    spaces = {space: chr(ord("a") + n) for n, space in enumerate(_namespaces(program))}
    return _mapped(program, token=names.__getitem__, space=spaces.__getitem__)


# ------------------------------------------------------------------------------------ passes


def _smaller(candidates: _Pass) -> _Pass:
    """Only those that are simpler: so that taking one after the other ends."""

    def those(program: Program, promises: RequestPromises) -> Iterator[Program]:
        before = size(program)
        for candidate in candidates(program, promises):
            if size(candidate) < before:
                yield candidate

    return those


def _configuration(program: Program, promises: RequestPromises) -> Iterator[Program]:
    """Smaller pages, the usual dtype and layout, one layer and head, a smaller pool."""
    configuration = program.configuration
    for to in sorted({1, 2, configuration.page_size - 1}):
        allowed = promises.page_sizes is None or to in promises.page_sizes
        if 0 < to < configuration.page_size and allowed:
            yield _paged(program, to)
            yield _with(program, page_size=to)
    if "lru" in promises.policies:
        yield _with(program, policy="lru")
    if promises.checked_inserts:
        yield _with(program, checked=True)
    yield _with(program, dtype="float32", layout="LayerFirst", layers=1, kv_heads=1, head_dim=8)
    for changed in (
        {"dtype": "float32"}, {"layout": "LayerFirst"}, {"layers": 1}, {"kv_heads": 1},
        {"head_dim": 8}, {"max_len": None},
    ):  # fmt: skip
        yield _with(program, **changed)
    for name in ("num_pages", "max_requests"):
        now = getattr(configuration, name)
        for less in sorted({1, 2, 3, now // 2, now - 2, now - 1}):
            if 0 < less < now:
                yield _with(program, **{name: less})


def _alike(program: Program, promises: RequestPromises) -> Iterator[Program]:
    """No namespaces, or fewer; tokens carried as int64; whole prompts at once; fewer tokens."""
    yield _mapped(program, space=lambda space: None)
    spaces = _namespaces(program)
    for space in spaces:
        for instead in (None, *spaces):
            renamed: dict[str, str | None] = {each: each for each in spaces}
            yield _mapped(program, space=renamed | {space: instead})
    yield _begins(program, carried="int64")
    yield _begins(program, max_tokens=None)
    yield canonical(program)
    distinct = _distinct(program)
    for token in reversed(distinct):
        for other in distinct[:4]:
            yield _mapped(program, token={each: each for each in distinct} | {token: other})


def _single(program: Program, promises: RequestPromises) -> Iterator[Program]:
    """One operation at a time: fewer tokens, fewer slots, no namespace."""
    for index, operation in enumerate(program.operations):
        for other in _simpler(operation, program.configuration.page_size):
            operations = list(program.operations)
            operations[index] = other
            yield Program(tuple(operations), program.configuration)


def _simpler(operation: RequestOperation, page_size: int) -> Iterator[RequestOperation]:
    replace = msgspec.structs.replace
    if isinstance(operation, Begin):
        for tokens in _shorter(operation.tokens, page_size):
            yield replace(operation, tokens=tokens)
        yield replace(operation, namespace=None)
        yield replace(operation, max_tokens=None)
        yield replace(operation, max_tokens=1)
        yield replace(operation, carried="int64")
    elif isinstance(operation, Extend):
        for count in sorted({1, operation.count // 2, operation.count - 1}):
            if 0 < count < operation.count:
                dropped = operation.count - count
                kept = max(0, len(operation.ahead) - dropped)
                yield replace(operation, count=count, ahead=operation.ahead[:kept])
    elif isinstance(operation, Append):
        for tokens in _shorter(operation.tokens, page_size):
            if tokens:
                yield replace(operation, tokens=tokens)


def _shorter(tokens: tuple[int, ...], page_size: int) -> Iterator[tuple[int, ...]]:
    """The half, a page less, a token less; and each token or page left out."""
    yield tokens[: len(tokens) // 2]
    for length in (page_size, 1):
        for start in range(len(tokens) - length, -1, -1):
            yield tokens[:start] + tokens[start + length :]


PASSES: tuple[_Pass, ...] = tuple(map(_smaller, (_configuration, _alike, _single)))
"""In this order."""


# ------------------------------------------------------------------------------------- parts


def _tokens_of(operation: RequestOperation) -> tuple[int, ...]:
    if isinstance(operation, Begin | Append):
        return operation.tokens
    return operation.ahead if isinstance(operation, Extend) else ()


def _distinct(program: Program) -> list[int]:
    """Each token once, in the order in which they occur."""
    return list(dict.fromkeys(t for each in program.operations for t in _tokens_of(each)))


def _namespaces(program: Program) -> list[str]:
    spaces = (each.namespace for each in program.operations if isinstance(each, Begin))
    return list(dict.fromkeys(space for space in spaces if space is not None))


def _with(program: Program, **changed: Any) -> Program:
    configuration = msgspec.structs.replace(program.configuration, **changed)
    return Program(program.operations, configuration)


def _begins(program: Program, **changed: Any) -> Program:
    operations = tuple(
        msgspec.structs.replace(each, **changed) if isinstance(each, Begin) else each
        for each in program.operations
    )
    return Program(operations, program.configuration)


def _mapped(
    program: Program,
    *,
    token: Callable[[int], int] | dict[int, int] | None = None,
    space: Callable[[str], str | None] | dict[str, str | None] | None = None,
) -> Program:
    """Every token, or every namespace, replaced."""
    of_token = token.__getitem__ if isinstance(token, dict) else token
    of_space = space.__getitem__ if isinstance(space, dict) else space
    operations = []
    for operation in program.operations:
        changed: dict[str, Any] = {}
        if of_token is not None and isinstance(operation, Begin | Append):
            changed["tokens"] = tuple(map(of_token, operation.tokens))
        if of_token is not None and isinstance(operation, Extend):
            changed["ahead"] = tuple(map(of_token, operation.ahead))
        if of_space is not None and isinstance(operation, Begin) and operation.namespace:
            changed["namespace"] = of_space(operation.namespace)
        operations.append(msgspec.structs.replace(operation, **changed) if changed else operation)
    return Program(tuple(operations), program.configuration)


def _paged(program: Program, to: int) -> Program:
    """Of each page only the first tokens, on pages of fewer slots."""
    old = program.configuration.page_size

    def fewer(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(value for place, value in enumerate(values) if place % old < to)

    operations = []
    for operation in program.operations:
        if isinstance(operation, Begin):
            changed: dict[str, Any] = {"tokens": fewer(operation.tokens)}
        elif isinstance(operation, Extend):
            count = max(1, operation.count * to // old)
            changed = {"count": count, "ahead": operation.ahead[:count]}
        else:
            changed = {}
        operations.append(msgspec.structs.replace(operation, **changed) if changed else operation)
    return _with(Program(tuple(operations), program.configuration), page_size=to)
