"""The laws of whole requests one by one, and when a judgement of each has something at stake."""

from __future__ import annotations

from kvref.requests.laws import REQUEST_LAWS
from kvref.situations.law import Law

__all__ = ["REQUEST_CONTRACT"]

_HIT = ("prefixes",)
_ENDS = ("accepted abort", "accepted preempt")


def _judged(name: str, counts_when: str = "", needs: tuple[str, ...] = ()) -> Law:
    """A law of the judge as it is."""
    return Law(name, REQUEST_LAWS[name], counts_when, (name,), needs, "requests")


REQUEST_CONTRACT: tuple[Law, ...] = (
    _judged("token-left", "all of the prompt was cached", _HIT),
    _judged("admission-match", "something was found", _HIT),
    _judged("taken-over", "", _HIT),
    _judged("pages-owned", "a page was needed"),
    _judged("shortfall", "something was missing", _HIT),
    Law("free-pages-first", "nothing is evicted while free pages suffice",
        "pages were needed, free, and evictable too", ("shortfall",), _HIT, "requests"),
    Law("used-pages-stay", "what a running request uses is not evicted",
        "something was evicted while a request used cached pages", ("shortfall",), _HIT,
        "requests"),
    Law("published-when-stored", "what is not stored, or not known, is not published",
        "there was such a whole page", ("accepted commit", "accepted finish"), (), "requests"),
    Law("duplicates-go-once", "own copies of what the cache holds are freed, once",
        "there were some", ("accepted commit", "accepted finish"), _HIT, "requests"),
    Law("ends-publish-nothing", "abort and preempt publish nothing, and free what is its own",
        "something was stored and not published", _ENDS, (), "requests"),
    _judged("rows-stay"),
    _judged("request-lengths"),
    _judged("preempted-tokens"),
    _judged("request-sizes", "something was cached", _HIT),
    _judged("free-pages", "something was cached, or a request ran"),
    _judged("content-cached", "", _HIT),
    _judged("content-running"),
    _judged("request-accepts"),
    _judged("request-refusals"),
    Law("refused-for-room", "a step is refused where there is no room for it, and only there",
        "", (), ("refuses no-room",), "requests"),
    Law("refused-after-the-end", "a request that has ended is refused", "", (),
        ("refuses request-ended",), "requests"),
    _judged("request-refused-unchanged", "something was cached, or a request ran"),
    _judged("request-structure", "something was cached", _HIT),
    _judged("ledger", "something was cached, or a request ran"),
    _judged("drained"),
    _judged("requests-in-time"),
)  # fmt: skip
