"""Faults that serving engines had, each in its shortest sequence, on whole requests."""

from __future__ import annotations

import pytest

from kvgpu import NoRoom, NotEvictable, RequestEnded
from tests.kvgpu.engine import Engine, lengths
from tests.kvgpu.trees import match


def test_msg_142_a_running_request_reads_no_page_that_its_commit_freed():
    engine = Engine(4)
    first, second = engine.run([1, 0]), engine.run([1, 1])
    first.finish()
    own = second.slots().tolist()
    second.commit()
    assert second.slots()[0] != own[0]
    third = engine.run([0])
    assert third.slots()[0] == own[0], "it was free to be given out"
    engine.check()


def test_sgl_12224_the_slot_of_a_late_step_is_freed_once():
    engine = Engine(4, 2)
    request = engine.run([1])
    request.extend()
    engine.store(request, [0])
    request.finish()
    assert engine.free() == 4, "less than a page was known"
    engine.drain()


def test_sgl_18694_a_finished_request_cannot_be_preempted():
    engine = Engine(4)
    request = engine.run([1, 0])
    request.finish()
    before = engine.picture()
    with pytest.raises(RequestEnded):
        request.preempt()
    assert engine.picture() == before
    engine.drain()


@pytest.mark.parametrize("end", ["abort", "preempt"])
def test_sgl_38319_an_abort_leaves_to_the_cache_what_was_committed(end):
    engine = Engine(4)
    first = engine.run([1])
    first.commit()
    first.extend(2)
    getattr(first, end)()
    second = engine.run([1, 0])
    assert second.cached_len == 1
    engine.check()
    engine.drain()


def test_sgljax_984_an_abort_between_chunks_gives_pages_row_and_lock_back():
    engine = Engine(4, max_requests=1)
    for committed in (False, True):
        request = engine.begin([0, 1, 1], max_tokens=1)
        engine.store(request)
        if committed:
            request.commit()
        request.abort()
        assert engine.sizes() == (int(committed), 0)
        engine.check()
    engine.drain()


def test_kvc_430_an_evict_that_fails_midway_loses_no_page(monkeypatch):
    engine = Engine(4)
    engine.cache([5, 6])
    before = engine.picture()

    def fails(*_arguments):
        raise MemoryError("planted")

    monkeypatch.setattr(engine.manager.core, "choose_victims", fails)
    with pytest.raises(MemoryError):
        engine.begin([1, 2, 3, 4])
    assert engine.free() == 2
    assert engine.picture() == before
    monkeypatch.undo()
    engine.begin([1, 2, 3, 4])
    engine.requests.check_ledger()


def test_kvc_401_of_two_copies_in_flight_the_second_is_freed():
    engine = Engine(4)
    first, second = engine.run([1, 0]), engine.run([1, 0])
    first.finish()
    second.finish()
    assert (engine.free(), engine.sizes()) == (2, (2, 0))
    engine.begin([2, 2, 2]).abort()  # evicts one copy, which was the only one
    assert match(engine.manager, 1, 0).cached_len == 0
    engine.drain()


def test_vllm_18957_what_a_refused_admission_had_matched_is_matched_anew():
    engine = Engine(4)
    engine.cache([0, 0])
    blocker = engine.run([5])
    with pytest.raises(NoRoom):
        engine.begin([0, 0, 1, 1])
    blocker.abort()
    engine.begin([7, 7, 7, 7]).abort()  # evicts [0 0]
    again = engine.run([0, 0, 1, 1])
    assert again.cached_len == 0
    engine.check()


@pytest.mark.parametrize("end", ["abort", "preempt", "finish", "commit"])
def test_vllm_43569_nothing_is_published_before_it_is_stored(end):
    engine = Engine(8)
    first = engine.begin([1, 0, 1])
    getattr(first, end)()
    assert engine.sizes() == (0, 0)
    assert engine.run([1, 0, 1, 0]).cached_len == 0
    engine.requests.check_ledger()


def test_vllm_11562_a_refused_admission_leaves_every_count_unchanged():
    engine = Engine(6)
    first = engine.run([1, 0, 0, 1])
    first.commit()
    before = engine.picture()
    with pytest.raises(NoRoom):
        engine.begin([1, 1, 1, 1])
    assert engine.picture() == before
    first.finish()
    assert engine.sizes() == (4, 0)
    engine.drain()


