"""A smallest example of each situation of a bare manager, and of all."""

from __future__ import annotations

from collections.abc import Sequence

from kvref.configuration import Configuration, Policy
from kvref.operations import (
    FOREIGN,
    NOT_A_HANDLE,
    Carried,
    Evict,
    Insert,
    Lock,
    Match,
    Operation,
    Reset,
    Unlock,
)
from kvref.situations.request_witnesses import REQUEST_WITNESSES
from kvref.situations.witness import Witness

__all__ = ["WITNESSES"]


def _small(
    *operations: Operation, page_size: int = 1, num_pages: int = 8, policy: Policy = "lru"
) -> Witness:
    return Witness(
        Configuration(page_size=page_size, num_pages=num_pages, policy=policy), operations
    )


def _refuses(*operations: Operation, page_size: int = 1) -> Witness:
    """The last one has to be refused."""
    witness = _small(*operations, page_size=page_size)
    return witness._replace(refused=(len(operations) - 1,))


def _put(
    tokens: Sequence[int], at: int, namespace: str | None = None, carried: Carried = "int64"
) -> Insert:
    """An insert of slots that follow each other."""
    return Insert(tuple(tokens), tuple(range(at, at + len(tokens))), namespace, carried)


def _chain() -> tuple[Operation, ...]:
    """A prefix of two pages, locked (by operation 1)."""
    return _put((0, 1), 0), Match((0, 1)), Lock(1)


