"""The life of a request, line by line: begin, extend, append, commit, finish, abort, preempt."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvgpu import (
    CacheInUse,
    InvalidType,
    InvalidValue,
    KVCacheError,
    KVCacheLayout,
    MHAKVCache,
    NaiveCacheManager,
    NoRoom,
    OutOfPages,
    RadixCacheManager,
    Request,
    RequestEnded,
    RequestManager,
    RequestState,
    TooManyRequests,
    requests,
)
from tests.kvgpu.engine import Engine, lengths
from tests.kvgpu.test_refusals import refused
from tests.kvgpu.trees import runs

ENDS = {
    "finish": RequestState.FINISHED,
    "abort": RequestState.ABORTED,
    "preempt": RequestState.PREEMPTED,
}

# Begin


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_a_first_request_gets_slots_for_its_whole_prompt(page_size):
    engine = Engine(8, page_size)
    request = engine.begin([1, 2, 3, 4, 5])
    assert lengths(request) == (0, 0, 5, 5)
    assert request.state is RequestState.RUNNING
    assert request.slots().dtype == np.int32
    assert len(set(request.slots().tolist())) == 5
    assert request.out_loc.tolist() == request.slots().tolist()
    assert engine.free() == 8 - -(-5 // page_size)
    engine.drain()


@pytest.mark.parametrize(
    ("page_size", "prompt", "cached_len"),
    [
        (1, [0, 1, 2, 3], 3),  # all of it is cached: one token is left
        (1, [0, 1, 2, 3, 9], 4),
        (2, [0, 1, 2, 3], 2),  # and with it the whole page that it lies in
        (2, [0, 1, 2, 3, 9], 4),
        (2, [0, 1, 2, 9, 9], 2),
        (4, [0, 1, 2, 3], 0),
        (4, [0, 1, 2, 3, 9], 4),
    ],
)
def test_what_is_cached_of_all_tokens_but_the_last_is_locked_and_used(
    page_size, prompt, cached_len
):
    engine = Engine(8, page_size)
    first = engine.run([0, 1, 2, 3])
    slots = first.slots().tolist()
    first.finish()
    request = engine.begin(prompt)
    assert lengths(request) == (cached_len, cached_len, len(prompt), len(prompt))
    assert request.slots(0, cached_len).tolist() == slots[:cached_len]
    assert engine.sizes()[1] == cached_len
    engine.store(request)
    engine.check()
    engine.drain()


@pytest.mark.parametrize(
    ("max_tokens", "extended_len"), [(None, 7), (1, 5), (2, 6), (3, 7), (99, 7)]
)
def test_a_first_chunk_counts_from_the_cached_prefix_on(max_tokens, extended_len):
    engine = Engine(8, 2)
    engine.cache([0, 1, 2, 3])
    request = engine.begin([0, 1, 2, 3, 4, 5, 6], max_tokens=max_tokens)
    assert lengths(request) == (4, 4, extended_len, 7)
    engine.drain()


def test_prompts_come_as_tensors_arrays_or_ints_and_are_copied():
    tokens = [3, -1, 2**62]
    for prompt in (
        tokens,
        tuple(tokens),
        np.array(tokens),
        torch.tensor(tokens),
        torch.tensor([*tokens, *tokens])[:3],
        torch.tensor([[token, 0] for token in tokens])[:, 0],
        iter(tokens),
        [np.int64(3), -1, 2**62],
    ):
        request = Engine().requests.begin(prompt)
        if isinstance(prompt, (np.ndarray, torch.Tensor)):
            prompt[0] = 7
        assert request.token_ids.dtype == np.int64
        assert request.token_ids.tolist() == tokens
    narrow = Engine().requests.begin(torch.tensor([1, 2], dtype=torch.int32))
    assert narrow.token_ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("prompt", "error", "builtin"),
    [
        ([], InvalidValue, ValueError),
        (torch.empty(0, dtype=torch.int64), InvalidValue, ValueError),
        ([0] * 9, InvalidValue, ValueError),
        (torch.zeros(2), InvalidType, TypeError),
        (torch.zeros(2, dtype=torch.int64, device="meta"), InvalidValue, ValueError),
        (torch.zeros(2, 2, dtype=torch.int64), InvalidValue, ValueError),
        (np.zeros(2), InvalidType, TypeError),
        (np.zeros((2, 2), dtype=np.int64), InvalidValue, ValueError),
        (np.zeros(2, dtype=np.uint64), InvalidType, TypeError),
        ([1.0], InvalidType, TypeError),
        ([True], InvalidType, TypeError),
        (None, InvalidType, TypeError),
        ([2**63], InvalidValue, ValueError),
    ],
)
def test_a_prompt_that_is_none_is_refused(prompt, error, builtin):
    engine = Engine(max_len=8)
    before = engine.picture()
    assert refused(lambda: engine.requests.begin(prompt), error, builtin).argument == "input_ids"
    assert engine.picture() == before


def test_the_other_arguments_of_begin_are_looked_at():
    begin = Engine().requests.begin
    refused(lambda: begin([1], namespace=1), InvalidType, TypeError, argument="namespace")
    refused(lambda: begin([1], max_tokens=0), InvalidValue, ValueError, argument="max_tokens")
    refused(lambda: begin([1], max_tokens=1.0), InvalidType, TypeError, argument="max_tokens")


def test_a_request_more_than_there_are_rows_is_refused():
    engine = Engine(max_requests=2)
    first = engine.begin([1])
    engine.begin([2])
    before = engine.picture()
    refused(lambda: engine.begin([3]), TooManyRequests, RuntimeError, running=2)
    assert engine.picture() == before
    first.abort()
    assert engine.begin([3]).row == 0


def test_a_request_that_has_no_room_is_refused_with_the_numbers():
    engine = Engine(6)
    engine.cache([0, 1])
    locked = engine.run([5, 6])
    before = engine.picture()
    error = refused(
        lambda: engine.begin([7] * 5), NoRoom, RuntimeError, needed=5, free=2, evictable=2
    )
    assert isinstance(error, OutOfPages)
    assert str(error) == "5 pages needed, 2 free and 2 evictable"
    assert engine.picture() == before
    locked.abort()
    engine.begin([7] * 5)


def test_the_own_matched_prefix_is_not_counted_as_evictable():
    engine = Engine(6, max_len=16)
    engine.cache([0, 1, 2, 3])
    before = engine.picture()
    # 4 pages are needed beside the 3 matched; 2 are free, and of 4 cached 3 are its own prefix.
    refused(
        lambda: engine.begin([0, 1, 2, 8, 8, 8, 8]), NoRoom, RuntimeError,
        needed=4, free=2, evictable=1,
    )  # fmt: skip
    assert engine.picture() == before, "no split, no recency, no lock"
    request = engine.run([0, 1, 2, 8, 8, 8])
    assert lengths(request)[0] == 3
    assert engine.sizes() == (0, 3)
    engine.check()


def test_what_others_have_locked_of_the_prefix_is_not_taken_off_twice():
    engine = Engine(8)
    engine.cache([0, 1, 2, 3])
    other = engine.begin([0, 1, 9])  # locks [0 1]; one page of its own
    before = engine.picture()
    refused(
        lambda: engine.begin([0, 1, 2, 8, 8, 8, 8, 8]), NoRoom, RuntimeError,
        needed=5, free=3, evictable=1,
    )  # fmt: skip
    assert engine.picture() == before
    assert engine.begin([0, 1, 2, 8, 8, 8, 8]).cached_len == 3
    other.abort()
    engine.requests.check_ledger()


def test_a_begin_evicts_the_shortfall_and_never_its_own_prefix():
    engine = Engine(6)
    engine.cache([5])
    engine.cache([0, 1, 2])  # more recent than [5]
    request = engine.run([0, 1, 8, 8, 8])  # 3 pages: 2 are free, one goes
    assert engine.sizes() == (1, 2)
    assert runs(engine.manager) == {
        ((0, 1), tuple(request.slots(0, 2).tolist())),
        ((0, 1, 2), next(slots for prefix, slots in runs(engine.manager) if prefix == (0, 1, 2))),
    }
    engine.check()


@pytest.mark.parametrize("page_size", [1, 2])
def test_the_rest_of_a_node_that_the_match_cuts_can_go_for_it(page_size):
    engine = Engine(4, page_size)
    tokens = [token for token in range(4) for _ in range(page_size)]
    engine.cache(tokens)
    prompt = [*tokens[: 2 * page_size], *[9] * (2 * page_size)]
    request = engine.run(prompt)
    assert request.cached_len == 2 * page_size
    assert engine.sizes() == (0, 2 * page_size)
    engine.check()
    engine.drain()


# Extend, append


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_an_extend_takes_pages_only_where_a_page_is_full(page_size):
    engine = Engine(16, page_size, max_len=13)
    request = engine.begin([1])
    for length in range(2, 14):
        before = request.slots().tolist()
        request.extend()
        assert request.extended_len == length
        assert request.slots().tolist()[:-1] == before
        assert engine.free() == 16 - -(-length // page_size)
    refused(request.extend, InvalidValue, ValueError, argument="num_tokens")
    assert request.extended_len == 13
    engine.requests.check_ledger()


def test_an_extend_by_many_is_all_or_nothing():
    engine = Engine(4, 2)
    request = engine.begin([1, 2, 3])
    before = engine.picture()
    with pytest.raises(InvalidValue):
        request.extend(6)
    for wrong in (0, -1, True, 1.0):
        with pytest.raises(KVCacheError):
            request.extend(wrong)
    other = engine.begin([9])
    refused(lambda: request.extend(4), NoRoom, RuntimeError, needed=2, free=1, evictable=0)
    other.abort()
    assert engine.picture()["requests"] == before["requests"]
    request.extend(5)
    assert request.extended_len == 8


def test_an_extend_evicts_the_shortfall_and_not_its_own_prefix():
    engine = Engine(6)
    engine.cache([5, 6])
    engine.cache([0, 1])
    request = engine.run([0, 1, 2])  # [0 1] is cached and locked; 1 page of its own, 1 free
    engine.decode(request, 7)
    assert engine.free() == 0
    request.extend()
    assert engine.sizes() == (0, 2), "[5 6] went, which nobody can do by halves"
    assert engine.free() == 1
    engine.check()
    refused(lambda: request.extend(2), InvalidValue, ValueError)


def test_values_come_before_or_after_the_slots_in_any_form():
    engine = Engine(200)
    request = engine.begin([1])
    request.append([2])
    request.append((3,))
    request.append(np.array([4], dtype=np.int32))
    request.append(torch.tensor([5]))
    request.append([])
    assert lengths(request) == (0, 0, 1, 5)
    request.extend(6)
    assert lengths(request) == (0, 0, 7, 5)
    request.append(range(6, 150))
    assert request.token_ids.tolist() == list(range(1, 150))
    copy = request.token_ids
    copy[:] = 0
    assert request.token_ids.tolist() == list(range(1, 150))
    for wrong in (1, [1.5], torch.zeros(1), None):
        with pytest.raises(InvalidType):
            request.append(wrong)
    assert request.known_len == 149


def test_values_fill_the_buffer_to_its_end_and_go_on():
    request = Engine().begin([1])
    room = len(request.tokens) - 1
    request.append([2] * room)
    assert len(request.tokens) == request.known_len
    request.append([3])
    assert request.token_ids.tolist() == [1, *[2] * room, 3]


def test_slots_of_any_part_and_out_loc_of_what_is_not_stored():
    engine = Engine(8, 2)
    request = engine.run([1, 2, 3])
    assert request.out_loc.tolist() == []
    request.extend(3)
    slots = request.slots().tolist()
    assert request.slots(1, 4).tolist() == slots[1:4]
    assert request.slots(6).tolist() == request.slots(2, 2).tolist() == []
    assert request.out_loc.tolist() == slots[3:]
    slots_given = request.slots()
    slots_given[:] = -1
    assert request.slots().tolist() == slots
    for start, stop in ((0, 7), (7, None), (3, 2), (-1, None)):
        refused(lambda start=start, stop=stop: request.slots(start, stop), InvalidValue, ValueError)
    refused(lambda: request.slots(0.0), InvalidType, TypeError, argument="start")


# Commit


@pytest.mark.parametrize("page_size", [1, 2, 4])
@pytest.mark.parametrize("length", range(1, 10))
def test_a_commit_hands_whole_pages_over_and_keeps_the_part_page(page_size, length):
    engine = Engine(16, page_size)
    request = engine.run(list(range(length)))
    slots = request.slots().tolist()
    aligned = length // page_size * page_size
    assert request.commit() == request.cached_len == aligned
    assert request.slots().tolist() == slots
    assert engine.sizes() == (0, aligned)
    assert engine.free() == 16 - -(-length // page_size)
    engine.check()
    assert request.commit() == aligned, "again, with nothing new"
    engine.check()
    request.finish()
    assert engine.sizes() == (aligned, 0)
    assert engine.free() == 16 - aligned // page_size
    engine.drain()


@pytest.mark.parametrize("page_size", [1, 2, 4])
@pytest.mark.parametrize("shared", range(9))
@pytest.mark.parametrize("end", ["commit", "finish"])
def test_of_equal_prompts_in_flight_one_copy_is_kept(page_size, shared, end):
    """Ranges of the second: [0:already) duplicates, [already:a) handed over, [a:) its own."""
    engine = Engine(32, page_size)
    first = engine.run([*range(shared), *[90] * (9 - shared)])
    second = engine.run([*range(shared), *[80] * (10 - shared)])
    assert second.cached_len == 0
    own = second.slots().tolist()
    first.commit()
    theirs = first.slots().tolist()
    free = engine.free()
    already = shared // page_size * page_size
    aligned = 10 // page_size * page_size
    if end == "commit":
        assert second.commit() == aligned
        assert second.slots(0, already).tolist() == theirs[:already]
        assert second.slots(already).tolist() == own[already:]
        assert engine.free() == free + already // page_size
        engine.check()
        second.finish()
    else:
        second.finish()
    tail = -(-10 // page_size) - aligned // page_size
    assert engine.free() == free + already // page_size + tail
    first.finish()
    engine.check()
    assert engine.begin([*range(shared), *[80] * (11 - shared)]).cached_len == aligned
    engine.drain()


def test_a_commit_refreshes_what_it_publishes_also_where_nothing_is_new():
    engine = Engine(6)
    old = engine.run([0, 1])
    old.commit()
    engine.cache([5, 6])
    old.commit()
    old.finish()
    engine.begin([7, 7, 7])  # 2 are free: [5 6] is the older one now
    assert {prefix for prefix, _ in runs(engine.manager)} == {(0, 1)}


def test_a_commit_of_less_than_a_page_does_nothing():
    engine = Engine(8, 4)
    request = engine.run([1, 2, 3])
    before = engine.picture()
    assert request.commit() == 0
    assert engine.picture() == before
    request.finish()
    assert engine.free() == 8


def test_what_is_not_stored_or_not_known_is_never_published():
    engine = Engine(16)
    request = engine.begin([0, 1, 2])
    assert request.commit() == 0, "nothing is stored"
    engine.store(request)
    request.extend(2)
    assert request.commit() == 3, "two have slots and are not stored"
    engine.store(request, [3, 4])
    assert request.commit() == 3, "two are stored and not known"
    request.append([3])
    assert request.commit() == 4
    request.append([4, 5, 6])
    assert request.commit() == 5, "two are known and have no slots"
    engine.check()
    request.finish()
    assert engine.begin([0, 1, 2, 3, 4, 5, 6]).cached_len == 5


def test_chunks_are_published_one_after_the_other():
    engine = Engine(16, 2)
    prompt = list(range(11))
    request = engine.begin(prompt, max_tokens=3)
    assert lengths(request) == (0, 0, 3, 11)
    for stored, cached in ((3, 2), (6, 6), (9, 8), (11, 10)):
        if stored > 3:
            request.extend(stored - request.extended_len)
        engine.store(request)
        assert request.commit() == cached
        assert lengths(request) == (cached, stored, stored, 11)
        engine.check()
    assert engine.sizes() == (0, 10)
    request.finish()
    engine.drain()


def test_a_longer_prefix_that_another_cached_meanwhile_is_taken_over():
    engine = Engine(32, 2)
    slow = engine.begin(list(range(12)), max_tokens=2)
    fast = engine.run(list(range(12)))
    fast.finish()
    engine.store(slow)
    assert slow.commit() == 2
    slow.extend(10)
    engine.store(slow)
    own = slow.slots().tolist()
    free = engine.free()
    assert slow.commit() == 12
    assert not set(slow.slots(2).tolist()) & set(own[2:])
    assert engine.free() == free + 5
    engine.check()
    engine.drain()


# The end


@pytest.mark.parametrize("page_size", [1, 2, 4])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("late", [0, 1, 2])
def test_an_end_gives_everything_back_once(page_size, end, committed, late):
    engine = Engine(16, page_size)
    engine.cache([0, 1, 2, 3])
    request = engine.run([0, 1, 2, 3, 4, 5, 6])
    cached = request.cached_len
    if committed:
        cached = request.commit()
    known = [0, 1, 2, 3, 4, 5, 6]
    if late:
        request.extend(2)
        engine.store(request, [7, 8])
        request.append([7, 8][: late - 1])
        known += [7, 8][: late - 1]
    result = getattr(request, end)()
    if end == "preempt":
        assert result.dtype == np.int64
        assert result.tolist() == known
    else:
        assert result is None
    assert request.state is ENDS[end]
    assert request not in engine.requests.running
    published = len(known) if end == "finish" else max(cached, 4)
    published = published // page_size * page_size
    assert engine.sizes() == (published, 0)
    assert engine.free() == 16 - published // page_size
    engine.check()
    engine.drain()


@pytest.mark.parametrize("end", ENDS)
def test_nothing_can_be_done_with_a_request_that_has_ended(end):
    engine = Engine()
    request = engine.run([1, 2, 3])
    request.commit()
    assert request.node is not None
    getattr(request, end)()
    before = engine.picture()
    for call in (
        request.extend,
        lambda: request.append([1]),
        request.mark_stored,
        request.commit,
        request.finish,
        request.abort,
        request.preempt,
        request.slots,
        lambda: request.out_loc,
        lambda: request.token_ids,
        lambda: engine.requests.upload([request]),
    ):
        error = refused(call, RequestEnded, RuntimeError, state=ENDS[end])
        assert str(error) == f"the request has ended: {ENDS[end].name.lower()}"
    assert engine.picture() == before
    assert request.tokens.nbytes == 0
    assert request.node is None
    assert (request.known_len, request.extended_len) == (3, 3)
    assert repr(request).startswith(f"<Request {ENDS[end].name.lower()}: known 3")


def test_a_preempted_request_begins_again_with_what_it_gave_back():
    engine = Engine(8)
    request = engine.run([1, 2, 3])
    request.commit()
    engine.decode(request, 4)
    again = engine.begin(request.preempt())
    assert lengths(again) == (3, 3, 4, 4)
    engine.store(again)
    engine.check()


def test_a_block_finishes_the_request_or_aborts_it_on_an_exception():
    engine = Engine(8)
    with engine.begin([1, 2]) as request:
        engine.store(request)
    assert request.state is RequestState.FINISHED
    request = engine.run([3, 4])
    assert fails_inside(request, lambda: None) is RequestState.ABORTED
    with engine.begin([5, 6]) as request:
        request.preempt()
    assert request.state is RequestState.PREEMPTED
    request = engine.begin([5, 6])
    assert fails_inside(request, request.finish) is RequestState.FINISHED
    assert engine.sizes() == (2, 0)
    engine.drain()


def fails_inside(request, call):
    """The state after a block that calls, and then fails."""
    try:
        with request:
            call()
            raise KeyError
    except KeyError:
        return request.state


# The manager


def test_flush_frees_the_cache_unless_a_request_uses_some_of_it():
    engine = Engine(8, 2)
    engine.cache([1, 2, 3, 4])
    request = engine.run([1, 2, 9])
    before = engine.picture()
    refused(engine.requests.flush, CacheInUse, RuntimeError, protected_size=2)
    assert engine.picture() == before
    request.abort()
    engine.requests.flush()
    assert (engine.free(), engine.sizes()) == (8, (0, 0))
    assert engine.begin([1, 2, 3]).cached_len == 0
    engine.requests.flush()
    engine.requests.check_ledger()


def test_what_a_manager_shows():
    engine = Engine(8, 2, max_len=10)
    requests = engine.requests
    assert (requests.manager, requests.kv_cache) == (engine.manager, engine.kv_cache)
    assert (requests.page_size, requests.max_len, requests.running) == (2, 10, ())
    engine.cache([1, 2, 3, 4])
    first, second = engine.begin([1, 2, 9]), engine.begin([8])
    assert requests.running == (first, second)
    assert (requests.num_free_pages, requests.num_available_pages) == (4, 5)
    assert Engine(8, 2).requests.max_len == 16
    assert repr(first) == "<Request running: known 3, extended 3, stored 2, cached 2>"
    assert isinstance(first, Request)


def storage(num_pages: int = 8, page_size: int = 1, device: str = "cpu") -> MHAKVCache:
    return MHAKVCache(
        1, 1, 1, num_pages, torch.int8, KVCacheLayout.LayerFirst, device, page_size=page_size
    )


def used() -> RadixCacheManager:
    manager = RadixCacheManager("cpu")
    manager.insert_prefix(torch.tensor([1]), torch.tensor([1], dtype=torch.int32))
    return manager


@pytest.mark.parametrize(
    ("manager", "kv_cache", "error", "argument"),
    [
        (None, storage(), InvalidType, "manager"),
        (storage(), storage(), InvalidType, "manager"),
        (RadixCacheManager("cpu"), RadixCacheManager("cpu"), InvalidType, "kv_cache"),
        (RadixCacheManager("cpu", page_size=2), storage(), InvalidValue, "manager"),
        (RadixCacheManager("cpu"), storage(device="meta"), InvalidValue, "manager"),
        (RadixCacheManager("cpu", num_slots=7), storage(), InvalidValue, "manager"),
        (used(), storage(), InvalidValue, "manager"),
    ],
)
def test_a_manager_and_a_storage_that_do_not_fit_are_refused(manager, kv_cache, error, argument):
    with pytest.raises(error) as caught:
        RequestManager(manager, kv_cache, max_requests=1)
    assert caught.value.argument == argument


@pytest.mark.parametrize("sizes", [{"max_requests": 0}, {"max_requests": 1, "max_len": 0}])
def test_sizes_below_one_are_refused(sizes):
    with pytest.raises(InvalidValue):
        RequestManager(NaiveCacheManager("cpu"), storage(), **sizes)


class TooLarge(MHAKVCache):
    """Says that it has a slot more than an int32 can name."""

    num_pages = property(lambda self: 2**31 + 1)


def test_a_pool_of_more_slots_than_an_int32_can_name_is_refused():
    kv_cache = TooLarge(1, 1, 1, 8, torch.float64, KVCacheLayout.LayerFirst, "cpu")
    refused(
        lambda: RequestManager(NaiveCacheManager("cpu"), kv_cache, max_requests=1, max_len=1),
        InvalidValue, ValueError, argument="kv_cache", got=f"{2**31 + 1} slots",
    )  # fmt: skip


def test_a_pool_may_have_as_many_slots_as_can_be_named(monkeypatch):
    monkeypatch.setattr(requests, "ALL_SLOTS", 8)
    RequestManager(NaiveCacheManager("cpu"), storage(8), max_requests=1)
    with pytest.raises(InvalidValue, match="at most 8"):
        RequestManager(NaiveCacheManager("cpu"), storage(9), max_requests=1)


@pytest.mark.parametrize("num_slots", [8, 9])
def test_a_manager_that_knows_as_many_slots_as_the_storage_has_or_more_is_taken(num_slots):
    RequestManager(RadixCacheManager("cpu", num_slots=num_slots), storage(), max_requests=1)


# The naive manager


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_without_a_memory_everything_stays_the_request_s(page_size):
    engine = Engine(16, page_size, naive=True)
    first = engine.run(list(range(7)))
    slots = first.slots().tolist()
    assert first.commit() == 0
    assert first.slots().tolist() == slots
    engine.check()
    second = engine.run(list(range(7)))
    assert second.cached_len == 0
    engine.check()
    first.finish()
    second.abort()
    assert engine.free() == 16
    engine.drain()


def test_without_a_memory_nothing_is_evictable():
    engine = Engine(4, naive=True)
    request = engine.run([1, 2, 3])
    refused(lambda: engine.begin([1, 2]), NoRoom, RuntimeError, needed=2, free=1, evictable=0)
    request.finish()
    engine.begin([1, 2])
    engine.requests.check_ledger()