def test_omlx_1450_a_request_rejected_in_its_second_chunk_keeps_nothing_locked():
    engine = Engine(4)
    request = engine.begin([1, 0, 1, 1], max_tokens=2)
    engine.store(request)
    request.commit()
    other = engine.run([7])
    with pytest.raises(NoRoom):
        request.extend(2)
    request.abort()
    other.abort()
    assert engine.sizes() == (2, 0)
    engine.drain()


def test_sgl_32016_only_the_shortfall_is_evicted():
    engine = Engine(6)
    engine.cache([0, 0, 1, 1])
    engine.begin([0, 0, 9]).abort()  # splits after [0 0]
    request = engine.run([1, 1, 1])  # 3 are needed, 2 are free
    assert engine.sizes() == (2, 0)
    assert match(engine.manager, 0, 0, 1).cached_len == 2
    assert engine.free() == 1
    request.abort()
    engine.drain()


def test_msg_80_what_is_evicted_becomes_pages_and_not_slots():
    engine = Engine(4, 2)
    engine.cache([1, 1])
    second = engine.run([0, 1, 1, 0])
    second.finish()
    third = engine.run([0, 1, 0, 1])
    assert third.cached_len == 2
    engine.check()
    fourth = engine.begin([9, 9, 9, 9])
    assert sorted(set(fourth.slots() // 2)) == sorted(fourth.slots()[::2] // 2)
    engine.requests.check_ledger()
    with pytest.raises(NoRoom):
        third.extend()
    engine.requests.check_ledger()
    engine.drain()


@pytest.mark.parametrize("page_size", [1, 2])
def test_vllm_3239_of_a_prompt_that_is_all_cached_a_token_is_left(page_size):
    engine = Engine(8, page_size)
    first = engine.run([1, 0, 0, 1])
    first.commit()
    second = engine.run([1, 0, 0, 1])
    assert lengths(second) == (4 - page_size, 4, 4, 4)
    second.commit()
    assert lengths(second) == (4, 4, 4, 4)
    assert second.slots().tolist() == first.slots().tolist()
    engine.check()
    first.finish()
    engine.check()
    engine.drain()


@pytest.mark.parametrize("step", ["commit", "finish"])
def test_kt_2184_namespaces_never_meet_through_requests(step):
    engine = Engine(16)
    for namespace in (None, "", "a", "b"):
        request = engine.run([1, 0, 1], namespace=namespace)
        assert request.cached_len == 0
        getattr(request, step)()
        assert engine.begin([1, 0, 2], namespace=namespace).cached_len == 2
        engine.requests.check_ledger()
        for running in engine.requests.running:
            running.abort()
    assert engine.sizes() == (12, 0)
    engine.check()


def test_atlas_373_a_duplicate_of_a_running_request_is_not_evicted_under_it():
    engine = Engine(6)
    first, second = engine.run([1, 0]), engine.run([1, 0])
    second.finish()
    third = engine.run([0, 0, 7, 7])  # evicts what the second left
    engine.check()
    assert engine.sizes() == (0, 0)
    first.finish()
    third.abort()
    engine.drain()


def test_sgl_22753_the_ledger_holds_while_a_request_goes_on_with_a_prefix_of_others():
    engine = Engine(8)
    engine.cache([1, 0])
    request = engine.run([1, 0, 1])
    engine.check()
    other = engine.run([1, 0, 2])
    engine.check()
    request.abort()
    engine.check()
    other.finish()
    engine.drain()


def test_lmc_2954_two_that_share_a_prefix_give_back_one_lock_each():
    engine = Engine(6)
    engine.cache([1, 0])
    first, second = engine.begin([1, 0, 1]), engine.begin([1, 0, 2])
    first.abort()
    with pytest.raises(RequestEnded):
        first.abort()
    with pytest.raises(NotEvictable):
        engine.manager.evict(1)
    second.abort()
    engine.drain()


@pytest.mark.parametrize("end", ["finish", "abort", "preempt"])
@pytest.mark.parametrize("page_size", [1, 2])
def test_a_token_whose_value_came_late_does_no_harm_whatever_ends_the_request(page_size, end):
    """Slots first, values later, and the end in between."""
    engine = Engine(12, page_size)
    request = engine.run([1, 2, 3])
    request.extend()
    engine.store(request, [4])
    request.extend()
    request.append([4])
    request.commit()
    assert request.cached_len == 4
    assert lengths(request) == (4, 4, 5, 4)
    engine.store(request, [5])
    getattr(request, end)()
    assert engine.sizes() == (4, 0)
    engine.drain()
