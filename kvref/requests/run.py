"""One run of a judge of requests: what it knows, and what it looks at now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kvref.answers import Answer, Malformed, Raised, Returned
from kvref.divergence import Divergence, DivergenceKind, blame
from kvref.listener import Listener
from kvref.oracle import NodeView, Oracle
from kvref.refusals import Refusal, RefusalKind
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import Done, Pool, RequestExecutor
from kvref.requests.operations import Begin, Flush, RequestOperation
from kvref.requests.oracle import RequestOracle
from kvref.requests.program import program
from kvref.requests.promises import RequestPromises
from kvref.requests.tags import NamesPrefixes

__all__ = ["Outcome", "RequestRun"]

_KIND = DivergenceKind


class Outcome(msgspec.Struct, frozen=True):
    """What one step came to: tokens matched, pages needed, pages evicted for them."""

    refused: Refusal | None = None
    matched: int = 0
    needed: int = 0
    evicted: int = 0


class RequestRun:
    """What `kvref.requests.judge.RequestJudge` knows of its run; the attributes are told there."""

    oracle_class: type[RequestOracle] = RequestOracle
    """What makes `oracle`; a subclass may name another."""

    def __init__(
        self,
        executor: RequestExecutor,
        configuration: RequestConfiguration,
        promises: RequestPromises,
        *,
        whole_tree: bool,
        tags: NamesPrefixes,
        listener: Listener | None = None,
    ) -> None:
        self.configuration = configuration
        self.promises = promises
        self.oracle = self.oracle_class(
            configuration,
            keeps_prefixes=promises.keeps_prefixes,
            granularity=promises.granularity,
            refused_begin_matches=promises.refused_begin == "match",
        )
        self.operations: list[RequestOperation] = []
        self.count = 0
        self.divergence: Divergence | None = None
        self.accepted = 0
        self.refused: list[int] = []
        self.skipped: list[int] = []
        self._judged: Counter[str] = Counter()
        self._pools = 0
        self.looks = 0
        self.sequences: dict[int, list[int]] = {}
        self.tags_of: dict[int, list[int]] = {}
        self.tags = tags
        self.outcome = Outcome()
        self.peak_pages = 0
        self._executor = executor
        self._page_size = configuration.page_size
        self._num_pages = configuration.num_pages
        self._whole_tree = whole_tree
        self._listener = listener

    @property
    def judged(self) -> Counter[str]:
        """How often each law was judged."""
        judged = Counter(self._judged)
        # Of each operation, and so not worth a look into a table each time.
        operations = self.accepted + len(self.refused)
        judged += Counter({"request-accepts": self.accepted})
        judged += Counter({"requests-in-time": operations if self._executor.limited else 0})
        judged += Counter({"request-sizes": self._pools, "free-pages": self._pools})
        return judged

    def program(self) -> str:
        """What was issued so far, as Python."""
        return program(self.configuration, self.operations, self.refused, self.skipped)

    def look(self) -> Divergence | None:
        """Compare rows, contents, structure and the target's check now; recount the oracle."""
        if self.count and self.divergence is None:
            self.looks += 1
            self.oracle.recompute()
            self._look_at_rows()
            self._look_at_content()
            if self._whole_tree:
                self._look_at_nodes()
            self._judged["ledger"] += 1
            answer = self._executor.check()
            if not isinstance(answer, Returned):
                self._differ(_KIND.INTEGRITY, "ledger", "each page in one healthy place", answer)
        return self.divergence

    # ---------------------------------------------------------------- after any operation

    def _judge_refusal(
        self, index: int, operation: RequestOperation, refusal: Refusal
    ) -> Pool | None:
        """A step that has to be refused; returns the state of the pool after it."""
        matches = refusal.kind is RefusalKind.NO_ROOM and self.promises.refused_begin == "match"
        unchanged = (
            self._whole_tree
            and self.promises.refused_calls_change_nothing
            and not (matches and type(operation) is Begin)
        )
        before = self._executor.fingerprint() if unchanged else None
        if isinstance(before, Answer):
            self._differ(_KIND.STRUCTURE, "request-structure", "its fingerprint", before)
            return None
        answer = self._executor.call(index, operation)
        if self._listener is not None:
            self._listener.answers(index, answer)
        self._judged["request-refusals"] += 1
        if isinstance(answer, Done | Malformed):
            got = "accepted" if isinstance(answer, Done) else answer
            self._differ(_KIND.ACCEPTED, "request-refusals", str(refusal), got)
            return None
        if not isinstance(answer, Raised) or not answer.announces(
            refusal, self.promises.refusal_errors
        ):
            self._differ(_KIND.WRONG_REFUSAL, "request-refusals", str(refusal), answer)
            return None
        if before is not None:
            self._judged["request-refused-unchanged"] += 1
            after = self._executor.fingerprint()
            if after != before:
                other = after if isinstance(after, Answer) else f"another one, after {answer}"
                wanted = "the state before the step"
                self._differ(_KIND.LEFT_A_TRACE, "request-refused-unchanged", wanted, other)
        pool = self._executor.pool()
        if isinstance(pool, Pool):
            return pool
        self._differ(_KIND.SIZES, "request-sizes", "its sizes", pool)
        return None

    def _judge_pool(self, operation: RequestOperation, pool: Pool | None) -> None:
        assert pool is not None
        cache, free = self.oracle.cache, self.oracle.ledger.num_free
        expected = Pool(cache.evictable_size, cache.protected_size, free)
        if type(operation) is Flush and not self.oracle.num_running:
            self._judged["drained"] += 1
            whole = Pool(0, 0, self.configuration.num_pages)
            if pool != whole:
                self._differ(_KIND.NOT_DRAINED, "drained", str(whole), str(pool))
        self._pools += 1
        if pool != expected:
            sizes, got = (expected.evictable, expected.protected), (pool.evictable, pool.protected)
            if got != sizes:
                self._differ(_KIND.SIZES, "request-sizes", str(sizes), str(got))
            else:
                self._differ(_KIND.FREE_PAGES, "free-pages", str(free), str(pool.free_pages))
        in_use = self._num_pages - free - expected.evictable // self._page_size
        if in_use > self.peak_pages:
            self.peak_pages = in_use

    # ----------------------------------------------------------------------------- looking

    def _look_at_rows(self) -> None:
        for request in self.oracle.running():
            self._judged["rows-stay"] += 1
            row = self._executor.row(request.number, 0, len(request.row))
            if row != request.row:
                wanted = f"the row of r{request.number}: {request.row}"
                got = str(row) if isinstance(row, list) else row
                self._differ(_KIND.ROW, "rows-stay", wanted, got)
                return

    def _look_at_content(self) -> None:
        """All cached pages, and what each running request has stored beyond its cached part."""
        slots: list[int] = []
        tags: list[int] = []
        for page_slots, page_tags in self._cached():
            slots += page_slots
            tags += page_tags
        self._read("content-cached", slots, tags)
        slots, tags = [], []
        for request in self.oracle.running():
            own = slice(request.cached_len, request.stored_len)
            slots += request.row[own]
            tags += self.tags_of[request.number][own]
        self._read("content-running", slots, tags)

    def _read(self, law: str, slots: Sequence[int], tags: Sequence[int]) -> None:
        if slots:
            content = self._executor.read(slots)
            if isinstance(content, list):
                self._compare_content(law, slots, tags, content)
            else:
                self._differ(_KIND.CONTENT, law, f"the content of slots {slots}", content)

    def _compare_content(
        self, law: str, slots: Sequence[int], tags: Sequence[int], content: Sequence[int | str]
    ) -> None:
        self._judged[law] += 1
        if content == tags:
            return
        if len(content) != len(slots):
            wanted = f"the content of {len(slots)} slots"
            self._differ(_KIND.CONTENT, law, wanted, f"that of {len(content)}")
            return
        rows = zip(slots, tags, content, strict=True)
        slot, tag, got = next(row for row in rows if row[1] != row[2])
        wanted = f"in slot {slot}: {self.tags.words(tag)}"
        shown = got if isinstance(got, str) else self.tags.words(got)
        self._differ(_KIND.CONTENT, law, wanted, shown)

    def _cached(self) -> Iterator[tuple[Sequence[int], list[int]]]:
        """The slots of each cached page, and the tags of its tokens."""
        if isinstance(self.oracle.cache, Oracle):
            last: dict[Any, int] = {}  # the last tag of each page
            for page in self.oracle.cache.pages():  # a parent stands before its children
                tags = self.tags.follow(page.tokens, page.namespace, last.get(page.parent))
                last[page] = tags[-1]
                yield page.slots, tags

    def _look_at_nodes(self) -> None:
        if self.promises.granularity == "any":
            return
        got = self._executor.nodes()
        if got is None:
            return
        self._judged["request-structure"] += 1
        if not isinstance(got, list):
            self._differ(_KIND.STRUCTURE, "request-structure", "its nodes", got)
            return
        expected = self.oracle.cache.nodes()
        if len(expected) != len(got) or set(expected) != set(got):
            mine = next((node for node in expected if node not in got), None)
            theirs = next((node for node in got if node not in expected), None)
            self._differ(_KIND.STRUCTURE, "request-structure", _node(mine), _node(theirs))

    # --------------------------------------------------------------------------- reporting

    def _differ(self, kind: DivergenceKind, law: str, expected: str, got: str | Answer) -> None:
        """Note a difference; the first one counts."""
        if self.divergence is None:
            kind, law, text = blame(kind, law, got, "requests-in-time")
            operation = self.operations[-1]
            self.divergence = Divergence(kind, law, self.count - 1, operation, expected, text)

    def _equal(self, kind: DivergenceKind, law: str, expected: Any, got: Any) -> None:
        self._judged[law] += 1
        if got != expected:
            self._differ(kind, law, str(expected), str(got))


def _node(node: NodeView | None) -> str:
    return "no other node" if node is None else node.words()
