"""The judge of whole requests: applies one step to a target and to the oracle, and compares.

The oracle goes first, as in `kvref.judge`: it says what has to come back, or that the step has
to be refused. Which pages a request gets is the target's choice, which is judged and then
followed; all else is predicted. The first difference ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from typing import Any, Protocol

from kvref.divergence import Divergence, DivergenceKind
from kvref.listener import Foreseen, Listener
from kvref.refusals import Refused
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.executor import Done, Pool, RequestExecutor
from kvref.requests.operations import (
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
from kvref.requests.oracle import Need, Request, RequestOracle
from kvref.requests.promises import RequestPromises
from kvref.requests.run import Outcome, RequestRun
from kvref.requests.tags import NamesPrefixes, Tags

__all__ = ["Observer", "Outcome", "RequestJudge"]

_KIND = DivergenceKind


class Observer(Protocol):
    """Sees each operation that is issued; may look at the oracle, and not change it."""

    def before(self, operation: RequestOperation, oracle: RequestOracle) -> None:
        """The oracle has not seen it yet. If it is then skipped, `after` is not called."""

    def after(
        self, index: int, operation: RequestOperation, outcome: Outcome, oracle: RequestOracle
    ) -> None:
        """It was judged."""


class RequestJudge(RequestRun):
    """One run of one target.

    Attributes:
        operations: all that were applied, skipped ones too; an operation's number is its index.
        count: how many that were.
        divergence: the first difference, or None; nothing is applied after it.
        accepted: how many operations had to be accepted.
        refused: the numbers of those that had to be refused.
        skipped: the numbers of those that were not issued: this target does not promise to
            refuse them, or they do not fit what went before (a request that did not begin,
            values other than those told ahead), so that a program may lose any of its parts.
        judged: how often each law was judged.
        looks: how often what is costly was looked at.
        oracle: may be looked at, and not be changed.
        sequences: for each running request the tokens that the harness knows, those that it
            has told ahead too; to be looked at, not changed.
        tags_of: their tags.
        tags: what each tag names.
        outcome: what the latest step came to.
        peak_pages: the most pages that were owned or protected after any step.
    """

    def __init__(
        self,
        executor: RequestExecutor,
        configuration: RequestConfiguration,
        promises: RequestPromises | None = None,
        *,
        look_every: int = 1,
        long_run: bool = False,
        tags: NamesPrefixes | None = None,
        listener: Listener | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Judge `executor`, whose target is new and empty.

        Args:
            executor: owned by the caller, who closes it.
            configuration: that of the target.
            promises: what the target claims; the whole contract by default.
            look_every: rows, contents, structure, the target's check and the oracle's own
                recount are looked at after every N-th operation and by `look`, all else after
                each.
            long_run: too long to be remembered, in a pool too large to be compared as a whole:
                `operations` then holds the latest alone, what names an ended request is
                skipped, and the cache's nodes and the state around a refusal are not compared.
            tags: what names the prefixes; by default a table, which grows with the run.
            listener: told of each operation, or None.
            observer: is shown the oracle before each operation and after it.
        """
        super().__init__(
            executor,
            configuration,
            promises or RequestPromises(),
            whole_tree=not long_run,
            tags=tags or Tags(),
            listener=listener,
        )
        self._look_every = look_every
        self._long_run = long_run
        self._observer = observer

    # ---------------------------------------------------------------------------- judging

    def apply(self, operation: RequestOperation) -> Divergence | None:
        """Apply one operation to both and compare; the divergence, if there is one."""
        if self.divergence is not None:
            raise RuntimeError("the run ended at its first divergence")
        if self._long_run:
            self.operations.clear()
        index = self.count
        self.count += 1
        self.operations.append(operation)
        if not self._applicable(operation):
            self.outcome = Outcome()
            self._skip(index, operation)
            return None
        if self._observer is not None:
            self._observer.before(operation, self.oracle)
        try:
            expected = self._ask(index, operation)
        except Refused as refused:
            self.outcome = Outcome(refused.refusal)
            if refused.refusal.kind not in self.promises.refuses:
                self._skip(index, operation)
                return None
            self.refused.append(index)
            if self._listener is not None:
                self._listener.begins(index, operation, refused.refusal)
            pool = self._judge_refusal(index, operation, refused.refusal)
        else:
            self.accepted += 1
            if self._listener is not None:
                self._listener.begins(index, operation, self._foreseen(index, operation, expected))
            pool = self._judge_step(index, operation, expected)
        if self._executor.limited:
            self.judged["requests-in-time"] += 1
        if self.divergence is None:
            self._judge_pool(operation, pool)
        if self._observer is not None:
            self._observer.after(index, operation, self.outcome, self.oracle)
        if self._listener is not None:
            self._listener.ends(index, self.oracle)
        if self.count % self._look_every == 0:
            self.look()
        return self.divergence

    def _skip(self, index: int, operation: RequestOperation) -> None:
        self.skipped.append(index)
        if self._listener is not None:
            self._listener.skips(index, operation, self.oracle)

    # ------------------------------------------------------------------------- the oracle

    def _applicable(self, operation: Any) -> bool:
        kind = type(operation)
        if kind is Begin:
            return self.promises.namespaces or operation.namespace is None
        if kind is Flush:
            return True
        request = self.oracle.requests.get(operation.request)
        if request is None:
            return False
        if kind is Extend and not request.running:
            return bool(operation.count >= 1)  # which of two refusals comes first is not said
        if kind is Extend:
            length = len(request.row) + operation.count
            if operation.count < 1 or length > self.oracle.max_len:
                return True  # has to be refused, whatever was to come
            unknown = max(0, length - len(self.sequences[request.number]))
            return bool(len(operation.ahead) == unknown)
        if request.running and kind is Append:
            ahead = self.sequences[request.number][len(request.tokens) :]
            return all(map(eq, operation.tokens, ahead))
        return True

    def _ask(self, index: int, operation: Any) -> Any:
        """What has to come back; for what takes pages, how many.

        For a store from which token on there is something to store, for a commit how much was
        the cache's before.
        """
        # By type and not by pattern, the most frequent first: this runs once an operation.
        oracle, kind = self.oracle, type(operation)
        if kind is Begin:
            return oracle.begin(index, operation.tokens, operation.namespace, operation.max_tokens)
        if kind is Flush:
            return oracle.flush()
        number = operation.request
        if kind is Extend:
            return oracle.extend(number, operation.count)
        if kind is Append:
            return oracle.append(number, operation.tokens)
        if kind is Store:
            return oracle.store(number)
        if kind is Commit:
            before = oracle.requests[number].cached_len
            oracle.commit(number)
            return before
        if kind is Finish:
            return oracle.finish(number)
        return oracle.preempt(number) if kind is Preempt else oracle.abort(number)

    def _foreseen(self, index: int, operation: Any, expected: Any) -> Foreseen:
        """What a listener is told that has to come back."""
        kind = type(operation)
        if kind is Begin or kind is Extend:
            cached = self.oracle.requests[index].cached_len if kind is Begin else 0
            return Foreseen(cached, more_slots=expected.tokens)
        if kind is Commit:
            return Foreseen(self.oracle.requests[operation.request].cached_len)
        return Foreseen(tokens=expected if kind is Preempt else None)

    # -------------------------------------------------------------------- the comparisons

    def _judge_step(self, index: int, operation: Any, expected: Any) -> Pool | None:
        """A step that has to be accepted; returns the state of the pool after it."""
        kind = type(operation)
        self.outcome = Outcome()
        if kind is Flush:
            answer = self._call(index, operation)
            return None if answer is None else answer.pool
        number: int = index if kind is Begin else operation.request
        request = self.oracle.requests[number]
        tags: Sequence[int] = ()
        if kind is Begin:
            self.sequences[number] = list(operation.tokens)
            self.tags_of[number] = self.tags.follow(operation.tokens, operation.namespace)
        elif kind is Store:
            tags = self.tags_of[number][expected : request.stored_len]
        answer = self._call(index, operation, tags)
        if answer is None:
            return None
        if kind is Begin:
            self._judge_begin(request, operation, expected, answer)
        elif kind is Extend:
            self._learn(request, operation.ahead)
            self._judge_pages(request, expected, answer.slots, answer)
        elif kind is Append:
            ahead = len(self.sequences[number]) - (len(request.tokens) - len(operation.tokens))
            self._learn(request, operation.tokens[ahead:])
        elif kind is Commit:
            self._judge_commit(request, expected, answer)
        if request.running:
            self._judge_lengths(request, answer)
            return answer.pool
        if kind is Preempt and answer.value is not None:
            self._equal(_KIND.TOKENS, "preempted-tokens", expected, answer.value)
        del self.sequences[number], self.tags_of[number]
        if self._long_run:
            del self.oracle.requests[number]
            self._executor.forget(number)
        return answer.pool

    def _call(
        self, index: int, operation: RequestOperation, tags: Sequence[int] = ()
    ) -> Done | None:
        answer = self._executor.call(index, operation, tags)
        if self._listener is not None:
            self._listener.answers(index, answer)
        self.judged["request-accepts"] += 1
        if isinstance(answer, Done):
            return answer
        self._differ(_KIND.REFUSED, "request-accepts", "accepted", answer)
        return None

    def _learn(self, request: Request, tokens: Sequence[int]) -> None:
        """The harness knows the next tokens of a request."""
        if tokens:
            tags = self.tags_of[request.number]
            tags += self.tags.follow(tokens, request.namespace, tags[-1])
            self.sequences[request.number] += tokens

    def _judge_begin(self, request: Request, begin: Begin, need: Need, answer: Done) -> None:
        cached, slots = request.cached_len, answer.slots
        self.judged["token-left"] += 1
        if answer.cached_len is not None and answer.cached_len >= len(begin.tokens):
            wanted = f"fewer than all {len(begin.tokens)} tokens matched"
            got = f"{answer.cached_len} matched"
            self._differ(_KIND.NOTHING_LEFT, "token-left", wanted, got)
        self._equal(_KIND.ADMISSION, "admission-match", cached, answer.cached_len)
        if cached:
            self._equal(_KIND.ROW, "taken-over", request.row, slots[:cached])
            self.judged["content-cached"] += 1
            tags = self.tags_of[request.number][:cached]
            self._compare_content("content-cached", slots[:cached], tags, answer.content)
        self._judge_pages(request, need, slots[cached:], answer)
        self.outcome = self.outcome._replace(matched=cached)

    def _judge_pages(
        self, request: Request, need: Need, slots: Sequence[int], answer: Done
    ) -> None:
        """What was evicted for a step, and the pages that it got."""
        if self.divergence is not None:
            return
        (tokens, pages, missing), victims = need, answer.victims
        self.judged["shortfall"] += 1
        wanted = f"{missing} slots evicted"
        problem = None
        if self.promises.eviction == "exact" or not self.promises.keeps_prefixes:
            expected = self.oracle.evict(missing)
            if victims is not None and sorted(victims) != sorted(expected):
                problem, wanted = str(sorted(victims)), f"{wanted}: {sorted(expected)}"
            victims = expected
        elif victims is None:
            problem, victims = "a target whose victims are its own choice does not tell them", []
        else:
            problem = self.oracle.follow(missing, victims)
        cached = self.oracle.cache.evictable_size + self.oracle.cache.protected_size
        found = answer.pool.evictable + answer.pool.protected
        if problem is None and found != cached:
            wanted, problem = f"{wanted}, {cached} left", f"{found} left"
        if problem is not None:
            self._differ(_KIND.SHORTFALL, "shortfall", wanted, problem)
            return
        size = self.configuration.page_size
        self.outcome = Outcome(None, 0, pages, len(victims) // size)
        self.judged["pages-owned"] += 1
        problem = self.oracle.wrong_slots(request.number, need, slots)
        if problem is None:
            self.oracle.take(request.number, slots)
        else:
            wanted = f"slots for {tokens} tokens, on {pages} new pages, for r{request.number}"
            self._differ(_KIND.PAGES, "pages-owned", wanted, problem)

    def _judge_commit(self, request: Request, before: int, answer: Done) -> None:
        cached = request.cached_len
        taken = cached - before
        self._equal(_KIND.LENGTHS, "request-lengths", cached, answer.value)
        self._equal(_KIND.ROW, "taken-over", request.row[before:cached], answer.slots[:taken])
        self._equal(_KIND.ROW, "rows-stay", request.row[cached:], answer.slots[taken:])

    def _judge_lengths(self, request: Request, answer: Done) -> None:
        wanted = (request.cached_len, len(request.row))
        self.judged["request-lengths"] += 1
        if (answer.cached_len, answer.extended_len) != wanted:
            self._differ(
                _KIND.LENGTHS,
                "request-lengths",
                f"(cached_len, extended_len) {wanted}",
                f"({answer.cached_len}, {answer.extended_len})",
            )
