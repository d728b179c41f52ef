"""The schedule: every request of a trace is begun, computed, told its output and ended once."""

from collections import Counter

import pytest

from kvref.divergence import Divergence, DivergenceKind
from kvref.refusals import Refusal, RefusalKind
from kvref.requests.operations import (
    Abort,
    Append,
    Begin,
    Commit,
    Extend,
    Finish,
    Flush,
    Preempt,
    Store,
)
from kvref.requests.run import Outcome
from kvref.workload.generate import generate
from kvref.workload.mooncake import TracedRequest
from kvref.workload.schedule import Pace, Schedule
from kvref.workload.tokens import output_tokens, prompt_tokens


class Engine:
    """Follows what is asked of it, as far as it can be wrong by itself; has room for so much."""

    def __init__(self, room=10**9, differs_at=None):
        self.room = room
        self.differs_at = differs_at
        self.count = 0
        self.matched = 0
        self.outcome = Outcome()
        self.operations = []
        self.live = {}  # begin -> [tokens known, ahead, slots, stored]
        self.ended = Counter()
        self.most = 0

    def apply(self, operation):
        index, self.count = self.count, self.count + 1
        self.operations.append(operation)
        self.outcome = Outcome(matched=self.matched)
        if index == self.differs_at:
            return Divergence(DivergenceKind.SIZES, "sizes", index, operation, "", "")
        match operation:
            case Begin(tokens, max_tokens=most):
                slots = min(len(tokens), most)
                if self.used + slots > self.room:
                    self.outcome = Outcome(Refusal(RefusalKind.NO_ROOM))
                else:
                    self.live[index] = [list(tokens), [], slots, 0]
            case Extend(request, count, ahead):
                known, late, slots, _ = state = self.live[request]
                assert count > 0
                assert len(ahead) == max(0, slots + count - len(known) - len(late))
                if self.used + count > self.room:
                    self.outcome = Outcome(Refusal(RefusalKind.NO_ROOM))
                else:
                    state[2] += count
                    late += ahead
            case Append(request, tokens):
                known, late, _, _ = self.live[request]
                assert tokens
                told = list(tokens)
                assert late[: len(told)] == told[: len(late)]
                del late[: len(told)]
                known += told
            case Store(request):
                self.live[request][3] = self.live[request][2]
            case Commit(request):
                assert self.live[request][3] == self.live[request][2]
            case Finish(request) | Abort(request) | Preempt(request):
                self.ended[type(operation)] += 1
                known, _, slots, stored = self.live.pop(request)
                if isinstance(operation, Finish):
                    assert stored == slots == max(slots, len(known) - 1)
            case Flush():
                assert not self.live
        self.most = max(self.most, len(self.live))
        return None

    @property
    def used(self):
        return sum(state[2] for state in self.live.values())


def play(trace, engine=None, *, pool_tokens=10**9, **pace):
    engine = engine or Engine()
    schedule = Schedule(engine, trace, pool_tokens=pool_tokens, pace=Pace(**pace))
    for _ in schedule.rounds():
        pass
    return engine, schedule.counts


def test_every_request_finishes_with_its_whole_output():
    trace = generate(60, 1)
    engine, counts = play(trace, abort_share=0)
    assert counts.finished == engine.ended[Finish] == 60
    assert counts.output_tokens == sum(request.output_length for request in trace)
    assert counts.prompt_tokens == sum(request.input_length for request in trace)
    assert isinstance(engine.operations[-1], Flush)


@pytest.mark.parametrize("output", [0, 1, 2, 16, 17, 18, 33])
def test_the_last_token_is_told_and_needs_no_slot(output):
    engine, _ = play([TracedRequest(0, 600, output, (1, 2))], abort_share=0)
    begin, *_ = engine.operations
    told = [t for op in engine.operations if isinstance(op, Append) for t in op.tokens]
    slots = sum(op.count for op in engine.operations if isinstance(op, Extend))
    assert begin.tokens == prompt_tokens(TracedRequest(0, 600, 0, (1, 2)), 512)
    assert told == list(output_tokens(0, 0, output))
    assert slots == max(0, output - 1)


def test_a_prompt_is_computed_in_chunks_and_published_after_each():
    engine, _ = play([TracedRequest(0, 1000, 1, (1, 2))], chunk=300, abort_share=0)
    assert [str(operation).split("(")[0] for operation in engine.operations] == [
        "requests.begin", "store", "r0.commit",
        "r0.extend", "store", "r0.commit",
        "r0.extend", "store", "r0.commit",
        "r0.extend", "store", "r0.commit",
        "r0.append", "r0.finish", "requests.flush",
    ]  # fmt: skip


