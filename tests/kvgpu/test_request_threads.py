"""Requests from several threads at a time: each call is one step, and nothing is lost."""

from __future__ import annotations

import contextlib
import random
import sys
import threading

import pytest

from kvgpu import CacheInUse, NoRoom, RequestEnded, RequestState, TooManyRequests
from tests.kvgpu.engine import Engine


@pytest.fixture(autouse=True)
def _threads_change_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*works):
    """Run each in a thread, all from one moment on; what they raised."""
    barrier = threading.Barrier(len(works))
    raised = []

    def begin(work):
        barrier.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=begin, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread waits for ever"
    return raised


class Worker:
    """Random calls on requests of its own, in a pool that is too small for all."""

    def __init__(self, engine, seed, steps):
        self.engine, self.chance, self.steps = engine, random.Random(seed), steps
        self.mine = []
        self.done = dict.fromkeys(("begin", "refused", "commit", "end"), 0)

    def __call__(self):
        for _ in range(self.steps):
            try:
                self.step()
            except (NoRoom, TooManyRequests):
                self.done["refused"] += 1
        for request in self.mine:
            request.finish()

    def step(self):
        chance = self.chance
        if not self.mine or chance.random() < 0.2:
            prompt = [chance.randrange(2) for _ in range(chance.randrange(1, 9))]
            namespace = chance.choice([None, None, "a"])
            limit = chance.choice([None, 1, 2])
            begin = self.engine.requests.begin
            self.mine.append(begin(prompt, namespace=namespace, max_tokens=limit))
            self.done["begin"] += 1
            return
        request = chance.choice(self.mine)
        match chance.randrange(6):
            case 0:
                request.extend(chance.randrange(1, 3))
                request.append([chance.randrange(2)])
            case 1 | 2:
                request.mark_stored()
                slots = request.slots(0, request.stored_len)
                length = request.commit()
                assert len(slots) >= length == request.cached_len
                self.done["commit"] += 1
            case 3:
                self.mine.remove(request)
                chance.choice([request.finish, request.abort, request.preempt])()
                self.done["end"] += 1
            case 4:
                self.engine.requests.upload([request])
            case 5:
                if chance.random() < 0.05:
                    self.engine.requests.check_ledger()
                assert len(request.out_loc) == request.extended_len - request.stored_len


@pytest.mark.parametrize(("page_size", "naive"), [(1, False), (2, False), (2, True)])
def test_no_page_and_no_lock_is_lost_between_threads(page_size, naive):
    engine = Engine(14, page_size, naive=naive, max_requests=6, max_len=20)
    workers = [Worker(engine, seed, 700) for seed in range(4)]
    assert at_once(*workers) == []
    for name in workers[0].done:
        assert sum(worker.done[name] for worker in workers) > 50, name
    assert engine.requests.running == ()
    engine.requests.check_ledger()
    engine.manager.check_integrity()
    assert engine.manager.size_info.protected_size == 0
    engine.requests.flush()
    assert engine.free() == 14
    assert sorted(engine.requests.allocator.allocate(14).tolist()) == list(range(14))


@pytest.mark.parametrize("owner", ["commit", "finish", "extend", "append", "abort"])
@pytest.mark.parametrize("page_size", [1, 2])
def test_an_abort_from_another_thread_wins_or_is_told_and_frees_nothing_twice(owner, page_size):
    seen = set()
    for _ in range(150):
        engine = Engine(10, page_size)
        twin, request = engine.run([1, 2, 3, 4]), engine.run([1, 2, 3, 4])
        twin.commit()

        def work(request=request):
            arguments = {"append": ([5],)}.get(owner, ())
            getattr(request, owner)(*arguments)

        raised = at_once(work, request.abort)
        assert all(type(error) is RequestEnded for error in raised)
        ends = owner in ("finish", "abort")
        assert len(raised) == 1 if ends else len(raised) <= 1
        assert request.state is not RequestState.RUNNING
        assert all(error.state is request.state for error in raised)
        seen.add(request.state)
        engine.check()
        engine.drain()
    assert seen <= {RequestState.ABORTED, *([RequestState.FINISHED] if owner == "finish" else [])}


def test_a_block_left_while_another_thread_aborts_ends_the_request_once():
    for _ in range(100):
        engine = Engine(4)
        request = engine.run([1, 2])

        def leave(request=request):
            with request:
                pass

        raised = at_once(leave, request.abort)
        assert len(raised) == (request.state is RequestState.FINISHED)
        engine.drain()


def test_of_several_that_begin_at_once_as_many_are_admitted_as_have_rows():
    for _ in range(50):
        engine = Engine(8, max_requests=2)
        raised = at_once(*[lambda engine=engine: engine.requests.begin([1, 2])] * 4)
        assert [type(error) for error in raised] == [TooManyRequests] * 2
        assert [error.running for error in raised] == [2, 2]
        engine.requests.check_ledger()


def test_equal_prompts_committed_at_once_leave_one_copy():
    for _ in range(50):
        engine = Engine(12)
        twins = [engine.run([1, 2, 3]) for _ in range(4)]
        assert at_once(*[twin.commit for twin in twins]) == []
        assert (engine.free(), engine.sizes()) == (9, (0, 3))
        engine.check()
        assert at_once(*[twin.finish for twin in twins]) == []
        assert engine.sizes() == (3, 0)
        engine.drain()


def test_flush_against_requests_that_begin_and_end():
    engine = Engine(8)
    stop = threading.Event()

    def flushes():
        while not stop.is_set():
            with contextlib.suppress(CacheInUse):
                engine.requests.flush()

    def serves():
        try:
            for _ in range(400):
                with engine.requests.begin([1, 2, 3]) as request:
                    request.mark_stored()
        finally:
            stop.set()

    assert at_once(flushes, serves) == []
    engine.requests.check_ledger()
    engine.requests.flush()  # nothing was stored really, so there is no content to look at
    assert engine.free() == 8


class Watched:
    """A mutex that counts how often it was taken."""

    def __init__(self, mutex):
        self.mutex, self.taken = mutex, 0

    def __enter__(self):
        self.taken += 1
        return self.mutex.__enter__()

    def __exit__(self, *error):
        return self.mutex.__exit__(*error)


@pytest.mark.parametrize(
    "step",
    [
        lambda engine, request: request.token_ids,
        lambda engine, request: request.slots(),
        lambda engine, request: request.out_loc,
        lambda engine, request: request.extend(),
        lambda engine, request: request.append([1]),
        lambda engine, request: request.mark_stored(),
        lambda engine, request: request.commit(),
        lambda engine, request: request.finish(),
        lambda engine, request: request.abort(),
        lambda engine, request: request.preempt(),
        lambda engine, request: request.__exit__(None, None, None),
        lambda engine, request: engine.requests.running,
        lambda engine, request: engine.requests.num_available_pages,
        lambda engine, request: engine.requests.begin([5]),
        lambda engine, request: engine.requests.flush(),
        lambda engine, request: engine.requests.upload([request]),
        lambda engine, request: engine.requests.check_ledger(),
    ],
)
def test_each_step_takes_the_mutex_once(step):
    engine = Engine(8, 1)
    request = engine.begin([1, 2, 3])
    watched = Watched(engine.requests.steps.mutex)
    engine.requests.steps.mutex = watched
    step(engine, request)
    assert watched.taken == 1
