"""The judge: applies one operation to a target and to the oracle, and compares what can be seen.

The oracle goes first. It says what has to come back, or that the call has to be refused, and in
that case the state of the target is looked at before and after. The first difference ends the
run: after it, the two have different histories.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvref.answers import Answer, Malformed, Raised, Returned
from kvref.configuration import Configuration
from kvref.divergence import Divergence, DivergenceKind, blame
from kvref.executor import Executor, Sizes
from kvref.legal_eviction import follow
from kvref.listener import Listener
from kvref.naive_oracle import NaiveOracle
from kvref.operations import (
    FOREIGN,
    Evict,
    Insert,
    Lock,
    Match,
    Operation,
    Reset,
    Unlock,
    program,
)
from kvref.oracle import Handle, NodeView, Oracle
from kvref.promises import Promises
from kvref.refusals import Refusal, Refused

__all__ = ["Judge"]

_KIND = DivergenceKind


class Judge:
    """One run of one target.

    Attributes:
        operations: all that were applied, skipped ones too; an operation's number is its index.
        divergence: the first difference, or None; nothing is applied after it.
        accepted: how many operations had to be accepted.
        refused: the numbers of those that had to be refused.
        skipped: the numbers of those that were not issued: this target does not promise to
            refuse them, or they name a match which is not there.
        looks: how often structure and integrity were looked at.
        oracle: may be asked (`cached_slots`, `held`, the sizes), and not be changed.
    """

    def __init__(
        self,
        executor: Executor,
        configuration: Configuration,
        promises: Promises | None = None,
        *,
        look_every: int = 1,
        listener: Listener | None = None,
    ) -> None:
        """Judge `executor`, whose target is new and empty.

        Args:
            executor: owned by the caller, who closes it.
            configuration: that of the target.
            promises: what the target claims; the whole contract by default.
            look_every: structure, integrity and the oracle's own recount are looked at after
                every N-th operation and by `look`, all else after each operation.
            listener: is told of each operation before it runs and after.
        """
        self.configuration = configuration
        self.promises = promises or Promises()
        self.oracle: Oracle | NaiveOracle = (
            Oracle(configuration, granularity=self.promises.granularity)
            if self.promises.keeps_prefixes
            else NaiveOracle(configuration)
        )
        self.operations: list[Operation] = []
        self.divergence: Divergence | None = None
        self.accepted = 0
        self.refused: list[int] = []
        self.skipped: list[int] = []
        self.looks = 0
        self._judged: Counter[str] = Counter()
        self._executor = executor
        self._limited = executor.limited
        self._look_every = look_every
        self._listener = listener
        self._handles: dict[int, Handle] = {}
        self._first_match: dict[Handle, int] = {}  # handles are counted by their first match
        self._latest_of_length: dict[int, int] = {}
        self._locks: Counter[int] = Counter()
        self._foreign = _foreign_handle(configuration)

    @property
    def judged(self) -> Counter[str]:
        """How often each law was judged."""
        judged = Counter(self._judged)
        # Known already, and two counts less in each operation.
        operations = self.accepted + len(self.refused)
        judged += Counter({"accepts": self.accepted})
        judged += Counter({"answers-in-time": operations if self._limited else 0})
        return judged

    # ------------------------------------------------------------------ what a source asks

    def program(self) -> str:
        """What was issued so far, as Python."""
        return program(self.configuration, self.operations, self.refused, self.skipped)

    def outstanding(self) -> list[int]:
        """A match for each lock that was not given back."""
        return list(self._locks.elements())

    # ---------------------------------------------------------------------------- judging

    def apply(self, operation: Operation) -> Divergence | None:
        """Apply one operation to both and compare; the divergence, if there is one."""
        if self.divergence is not None:
            raise RuntimeError("the run ended at its first divergence")
        index = len(self.operations)
        self.operations.append(operation)
        if not self._applicable(operation):
            self._skip(index, operation)
            return None
        try:
            expected = self._ask(operation)
        except Refused as refused:
            if refused.refusal.kind not in self.promises.refuses:
                self._skip(index, operation)
                return None
            self.refused.append(index)
            if self._listener is not None:
                self._listener.begins(index, operation, refused.refusal)
            self._judge_refusal(index, operation, refused.refusal)
        else:
            self.accepted += 1
            if self._listener is not None:
                self._listener.begins(index, operation, expected)
            answer, sizes = self._call(index, operation)
            self._judge_answer(operation, expected, answer)
            self._note(index, operation, expected)
            self._judge_sizes(sizes)
        if self._listener is not None:
            self._listener.ends(index, self.oracle)
        if len(self.operations) % self._look_every == 0:
            self.look()
        return self.divergence

    def look(self) -> Divergence | None:
        """Compare structure and integrity now, and have the oracle recount itself."""
        if self.divergence is None and self.operations:
            self.looks += 1
            self.oracle.recompute()
            self._judge_structure()
        if self.divergence is None and self.operations and self.promises.integrity:
            self._judged["integrity"] += 1
            answer = self._executor.integrity()
            if not isinstance(answer, Returned):
                self._diverge(_KIND.INTEGRITY, "integrity", "a healthy cache", answer)
        return self.divergence

    def _skip(self, index: int, operation: Operation) -> None:
        self.skipped.append(index)
        if self._listener is not None:
            self._listener.skips(index, operation, self.oracle)

    def _call(self, index: int, operation: Operation) -> tuple[Answer, Sizes]:
        answers = self._executor.call(index, operation)
        if self._listener is not None:
            self._listener.answers(index, answers[0])
        return answers

    # ------------------------------------------------------------------------- the oracle

    def _applicable(self, operation: Any) -> bool:
        # By type and not by pattern: this is asked before each operation.
        kind = type(operation)
        if kind is Lock or kind is Unlock:
            reference = operation.handle
            return not isinstance(reference, int) or reference in self._handles
        if kind is Match or kind is Insert:
            return self.promises.namespaces or operation.namespace is None
        return True

    def _ask(self, operation: Any) -> Any:
        """What has to come back; for an evict of the target's own choice, the size."""
        # By type and not by pattern, the most frequent first: this runs once an operation.
        oracle, kind = self.oracle, type(operation)
        if kind is Match:
            return oracle.match_prefix(operation.tokens, operation.namespace)
        if kind is Insert:
            return oracle.insert_prefix(operation.tokens, operation.slots, operation.namespace)
        if kind is Lock:
            return oracle.lock_handle(self._resolve(operation.handle))
        if kind is Unlock:
            return oracle.lock_handle(self._resolve(operation.handle), unlock=True)
        if kind is Evict:
            if self.promises.eviction == "legal" and isinstance(oracle, Oracle):
                return oracle.check_evict(operation.size)
            return oracle.evict(operation.size)
        return oracle.reset()

    def _resolve(self, reference: int | str) -> object:
        if isinstance(reference, int):
            return self._handles[reference]
        return self._foreign if reference == FOREIGN else None

    def _note(self, index: int, operation: Any, expected: Any) -> None:
        """Remember what later operations may name; compares handles on the way."""
        kind = type(operation)
        if kind is Match:
            handle = expected[0]
            self._handles[index] = handle
            if self.divergence is None and self.promises.value_handles:
                self._judge_handle(index, handle)
            self._first_match.setdefault(handle, index)
            self._latest_of_length[handle.cached_len] = index
        elif (kind is Lock or kind is Unlock) and isinstance(operation.handle, int):
            handle = self._handles[operation.handle]
            if handle.cached_len:
                first = self._first_match[handle]
                self._locks[first] += 1 if kind is Lock else -1
                if not self._locks[first]:
                    del self._locks[first]

    # -------------------------------------------------------------------- the comparisons

    def _judge_answer(self, operation: Operation, expected: Any, answer: Answer) -> None:
        if not isinstance(answer, Returned):
            self._diverge(_KIND.REFUSED, "accepts", "accepted", answer)
            return
        # By type and not by pattern, the most frequent first: this runs once an operation.
        got, kind = answer.value, type(operation)
        if kind is Match:
            handle, slots = expected
            assert isinstance(got, list)
            self._judged["match-length"] += 1
            length = handle.cached_len
            if answer.cached_len != length or len(got) != length:
                self._diverge(
                    _KIND.MATCH_LENGTH,
                    "match-length",
                    f"a handle of {length} tokens and {length} slots",
                    f"a handle of {answer.cached_len} tokens and {len(got)} slots",
                )
            self._equal(_KIND.MATCH_SLOTS, "match-slots", slots, got)
        elif kind is Insert:
            self._equal(_KIND.ALREADY_CACHED, "already-cached", expected, got)
        elif kind is Evict:
            if self.promises.eviction == "legal" and isinstance(self.oracle, Oracle):
                self._judged["legal-victims"] += 1
                assert isinstance(got, list)
                problem = follow(self.oracle, expected, got)
                if problem is not None:
                    wanted = f"a legal choice for {expected} slots"
                    self._diverge(_KIND.VICTIMS, "legal-victims", wanted, f"{problem}: {got}")
            else:
                self._same_victims(_KIND.VICTIMS, "victims", expected, got)
        elif kind is Reset:
            self._same_victims(_KIND.RESET_SLOTS, "reset", expected, got)

    def _judge_refusal(self, index: int, operation: Operation, refusal: Refusal) -> None:
        unchanged = self.promises.refused_calls_change_nothing
        before = self._executor.fingerprint() if unchanged else None
        if isinstance(before, Answer):
            self._diverge(_KIND.STRUCTURE, "structure", "its fingerprint", before)
            return
        answer, sizes = self._call(index, operation)
        self._judged["refusals"] += 1
        if isinstance(answer, Returned | Malformed):
            result = answer.value if isinstance(answer, Returned) else answer
            self._diverge(_KIND.ACCEPTED, "refusals", str(refusal), f"accepted, with {result}")
        elif not isinstance(answer, Raised) or not answer.announces(
            refusal, self.promises.refusal_errors
        ):
            self._diverge(_KIND.WRONG_REFUSAL, "refusals", str(refusal), answer)
        elif before is not None:
            self._judged["refused-unchanged"] += 1
            after = self._executor.fingerprint()
            if after != before:
                self._diverge(
                    _KIND.LEFT_A_TRACE,
                    "refused-unchanged",
                    "the state before the call",
                    after if isinstance(after, Answer) else f"another one, after {answer}",
                )
        self._judge_sizes(sizes)

    def _judge_sizes(self, got: Sizes) -> None:
        if self.divergence is None:
            self._judged["sizes"] += 1
            wanted = (self.oracle.evictable_size, self.oracle.protected_size)
            if got != wanted:
                words = f"(evictable, protected) {wanted}"
                shown = str(got) if isinstance(got, tuple) else got
                self._diverge(_KIND.SIZES, "sizes", words, shown)

    def _judge_handle(self, index: int, handle: Handle) -> None:
        """Equal to the first handle of this incarnation, else not to the last of its length."""
        twin = self._first_match.get(handle)
        other = self._latest_of_length.get(handle.cached_len) if twin is None else twin
        if other is not None:
            self._judged["handles"] += 1
            same = self._executor.same_handle(other, index)
            if not isinstance(same, bool):
                self._diverge(_KIND.HANDLES, "handles", "handles that compare and hash", same)
            elif same != (twin is not None):
                relation = "differs from" if twin is None else "is equal to, with equal hash,"
                wanted, got = f"h{index} {relation} h{other}", "the opposite"
                self._diverge(_KIND.HANDLES, "handles", wanted, got)

    def _judge_structure(self) -> None:
        if self.promises.granularity == "any":
            return
        got = self._executor.nodes()
        if got is None:
            return
        self._judged["structure"] += 1
        if not isinstance(got, list):
            self._diverge(_KIND.STRUCTURE, "structure", "its nodes", got)
            return
        expected = self.oracle.nodes()
        if len(expected) != len(got) or set(expected) != set(got):
            mine = next((node for node in expected if node not in got), None)
            theirs = next((node for node in got if node not in expected), None)
            self._diverge(_KIND.STRUCTURE, "structure", _node(mine), _node(theirs))

    # -------------------------------------------------------------------------- reporting

    def _equal(self, kind: DivergenceKind, law: str, expected: Any, got: Any) -> None:
        self._judged[law] += 1
        if got != expected:
            self._diverge(kind, law, str(expected), str(got))

    def _same_victims(self, kind: DivergenceKind, law: str, expected: Any, got: Any) -> None:
        if not self.promises.ordered_victims or self.promises.eviction == "legal":
            expected, got = sorted(expected), sorted(got)
        self._equal(kind, law, expected, got)

    def _diverge(self, kind: DivergenceKind, law: str, expected: str, got: str | Answer) -> None:
        if self.divergence is not None:
            return  # the first one counts
        index = len(self.operations) - 1
        operation = self.operations[index]
        kind, law, text = blame(kind, law, got, "answers-in-time")
        self.divergence = Divergence(kind, law, index, operation, expected, text)


def _foreign_handle(configuration: Configuration) -> Handle:
    other = Oracle(configuration)
    tokens = (0,) * other.page_size
    other.insert_prefix(tokens, range(other.page_size))
    return other.match_prefix(tokens)[0]


def _node(node: NodeView | None) -> str:
    return "no other node" if node is None else node.words()