_MANAGER: dict[str, Witness] = {
    "match-of-nothing": _small(Match(())),
    "match-of-less-than-a-page": _small(Match((0,)), page_size=2),
    "match-misses": _small(_put((0,), 0), Match((1,))),
    "match-finds-all": _small(_put((0,), 0), Match((0,))),
    "match-finds-the-front": _small(_put((0,), 0), Match((0, 1))),
    "match-ends-inside-a-node": _small(_put((0, 1), 0), Match((0,))),
    "match-leaves-inside-a-node": _small(_put((0, 1), 0), Match((0, 2))),
    "match-leaves-between-nodes": _small(_put((0,), 0), _put((0, 1), 0), Match((0, 2))),
    "match-beyond-a-leaf": _small(_put((0,), 0), Match((0, 1))),
    "match-of-a-locked-prefix": _small(_put((0,), 0), Match((0,)), Lock(1), Match((0,))),
    "page-agrees-in-part": _small(_put((0, 0, 1, 1), 0), Match((0, 0, 1, 2)), page_size=2),
    "tokens-alike-in-low-bits": _small(_put((0, 7), 0), Match((0, 7 + 2**32))),
    "found-in-another-form": _small(_put((0,), 0, None, "int32"), Match((0,))),
    "split-of-a-leaf": _small(_put((0, 1), 0), Match((0,))),
    "split-of-a-parent": _small(_put((0, 1), 0), _put((0, 1, 2), 0), Match((0,))),
    "split-of-a-locked-node": _small(*_chain(), Match((0,))),
    "split-of-a-node-locked-twice": _small(*_chain(), Lock(1), Match((0,))),
    "split-above-a-lock": _small(
        _put((0, 1), 0), _put((0, 1, 2), 0), Match((0, 1, 2)), Lock(2), Match((0,))
    ),
    "split-after-the-first-page": _small(_put((0, 1), 0), Match((0,))),
    "split-before-the-last-page": _small(_put((0, 1), 0), Match((0,))),
    "insert-of-no-page": _small(Insert((), ())),
    "insert-with-part-of-a-page": _small(_put((0,), 0), page_size=2),
    "insert-of-the-new": _small(_put((0,), 0), _put((1,), 1)),
    "insert-that-extends": _small(_put((0,), 0), _put((0, 1), 0)),
    "insert-of-the-cached": _small(_put((0,), 0), _put((0,), 0)),
    "insert-branches-off-inside": _small(_put((0, 1), 0), Insert((0, 2), (0, 2))),
    "insert-ends-inside-a-node": _small(_put((0, 1), 0), _put((0,), 0)),
    "insert-below-a-leaf": _small(_put((0,), 0), _put((0, 1), 0)),
    "insert-beside-children": _small(_put((0,), 0), _put((0, 1), 0), Insert((0, 2), (0, 2))),
    "insert-below-a-lock": _small(_put((0,), 0), Match((0,)), Lock(1), _put((0, 1), 0)),
    "insert-of-own-slots": _small(_put((0,), 0), _put((0,), 0)),
    "insert-of-duplicates": _small(_put((0,), 0), _put((0,), 1)),
    "insert-of-some-duplicates": _small(_put((0, 1), 0), Insert((0, 1), (0, 2))),
    "pool-filled-to-the-last-page": _small(_put((0,), 0), num_pages=1),
    "page-used-again": _small(_put((0,), 0), Evict(1), _put((1,), 0)),
    "page-used-again-for-equal-tokens": _small(_put((0, 1), 0), Evict(1), Insert((1, 1), (0, 1))),
    "page-used-again-is-matched": _small(_put((0,), 0), Evict(1), _put((1,), 0), Match((1,))),
    "insert-of-different-lengths": _refuses(Insert((0,), ())),
    "insert-of-a-held-page": _refuses(_put((0,), 0), _put((1,), 0)),
    "insert-of-a-page-twice": _refuses(Insert((0, 1), (0, 0))),
    "insert-outside-the-pool": _refuses(_put((0,), 8)),
    "insert-of-broken-pages": _refuses(Insert((0, 0), (1, 0)), page_size=2),
    "insert-of-misplaced-slots": _refuses(_put((0, 1), 0), Insert((0, 1), (1, 0))),
    "refused-insert-that-would-split": _refuses(_put((0, 1), 0), Insert((0,), ())),
    "lock-of-the-free": _small(_put((0,), 0), Match((0,)), Lock(1)),
    "lock-again": _small(_put((0,), 0), Match((0,)), Lock(1), Lock(1)),
    "lock-on-shared-ancestors": _small(
        _put((0,), 0), Match((0,)), Lock(1), _put((0, 1), 0), Match((0, 1)), Lock(4)
    ),
    "lock-above-a-lock": _small(*_chain(), Match((0,)), Lock(3)),
    "lock-after-an-evict": _small(_put((0,), 0), _put((1,), 1), Match((1,)), Evict(1), Lock(2)),
    "lock-after-a-split": _small(_put((0, 1), 0), Match((0, 1)), Match((0,)), Lock(1)),
    "empty-handle": _small(Match(()), Lock(0)),
    "unlock-frees-the-path": _small(_put((0,), 0), Match((0,)), Lock(1), Unlock(1)),
    "unlock-frees-a-part": _small(*_chain(), Match((0,)), Lock(3), Unlock(1)),
    "unlock-frees-nothing": _small(_put((0,), 0), Match((0,)), Lock(1), Lock(1), Unlock(1)),
    "unlock-of-one-of-several": _small(_put((0,), 0), Match((0,)), Lock(1), Lock(1), Unlock(1)),
    "unlock-after-a-split": _small(*_chain(), Match((0,)), Unlock(1)),
    "stale-after-evict": _refuses(_put((0,), 0), Match((0,)), Evict(1), Lock(1)),
    "stale-after-reset": _refuses(_put((0,), 0), Match((0,)), Reset(), Lock(1)),
    "stale-though-cached-again": _refuses(
        _put((0,), 0), Match((0,)), Evict(1), _put((0,), 1), Lock(1)
    ),
    "stale-with-its-pages-used-again": _refuses(
        _put((0,), 0), Match((0,)), Evict(1), _put((1,), 0), Lock(1)
    ),
    "foreign-handle": _refuses(Lock(FOREIGN)),
    "not-a-handle": _refuses(Lock(NOT_A_HANDLE)),
    "unlock-of-the-unlocked": _refuses(_put((0,), 0), Match((0,)), Unlock(1)),
    "unlock-below-which-others-lock": _refuses(*_chain(), Match((0,)), Unlock(3)),
    "evict-of-nothing": _small(_put((0,), 0), Evict(0)),
    "evict-exactly": _small(_put((0,), 0), Evict(1)),
    "evict-more-than-asked": _small(_put((0, 1), 0), Evict(1)),
    "evict-of-several-nodes": _small(_put((0,), 0), _put((1,), 1), Evict(2)),
    "evict-cascades": _small(_put((0,), 0), _put((0, 1), 0), Evict(2)),
    "evict-exposes-a-parent": _small(_put((0,), 0), _put((0, 1), 0), Evict(1)),
    "evict-down-to-the-last-page": _small(_put((0,), 0), Evict(1)),
    "evict-all-but-the-locked": _small(
        _put((0,), 0), Match((0,)), Lock(1), _put((1,), 1), Evict(1)
    ),
    "evict-past-a-locked-leaf": _small(
        _put((0,), 0), Match((0,)), Lock(1), _put((1,), 1), Evict(1)
    ),
    "evict-spares-what-was-used": _small(_put((0,), 0), _put((1,), 1), Match((0,)), Evict(1)),
    "evict-spares-what-is-new": _small(
        _put((0,), 0), _put((1,), 1), Match((0,)), Evict(1), policy="fifo"
    ),
    "evict-of-an-unused-end": _small(_put((0, 1), 0), Match((0,)), Evict(1)),
    "evict-of-an-upper-half": _small(_put((0, 1), 0), Match((0,)), Evict(2)),
    "evict-after-an-unlock": _small(_put((0,), 0), Match((0,)), Lock(1), Unlock(1), Evict(1)),
    "evict-that-empties-a-namespace": _small(_put((0,), 0), _put((0,), 1, "a"), Evict(1)),
    "evict-of-too-much": _refuses(Evict(1)),
    "evict-of-what-is-locked": _refuses(_put((0,), 0), Match((0,)), Lock(1), Evict(1)),
    "evict-of-no-number": _refuses(Evict(None)),
    "evict-of-less-than-nothing": _refuses(Evict(-1)),
    "reset-of-something": _small(_put((0,), 0), Reset()),
    "reset-of-nothing": _small(Reset()),
    "reset-while-locked": _refuses(_put((0,), 0), Match((0,)), Lock(1), Reset()),
    "use-after-a-reset": _small(_put((0,), 0), Reset(), _put((0,), 0)),
    "namespace-hides-a-prefix": _small(_put((0,), 0, "a"), Match((0,))),
    "namespaces-with-equal-prefixes": _small(_put((0,), 0, "a"), _put((0,), 1), Match((0,))),
    "empty-namespace-beside-none": _small(_put((0,), 0, ""), Match((0,))),
}

WITNESSES: dict[str, Witness] = {**_MANAGER, **REQUEST_WITNESSES}
"""By the situation's id."""
