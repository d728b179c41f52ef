"""The situations of whole requests, in the order of a report."""

from __future__ import annotations

from kvref.situations.situation import Situation

__all__ = ["REQUEST_SITUATIONS"]

_HIT = ("prefixes",)
_NO_ROOM = ("refuses no-room",)

# Group, then id, sentence, why, and what it needs.
_LIST: dict[str, list[tuple[str, str, str, tuple[str, ...]]]] = {
    "admission": [
        ("begin-without-a-hit", "a request begins with nothing, while something is cached",
         "A match that finds too much shows in what the request then reads (VLLM-12621).", _HIT),
        ("begin-with-a-hit", "a request begins with a cached prefix",
         "The slots are the cache's: locked before anything is evicted for it (LMC-4405).", _HIT),
        ("begin-with-all-cached", "all of a prompt is cached, and its last page is left out",
         "No token is left to compute, and zero-sized inputs crash (VLLM-3239).", _HIT),
        ("begin-on-a-shared-prefix", "a request begins with what another one has locked",
         "Two owners of one lock; whoever ends first takes it (LMC-2954).", _HIT),
        ("begin-with-an-equal-prompt", "a request with an equal prompt runs, and shares nothing",
         "Both compute the same pages, and one copy has to go (KVC-401).", ()),
        ("begin-in-chunks", "a request gets slots for a part of its prompt",
         "What is freed at its end is what it has, not what it would need (SGLJAX-984).", ()),
        ("begin-of-one-token", "a prompt of one token",
         "There is nothing to look up (SGL-10637).", ()),
        ("begin-again-after-preempt", "a request begins that was preempted before",
         "What it had published may be gone by now (VLLM-18957).", ()),
        ("begin-evicts", "pages are evicted for a request that begins",
         "Its own prefix is locked first, or it is evicted for itself (VLLM-11562).", _HIT),
        ("begin-spares-the-cache", "free pages suffice, and nothing that is cached is evicted",
         "The whole need is evicted instead of what is missing (SGL-32016).", _HIT),
        ("begin-fills-the-room", "a request needs exactly what is free and evictable",
         "A check that is off by one refuses it, or runs out of pages (MSG-80).", ()),
        ("begin-without-room", "a request is refused, because it needs a page too many",
         "Locks or pages that were taken first are never given back (OMLX-1450, KVC-430).",
         _NO_ROOM),
        ("begin-but-for-its-own-prefix", "a request is refused that fits if its prefix could go",
         "What it matched is counted as room for it (VLLM-11562).", (*_HIT, *_NO_ROOM)),
        ("refused-begin-that-would-split", "a refused request's prefix ends inside a node",
         "The match of a refused request leaves its traces (VLLM-11562).",
         (*_HIT, *_NO_ROOM)),
        ("begin-of-too-many", "a request is refused, because as many run as may",
         "A row is taken and not given back (OMLX-1450).", ("refuses too-many-requests",)),
        ("begin-of-no-prompt", "a prompt is refused that is empty or too long",
         "Accepted, it has no token to compute, or runs past its row.",
         ("refuses wrong-value",)),
        ("begin-hidden-by-a-namespace", "another namespace holds what a request does not find",
         "The namespace is dropped before the request (KT-2184).", (*_HIT, "namespaces")),
    ],
    "progress": [
        ("extend-within-a-page", "slots are given in a page that the request owns already",
         "A page is taken for each step, or none where one is needed (SGL-12224).",
         ("large pages",)),
        ("extend-by-pages", "a step takes new pages",
         "Slots and pages are counted in one unit (MSG-80).", ()),
        ("extend-evicts", "pages are evicted for a running request",
         "What it runs on is locked, and must not go (LMD-4700).", _HIT),
        ("extend-fills-the-room", "a step takes all that is free and evictable",
         "The last page can be had, and not one more (LCPP-17982).", ()),
        ("extend-without-room", "a step is refused, because there is no page for it",
         "Some pages were taken before it failed, and have no owner (KVC-430).", _NO_ROOM),
        ("extend-the-next-chunk", "a step takes the next chunk of a prompt",
         "The chunks have to meet (SGLJAX-984).", ()),
        ("extend-ahead", "slots are given to tokens whose values come late",
         "The lengths that are known, stored and given differ by now (SGL-12224).", ()),
        ("extend-too-far", "a step is refused that gives no slot, or too many for the row",
         "The row of another request is written (PYPTO-806).", ("refuses wrong-value",)),
        ("values-come-late", "values are told of tokens that have slots",
         "They belong to the slots that wait for them, in order.", ()),
        ("values-come-early", "values are told of tokens that have no slots yet",
         "They are taken for stored (VLLM-43569).", ()),
        ("store-on-a-used-page", "K and V are stored where another request's were before",
         "Whoever still reads the page reads foreign content (SGL-36738, NANO-163).", ()),
        ("store-of-what-comes-late", "K and V of tokens are stored whose values are not known",
         "They are published under values that nobody knows (VLLM-43569).", ()),
        ("store-of-nothing", "a store, and nothing waits for it", "An empty call fails.", ()),
    ],
    "commit": [
        ("commit-of-the-first", "a request publishes its first pages and goes on",
         "From now on the pages are the cache's (SGL-38319).", _HIT),
        ("commit-of-more", "a request publishes more pages than it had",
         "The lock moves to the longer prefix, and the shorter one is given back (MC-3443).",
         _HIT),
        ("commit-of-nothing-new", "a commit that only refreshes",
         "It locks what it has locked, and gives that back once (LMC-2954).", _HIT),
        ("commit-of-no-page", "a commit before a whole page is stored",
         "The key is empty (SGL-28692).", ()),
        ("commit-of-duplicates", "others published what a commit brings; their slots are taken",
         "The row still points at its own copies, which were freed (MSG-142).", _HIT),
        ("commit-of-some-duplicates", "of what a commit brings a part was there, a part is new",
         "One index says which slots are freed and which the cache took (SGL-38319).", _HIT),
        ("commit-with-part-of-a-page", "a commit leaves a stored part of a page to the request",
         "The part page is freed, or published (SGL-12224).", ("large pages",)),
        ("publish-of-the-stored-alone", "whole pages are not published, not being stored yet",
         "Pages without K and V are hit by the next request (VLLM-43569).", ()),
        ("publish-of-the-known-alone", "stored pages are not published whose values come late",
         "They are published under a guess.", ()),
        ("commit-in-the-prompt", "a commit between two chunks of a prompt",
         "An abort after it frees what is the cache's (SGL-38319).", _HIT),
    ],
    "end": [
        ("finish-with-news", "a finished request publishes pages that were not there",
         "They are the cache's, and not freed (SGL-12224).", _HIT),
        ("finish-with-duplicates", "a finished request frees its copies of what was there",
         "They leak, or are freed twice (KVC-401, LMC-5005).", _HIT),
        ("finish-with-part-of-a-page", "a finished request frees a part page",
         "The tail is freed by two paths (SGL-12224).", ("large pages",)),
        ("finish-with-nothing-stored", "a request finishes before anything was stored",
         "Nothing may be published (VLLM-43569).", ()),
        ("end-beside-another", "a request ends whose prefix another one has locked",
         "It takes the lock of the other (ATLAS-373).", _HIT),
        *(
            entry
            for kind, what in (("abort", "aborted"), ("preempt", "preempted"))
            for entry in (
                (f"{kind}-before-a-store", f"a request is {what} with slots and nothing stored",
                 "Pages were published when they were allocated (VLLM-43569).", ()),
                (f"{kind}-before-a-commit", f"a request is {what} that stored and published not",
                 "It publishes all the same, or leaks (OMLX-1450).", ()),
                (f"{kind}-after-a-commit", f"a request is {what} after it published pages",
                 "Pages that are the cache's are freed with its own (SGL-38319).", _HIT),
                (f"{kind}-in-the-prompt", f"a request is {what} between two chunks",
                 "It is only flagged, and its pages and lock stay (SGLJAX-984).", ()),
                (f"{kind}-in-decode", f"a request is {what} that went beyond its prompt",
                 "Known and stored differ in length (SGL-18694).", ()),
                (f"{kind}-with-values-late", f"a request is {what} while values are to come",
                 "A step that was launched still writes its slots (SGL-36738).", ()),
            )
        ),
        ("use-after-the-end", "a request that has ended is used again, and refused",
         "It is released a second time (SGL-18694, LMC-5005).", ("refuses request-ended",)),
    ],
    "flush": [
        ("flush-of-something", "a flush gives cached pages back", "Every page, once.", _HIT),
        ("flush-beside-a-request", "a flush while a request runs that locks nothing",
         "Its own pages are no part of the cache.", _HIT),
        ("flush-while-locked", "a flush is refused, because a request uses the cache",
         "Running requests lose their pages (SGL-22753).", (*_HIT, "refuses in-use")),
    ],
}  # fmt: skip

REQUEST_SITUATIONS: tuple[Situation, ...] = tuple(
    Situation(name, group, sentence, why, needs, machine="requests")
    for group, entries in _LIST.items()
    for name, sentence, why, needs in entries
)
