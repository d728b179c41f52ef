"""The laws of the contract one by one, and when a judgement of each has something at stake.

The judge compares answers, and a comparison holds several laws at once: that the victims of an
evict are the oracle's says that the least wanted went, that no locked page did, and that it
stopped in time. Each of these can be judged a thousand times and mean nothing, if nothing was
ever locked. So they are counted apart, and counted only where they could have been broken.
"""

from __future__ import annotations

from kvref.laws import LAWS
from kvref.situations.law import Law
from kvref.situations.request_laws import REQUEST_CONTRACT

__all__ = ["CONTRACT"]


_VICTIMS = ("victims", "legal-victims")
_WALKS = ("match-length", "already-cached")
_HIT = ("prefixes",)

_LAWS = [
    Law("match-length", LAWS["match-length"],
        "something is cached and the input holds a page", ("match-length",), _HIT),
    Law("match-slots", LAWS["match-slots"], "a page was found", ("match-slots",), _HIT),
    Law("match-only-reads", "a match leaves contents and sizes as they were",
        "something is cached", ("match-length",), _HIT),
    Law("already-cached", LAWS["already-cached"], "a page of it was there",
        ("already-cached",), _HIT),
    Law("insert-adds-the-rest", "insert adds exactly the missing pages, evictable at once",
        "a page was missing", ("already-cached",), _HIT),
    Law("whole-pages", "part of a page is neither found nor kept",
        "the input ended with part of a page", _WALKS, ("large pages",)),
    Law("namespaces-apart", "prefixes of different namespaces never meet",
        "another namespace held the first page of the input", _WALKS, (*_HIT, "namespaces")),
    Law("split-keeps-the-count", "a split changes no size, and both halves have the lock count",
        "a locked node was split", _WALKS, _HIT),
    Law("victims", LAWS["victims"], "there were two leaves to choose from", ("victims",),
        (*_HIT, "order")),
    Law("legal-victims", LAWS["legal-victims"], "there were two leaves to choose from",
        ("legal-victims",), _HIT),
    Law("locked-stay", "evict never takes a locked page", "something was locked", _VICTIMS, _HIT),
    Law("leaves-first", "no node goes while one below it stays",
        "a victim stood below another node", _VICTIMS, _HIT),
    Law("enough-and-no-more", "evict frees enough, and would not have without its last node",
        "something was asked for", _VICTIMS, _HIT),
    Law("all-can-be-evicted", "up to the evictable size an evict succeeds",
        "exactly that was asked for", _VICTIMS, _HIT),
    Law("use-is-exact", "a match refreshes what it found, not the rest of a node that it split",
        "an evict took a node whose parent was used later", _VICTIMS, _HIT),
    Law("locks-are-no-use", "locks do not touch recency",
        "an evict took what had been locked", _VICTIMS, _HIT),
    Law("reset", LAWS["reset"], "something was given up", ("reset",), _HIT),
    Law("sizes", LAWS["sizes"], "something is cached", ("sizes",), _HIT),
    Law("lock-covers-the-path", "a lock covers the whole path from the root",
        "a page of it was not locked before", ("accepted lock",), _HIT),
    Law("locks-nest", "locks nest, and are counted for each prefix",
        "another lock covers a page of the path", ("accepted lock", "accepted unlock"), _HIT),
    Law("the-empty-handle", "the handle of nothing can be locked and unlocked, always", "", ()),
    Law("accepts", LAWS["accepts"], "", ("accepts",)),
    Law("refusals", LAWS["refusals"], "", ("refusals",)),
    Law("stale-handles", "a handle whose prefix was given up is refused", "", (),
        (*_HIT, "refuses stale-handle")),
    Law("foreign-handles", "a handle of another manager is refused", "", (),
        ("refuses foreign-handle",)),
    Law("unbalanced-unlocks", "an unlock too many is refused", "", (),
        (*_HIT, "refuses unbalanced-unlock")),
    Law("not-evictable", "an evict of more than is evictable is refused", "", (),
        (*_HIT, "refuses not-evictable")),
    Law("reset-in-use", "a reset is refused while something is locked", "", (),
        (*_HIT, "refuses in-use")),
    Law("wrong-values", "values that cannot be right are refused", "", (),
        ("refuses wrong-value",)),
    Law("wrong-types", "values of the wrong type are refused", "", (), ("refuses wrong-type",)),
    Law("refused-unchanged", LAWS["refused-unchanged"], "something is cached",
        ("refused-unchanged",), _HIT),
    Law("handles", LAWS["handles"], "", ("handles",), _HIT),
    Law("structure", LAWS["structure"], "something is cached", ("structure",), _HIT),
    Law("integrity", LAWS["integrity"], "something is cached", ("integrity",), _HIT),
    Law("answers-in-time", LAWS["answers-in-time"], "", ("answers-in-time",)),
]  # fmt: skip

CONTRACT: dict[str, Law] = {law.id: law for law in (*_LAWS, *REQUEST_CONTRACT)}
"""By id, in the order of a report: those of a bare manager, and those of whole requests."""