def test_in_decode_it_is_published_every_so_many_rounds():
    request = TracedRequest(0, 3, 5 * 4, (1,))
    engine, _ = play([request], decode_step=4, commit_every=4, abort_share=0)
    kinds = [type(op).__name__[0] for op in engine.operations if isinstance(op, Store | Commit)]
    assert "".join(kinds) == "SCSSSSCS"


def test_results_arrive_when_the_next_step_was_launched():
    engine, _ = play([TracedRequest(0, 3, 9, (1,))], decode_step=4, abort_share=0)
    kinds = [type(op) for op in engine.operations if isinstance(op, Extend | Append)]
    assert kinds == [Extend, Extend, Append, Append, Append]


def test_requests_come_when_the_trace_says_and_run_at_once_up_to_the_limit():
    late = [TracedRequest(at, 100, 1, (at,)) for at in (0, 10**6)]
    engine, _ = play(late, abort_share=0)
    assert engine.most == 1
    together = [TracedRequest(0, 100, 50, (n,)) for n in range(9)]
    assert play(together, in_flight=4, abort_share=0)[0].most == 4


def test_who_finds_no_room_waits_and_who_goes_on_preempts_the_youngest():
    trace = generate(40, 2)
    longest = max(r.input_length + r.output_length for r in trace)
    engine, counts = play(trace, Engine(room=longest), pool_tokens=longest, abort_share=0)
    assert counts.finished == 40
    assert counts.refused > 0
    assert counts.preempted == engine.ended[Preempt] > 0
    assert counts.output_tokens == sum(request.output_length for request in trace)
    goes_first = None
    for operation in engine.operations:
        if isinstance(operation, Preempt):
            goes_first = engine.operations[operation.request].tokens
        elif isinstance(operation, Begin) and goes_first is not None:
            assert operation.tokens[: len(goes_first)] == goes_first
            goes_first = None


def test_a_request_longer_than_the_pool_is_passed_over_and_counted():
    trace = [TracedRequest(0, n, 3, (n,)) for n in (100, 401, 400)]
    _, counts = play(trace, Engine(room=402), pool_tokens=402, abort_share=0)
    assert (counts.finished, counts.too_long) == (2, 1)
    assert counts.ended == 3


def test_some_clients_go_away_at_any_point():
    engine, counts = play(generate(200, 3), abort_share=0.5)
    assert counts.finished + counts.aborted == 200
    assert 60 < counts.aborted == engine.ended[Abort] < 140
    slots = Counter()
    for operation in engine.operations:
        if isinstance(operation, Extend):
            slots[operation.request] += 1
    aborted = [op.request for op in engine.operations if isinstance(op, Abort)]
    assert len({slots[request] for request in aborted}) > 3


def test_a_round_takes_as_long_as_all_tokens_that_got_slots_in_it():
    trace = [TracedRequest(0, 3000, 40, tuple(range(6)))]
    schedule = Schedule(Engine(), trace, pool_tokens=10**9, pace=Pace(chunk=1500, abort_share=0))
    times = [schedule._now for _ in schedule.rounds()]
    assert times[:3] == [60.0, 80.0, 100.0]  # 3,000 tokens at 50 a ms, and no less than 20 ms


def test_time_does_not_go_back_to_who_came_meanwhile():
    trace = [TracedRequest(0, 3000, 1, tuple(range(6))), TracedRequest(10, 100, 1, (7,))]
    schedule = Schedule(Engine(), trace, pool_tokens=10**9, pace=Pace(abort_share=0))
    assert [schedule._now for _ in schedule.rounds()] == [60.0, 80.0]


def test_a_client_that_goes_away_at_the_last_token_aborts():
    """Of one token in all, it can be no other."""
    _, counts = play([TracedRequest(0, 1, 0, (1,))], abort_share=1.0)
    assert (counts.aborted, counts.finished) == (1, 0)


def test_the_same_trace_and_pace_give_the_same_operations():
    trace = generate(30, 4)
    assert play(trace)[0].operations == play(trace)[0].operations
    assert play(trace)[0].operations != play(trace, decode_step=5)[0].operations


def test_a_difference_ends_the_replay():
    engine, counts = play(generate(30, 5), Engine(differs_at=50))
    assert engine.count == 51
    assert counts.ended < 30


def test_the_share_found_cached_is_told():
    engine = Engine()
    engine.matched = 64
    _, counts = play([TracedRequest(0, 128, 1, (1,))], engine, abort_share=0)
    assert counts.hit_rate == 0.5
    assert Schedule(engine, [], pool_tokens=1).counts.hit_rate == 0
