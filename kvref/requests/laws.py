"""The laws of whole requests, each with the sentence that a report prints."""

from __future__ import annotations

__all__ = ["REQUEST_LAWS"]

REQUEST_LAWS: dict[str, str] = {
    "token-left": "a request is left at least one token of its prompt to compute",
    "admission-match": "it begins with exactly the cached whole pages of all but its last token",
    "taken-over": "what is the cache's of a request, its row shows at the cache's own slots",
    "pages-owned": "new pages were free, whole and distinct, and as many as the tokens need",
    "shortfall": "what is evicted is what was missing, the least wanted first, and no more",
    "rows-stay": "a row changes where a commit takes the cache's slots, and nowhere else",
    "request-lengths": "a request has slots, and a cached part, of the right lengths",
    "preempted-tokens": "a preempted request gives back the tokens that it knows",
    "request-sizes": "evictable and protected size are those of the cached pages",
    "free-pages": "free are the pages that the cache does not hold and no request owns",
    "content-cached": "a cached prefix holds the K and V of exactly its tokens",
    "content-running": "a running request holds the K and V that were stored for it",
    "request-accepts": "what the contract allows a request is not refused",
    "request-refusals": "what it forbids is refused, with the right error",
    "request-refused-unchanged": "a refused step leaves no trace",
    "request-structure": "nodes, slots and lock counts of the cache are those of the oracle",
    "ledger": "the target's own check of the cache and of the pages passes",
    "drained": "when no request runs and the cache was flushed, every page is free",
    "requests-in-time": "every step returns, in time, and the process survives it",
}
"""Id and sentence, in the order of a report."""
