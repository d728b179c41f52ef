"""A smallest example of each situation of whole requests."""

from __future__ import annotations

from kvref.requests.configuration import RequestConfiguration
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    RequestOperation,
    Store,
)
from kvref.situations.witness import Witness

__all__ = ["REQUEST_WITNESSES"]


def _small(
    *operations: RequestOperation, page_size: int = 1, num_pages: int = 8, max_requests: int = 4
) -> Witness:
    configuration = RequestConfiguration(
        page_size=page_size, num_pages=num_pages, max_requests=max_requests
    )
    return Witness(configuration, operations)


def _refuses(
    *operations: RequestOperation, page_size: int = 1, num_pages: int = 8, max_requests: int = 4
) -> Witness:
    """The last one has to be refused."""
    witness = _small(
        *operations, page_size=page_size, num_pages=num_pages, max_requests=max_requests
    )
    return witness._replace(refused=(len(operations) - 1,))


def _cached(*tokens: int, namespace: str | None = None) -> tuple[RequestOperation, ...]:
    """The prompt is cached; nobody locks it."""
    return Begin(tokens, namespace), Store(0), Finish(0)


def _ends(name: str, end: type[Abort | Preempt]) -> dict[str, Witness]:
    """Of a request that ends in this way, at each stage."""
    return {
        f"{name}-before-a-store": _small(Begin((0,)), end(0)),
        f"{name}-before-a-commit": _small(Begin((0,)), Store(0), end(0)),
        f"{name}-after-a-commit": _small(Begin((0,)), Store(0), Commit(0), end(0)),
        f"{name}-in-the-prompt": _small(Begin((0, 1), max_tokens=1), end(0)),
        f"{name}-in-decode": _small(Begin((0,)), Extend(0, 1, (1,)), end(0)),
        f"{name}-with-values-late": _small(Begin((0,)), Extend(0, 1, (1,)), end(0)),
    }


REQUEST_WITNESSES: dict[str, Witness] = {
    "begin-without-a-hit": _small(*_cached(0), Begin((1, 1))),
    "begin-with-a-hit": _small(*_cached(0), Begin((0, 1))),
    "begin-with-all-cached": _small(*_cached(0), Begin((0,))),
    "begin-on-a-shared-prefix": _small(*_cached(0), Begin((0, 1)), Begin((0, 1))),
    "begin-with-an-equal-prompt": _small(Begin((0, 1)), Begin((0, 1))),
    "begin-in-chunks": _small(Begin((0, 1), max_tokens=1)),
    "begin-of-one-token": _small(Begin((0,))),
    "begin-again-after-preempt": _small(Begin((0,)), Preempt(0), Begin((0,))),
    "begin-evicts": _small(*_cached(0), Begin((1,)), num_pages=1),
    "begin-spares-the-cache": _small(*_cached(0), Begin((1,)), num_pages=2),
    "begin-fills-the-room": _small(Begin((0,)), num_pages=1),
    "begin-without-room": _refuses(Begin((0,)), Begin((1,)), num_pages=1),
    "begin-but-for-its-own-prefix": _refuses(
        *_cached(0), Begin((1,)), Begin((0, 1, 2)), num_pages=3
    ),
    "refused-begin-that-would-split": _refuses(
        *_cached(0, 1), Begin((2,)), Begin((0, 2, 2)), num_pages=3
    ),
    "begin-of-too-many": _refuses(Begin((0,)), Begin((0,)), max_requests=1),
    "begin-of-no-prompt": _refuses(Begin(())),
    "begin-hidden-by-a-namespace": _small(*_cached(0, namespace="a"), Begin((0, 1))),
    "extend-within-a-page": _small(Begin((0,)), Extend(0, 1, (1,)), page_size=2),
    "extend-by-pages": _small(Begin((0,)), Extend(0, 1, (1,))),
    "extend-evicts": _small(*_cached(0), Begin((1,)), Extend(3, 1, (1,)), num_pages=2),
    "extend-fills-the-room": _small(Begin((0,)), Extend(0, 1, (1,)), num_pages=2),
    "extend-without-room": _refuses(Begin((0,)), Begin((1,)), Extend(0, 1, (1,)), num_pages=2),
    "extend-the-next-chunk": _small(Begin((0, 1), max_tokens=1), Extend(0, 1)),
    "extend-ahead": _small(Begin((0,)), Extend(0, 1, (1,))),
    "extend-too-far": _refuses(Begin((0,)), Extend(0, 0)),
    "values-come-late": _small(Begin((0,)), Extend(0, 1, (1,)), Append(0, (1,))),
    "values-come-early": _small(Begin((0,)), Append(0, (1,))),
    "store-on-a-used-page": _small(
        Begin((0,)), Store(0), Abort(0), Begin((1,)), Store(3), num_pages=1
    ),
    "store-of-what-comes-late": _small(Begin((0,)), Extend(0, 1, (1,)), Store(0)),
    "store-of-nothing": _small(Begin((0,)), Store(0), Store(0)),
    "commit-of-the-first": _small(Begin((0,)), Store(0), Commit(0)),
    "commit-of-more": _small(
        Begin((0, 1), max_tokens=1), Store(0), Commit(0), Extend(0, 1), Store(0), Commit(0)
    ),
    "commit-of-nothing-new": _small(Begin((0,)), Store(0), Commit(0), Commit(0)),
    "commit-of-no-page": _small(Begin((0,)), Commit(0)),
    "commit-of-duplicates": _small(
        Begin((0,)), Begin((0,)), Store(0), Store(1), Commit(0), Commit(1)
    ),
    "commit-of-some-duplicates": _small(
        Begin((0,)), Begin((0, 1)), Store(0), Store(1), Commit(0), Commit(1)
    ),
    "commit-with-part-of-a-page": _small(Begin((0, 0, 1)), Store(0), Commit(0), page_size=2),
    "publish-of-the-stored-alone": _small(Begin((0,)), Commit(0)),
    "publish-of-the-known-alone": _small(Begin((0,)), Extend(0, 1, (1,)), Store(0), Commit(0)),
    "commit-in-the-prompt": _small(Begin((0, 1), max_tokens=1), Store(0), Commit(0)),
    "finish-with-news": _small(Begin((0,)), Store(0), Finish(0)),
    "finish-with-duplicates": _small(
        Begin((0,)), Begin((0,)), Store(0), Store(1), Finish(0), Finish(1)
    ),
    "finish-with-part-of-a-page": _small(Begin((0,)), Finish(0), page_size=2),
    "finish-with-nothing-stored": _small(Begin((0,)), Finish(0)),
    "end-beside-another": _small(*_cached(0), Begin((0, 1)), Begin((0, 1)), Finish(3)),
    **_ends("abort", Abort),
    **_ends("preempt", Preempt),
    "use-after-the-end": _refuses(Begin((0,)), Finish(0), Finish(0)),
    "flush-of-something": _small(*_cached(0), Flush()),
    "flush-beside-a-request": _small(Begin((0,)), Flush()),
    "flush-while-locked": _refuses(Begin((0,)), Store(0), Commit(0), Flush()),
}
"""By the situation's id."""
