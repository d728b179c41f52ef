"""Makes a program right again that something was left out of.

A caller chooses the slots of an insert by what the cache holds. When operations before it are
gone, the cache holds something else, and an insert that was right is refused. In a long run that
ties every operation to most others, and nothing could be left out alone. So slots are chosen anew
where they do not fit any more, as the caller would have done, and evictions cut to what there is.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from kvref.machine import Program
from kvref.operations import Evict, Insert, Lock, Match, Operation, Unlock
from kvref.oracle import Handle, Oracle
from kvref.promises import Promises
from kvref.refusals import Refused

__all__ = ["partners", "repaired", "untangled"]


def repaired(program: Program, promises: Promises) -> Program:
    """The program with slots that its caller could have given; all else is as it was."""
    if not promises.keeps_prefixes:
        return program
    oracle = _oracle(program, promises)
    handles: dict[object, Handle] = {}
    operations: list[Operation] = []
    for index, old in enumerate(program.operations):
        operation = old
        if isinstance(old, Insert) and len(old.tokens) == len(old.slots):
            operation = _insert(oracle, old)
        elif isinstance(old, Evict) and type(old.size) is int and old.size <= oracle.num_slots:
            operation = Evict(min(old.size, oracle.evictable_size))
        operations.append(operation)
        with contextlib.suppress(Refused):
            _apply(oracle, handles, index, operation)
    return Program(tuple(operations), program.configuration)


def untangled(program: Program, promises: Promises) -> Program:
    """Each unlock names the match that its lock named: equal handles are interchangeable.

    If it names another one, the two are no longer equal when something was left out.
    """
    if not promises.keeps_prefixes:
        return program
    oracle = _oracle(program, promises)
    handles: dict[object, Handle] = {}
    held: dict[Handle, list[int]] = {}
    operations = list(program.operations)
    for index, operation in enumerate(program.operations):
        with contextlib.suppress(Refused):
            _apply(oracle, handles, index, operation)
            if isinstance(operation, Lock) and isinstance(operation.handle, int):
                held.setdefault(handles[operation.handle], []).append(operation.handle)
            elif isinstance(operation, Unlock) and held.get(handles[operation.handle]):
                operations[index] = Unlock(held[handles[operation.handle]].pop())
    return Program(tuple(operations), program.configuration)


def partners(program: Program) -> dict[int, int]:
    """Each lock with an unlock of the same handle after it, and the other way round."""
    held: dict[object, list[int]] = {}
    found: dict[int, int] = {}
    for index, operation in enumerate(program.operations):
        if isinstance(operation, Lock):
            held.setdefault(operation.handle, []).append(index)
        elif isinstance(operation, Unlock) and held.get(operation.handle):
            lock = held[operation.handle].pop()
            found[lock], found[index] = index, lock
    return found


def _oracle(program: Program, promises: Promises) -> Oracle:
    """Checked whatever the program's manager is: a wrong insert would damage it."""
    configuration = msgspec.structs.replace(program.configuration, checked=True)
    return Oracle(configuration, granularity=promises.granularity)


def _insert(oracle: Oracle, insert: Insert) -> Insert:
    """Own pages where they are cached, the caller's where they are free, and else free ones."""
    step, held = oracle.page_size, oracle.held
    own = oracle.cached_slots(insert.tokens, insert.namespace)
    slots = list(insert.slots)
    taken = {slot // step * step for slot in slots}
    changed = False
    for start in range(0, len(slots), step):
        first = slots[start] // step * step
        mine = own[start : start + step]
        if first not in held or mine[:1] == [slots[start]]:
            continue
        if not mine:
            free = (page for page in range(0, oracle.num_slots, step) if page not in held)
            new = next((page for page in free if page not in taken), None)
            if new is None:
                return insert
            taken.add(new)
            mine = list(range(new, new + step))
        slots[start : start + step] = mine[: len(slots) - start]
        changed = True
    return msgspec.structs.replace(insert, slots=tuple(slots)) if changed else insert


def _apply(oracle: Oracle, handles: dict[object, Handle], index: int, operation: Any) -> None:
    if isinstance(operation, Match):
        handles[index] = oracle.match_prefix(operation.tokens, operation.namespace)[0]
    elif isinstance(operation, Insert):
        oracle.insert_prefix(operation.tokens, operation.slots, operation.namespace)
    elif isinstance(operation, Lock | Unlock):
        # What is no match's handle is refused; which refusal it is does not matter here.
        handle = handles.get(operation.handle)
        oracle.lock_handle(handle, unlock=isinstance(operation, Unlock))
    elif isinstance(operation, Evict):
        oracle.evict(operation.size)
    else:
        oracle.reset()
