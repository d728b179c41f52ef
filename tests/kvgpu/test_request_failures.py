"""Whatever fails inside a step, wherever it does, everything is as it was before the call."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from kvgpu import InvalidValue, NoRoom, RequestManager
from kvgpu.request_steps import RequestSteps
from tests.kvgpu.engine import Engine

# From one of these on, a step acts and can fail no more.
ACTING = {"lock_match", "evict", "publish", "leave", "apply_reset"}


class FailsAtCall:
    """A profile function that raises at the n-th call of kvgpu into C, until a step acts.

    Numpy's functions, copies of arrays and of bytes are such calls: whatever takes memory.
    """

    def __init__(self, number):
        self.left = number
        self.acting = False

    def __call__(self, frame, event, called):
        if event == "call" and frame.f_code.co_name in ACTING:
            self.acting = True
        if event != "c_call" or self.acting or called.__name__ == "__exit__":
            return  # a mutex that nobody gives back is no failure that could be
        if frame.f_globals.get("__name__", "").startswith("kvgpu."):
            self.left -= 1
            if self.left < 0:
                raise MemoryError("planted")


def fails_at(number, call):
    """Whether the call failed at the given point; False: it never came there, and succeeded."""
    sys.setprofile(FailsAtCall(number))
    try:
        call()
    except MemoryError:
        return True
    finally:
        sys.setprofile(None)
    return False


def survives_each_failure(engine, call):
    """Let the call fail at each point, and then succeed. Gives how many points there are."""
    before = engine.picture()
    number = 0
    while fails_at(number, call):
        assert engine.picture() == before, f"at call {number}"
        number += 1
    engine.requests.check_ledger()
    return number


def setting(page_size, **options):
    """A full pool of 9 pages: 3 cached and evictable, 4 of a request that shares 2 of them."""
    engine = Engine(9, page_size, **options)
    tokens = [token for token in range(9) for _ in range(page_size)]
    engine.cache(tokens[: 3 * page_size])
    engine.cache([70] * page_size)
    request = engine.run([*tokens[: 2 * page_size], *[50] * (2 * page_size), 51])
    return engine, tokens, request


@pytest.mark.parametrize("page_size", [1, 2])
def test_begin_with_split_lock_and_evict_leaves_no_trace_when_it_fails(page_size):
    engine, tokens, request = setting(page_size)
    prompt = [*tokens[:page_size], *[60] * (4 * page_size)]
    assert engine.free() < 4
    made = []
    points = survives_each_failure(engine, lambda: made.append(engine.requests.begin(prompt)))
    assert points > 20
    assert made[0].cached_len == page_size
    assert request.cached_len == 2 * page_size
    engine.drain()


@pytest.mark.parametrize("page_size", [1, 2])
def test_extend_with_evict_leaves_no_trace_when_it_fails(page_size):
    engine, _, request = setting(page_size)
    assert survives_each_failure(engine, lambda: request.extend(4 * page_size)) > 10
    engine.drain()


@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize("step", ["commit", "finish"])
def test_publishing_with_duplicates_leaves_no_trace_when_it_fails(page_size, step):
    """The second begins with a locked prefix, and the first then caches a page more of it."""
    engine = Engine(9, page_size)
    prompt = [token for token in range(4) for _ in range(page_size)]
    engine.cache(prompt[: 2 * page_size])
    first, second = engine.run([*prompt, 8]), engine.run([*prompt, 9])
    first.commit()
    second.extend(page_size)
    engine.store(second, [5] * page_size)
    assert survives_each_failure(engine, getattr(second, step)) > 5
    engine.check()
    engine.drain()


@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize("step", ["commit", "finish", "abort", "preempt"])
def test_a_twin_s_duplicates_are_freed_all_or_not_at_all(page_size, step):
    engine = Engine(12, page_size)
    prompt = [token for token in range(3) for _ in range(page_size)] + [9]
    first, second = engine.run(prompt), engine.run(prompt)
    first.commit()
    engine.check()
    assert survives_each_failure(engine, getattr(second, step)) > 2
    engine.check()
    engine.drain()


def test_an_append_that_cannot_grow_leaves_the_tokens():
    engine = Engine()
    request = engine.run([1, 2])
    assert survives_each_failure(engine, lambda: request.append(list(range(200)))) > 1
    assert request.token_ids.tolist() == [1, 2, *range(200)]


def test_a_flush_that_fails_leaves_the_cache():
    engine = Engine(8, 2)
    engine.cache([1, 2, 3, 4, 5])
    assert survives_each_failure(engine, engine.requests.flush) > 5
    assert engine.free() == 8


def test_an_upload_that_fails_is_made_up_for_by_the_next():
    engine = Engine(8, 2)
    request = engine.begin([1, 2, 3, 4, 5])
    assert survives_each_failure(engine, lambda: engine.requests.upload([request])) > 10
    table = engine.requests.page_table
    assert np.array_equal(table.device_table.numpy(), table.host)


class Broken(RequestSteps):
    """Steps of which one part raises, by name."""

    part = ""

    def __getattribute__(self, name):
        if name == type(self).part:
            raise MemoryError("planted")
        return super().__getattribute__(name)


class BrokenManager(RequestManager):
    steps_class = Broken


@pytest.mark.parametrize(
    ("part", "call"),
    [
        *((part, "begin") for part in ("require_row", "take_pages", "require_room")),
        *((part, call) for part in ("plan_shortfall", "pages_of") for call in ("begin", "extend")),
        *((part, call) for part in ("plan_publish", "give_back") for call in ("commit", "finish")),
        ("duplicates", "commit"),
        ("own_pages", "finish"),
        ("own_pages", "abort"),
        ("give_back", "abort"),
    ],
)
def test_each_part_that_may_fail_does_so_without_a_trace(part, call, monkeypatch):
    engine, tokens, request = setting(2, manager_class=BrokenManager)
    calls = {
        "begin": lambda: engine.requests.begin([*tokens[:2], 60, 60, 60, 60]),
        "extend": lambda: request.extend(6),
        "commit": request.commit,
        "finish": request.finish,
        "abort": request.abort,
    }
    before = engine.picture()
    monkeypatch.setattr(Broken, "part", part)
    with pytest.raises(MemoryError):
        calls[call]()
    monkeypatch.undo()
    assert engine.picture() == before
    engine.check()
    calls[call]()
    engine.drain()


@pytest.mark.parametrize("name", ["allocate", "exchange"])
def test_an_allocator_that_raises_ends_no_request_and_evicts_nothing(name, monkeypatch):
    engine, tokens, _ = setting(1)
    prompt = [*tokens[:1], *[60] * (1 if name == "allocate" else 3)]
    before = engine.picture()

    def raises(*_arguments):
        raise InvalidValue("pages", "planted", "none")

    monkeypatch.setattr(engine.requests.allocator, name, raises)
    with pytest.raises(InvalidValue):
        engine.requests.begin(prompt)
    assert engine.picture() == before
    monkeypatch.undo()
    engine.requests.begin(prompt)
    engine.drain()


def test_a_refusal_inside_a_batch_of_calls_hurts_no_other_request():
    engine = Engine(4)
    first, second = engine.run([1, 2]), engine.run([3])
    for call in (lambda: first.extend(2), lambda: second.extend(2), lambda: engine.begin([1, 9])):
        with pytest.raises(NoRoom):
            call()
        engine.check()
    engine.drain()
