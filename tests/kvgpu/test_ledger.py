"""Each kind of damage to pages, rows and locks is made by itself, and named by the ledger."""

from __future__ import annotations

import pytest

from kvgpu import IntegrityError, LedgerError, integrity, ledger
from kvgpu.radix_node import Node
from tests.kvgpu.engine import Engine
from tests.kvgpu.trees import insert

DAMAGES = {}


def damage(kind, words):
    def register(make):
        DAMAGES[make.__name__.replace("_", " ")] = (kind, words, make)

    return register


class Setting:
    """Pages of two slots, ten of them; two requests share [0 0], one of them has committed more."""

    def __init__(self):
        self.engine = Engine(10, 2, max_requests=3)
        self.engine.cache([0, 0, 7, 7])
        self.first = self.engine.run([0, 0, 1, 1, 5])
        self.second = self.engine.run([0, 0, 2, 2, 5], namespace=None)
        self.first.commit()
        self.engine.check()
        self.requests = self.engine.requests
        self.allocator = self.requests.allocator
        self.host = self.requests.page_table.host
        self.steps = self.requests.steps


@damage(ledger.PAGE_LOST, "of nobody")
def a_page_taken_that_no_request_has(it):
    it.allocator.allocate(1)


@damage(ledger.PAGE_LOST, "of nobody")
def a_request_forgotten_that_had_pages(it):
    it.steps.page_table.give_back_row(it.second.row)
    it.steps.core.unlock_path(it.second.node)
    del it.steps.running[it.second.row]


@damage(ledger.PAGE_LOST, "1 of nobody")
def an_evict_behind_the_requests_back(it):
    it.engine.manager.evict(2)


@damage(ledger.PAGE_OWNED_TWICE, "free, row 1")
def a_page_freed_that_a_request_still_has(it):
    it.allocator.free([it.host[1, 2]])


@damage(ledger.PAGE_OWNED_TWICE, "free, cached")
def a_page_freed_that_is_cached(it):
    it.allocator.free([it.host[0, 1]])


@damage(ledger.PAGE_OWNED_TWICE, "row 0, row 1")
def a_page_that_two_requests_have(it):
    it.allocator.free([it.host[1, 2]])
    it.allocator.allocate(1)
    it.host[1, 2] = it.host[0, 2]


@damage(ledger.PAGE_OWNED_TWICE, "cached, row 1")
def an_own_page_that_is_the_cache_s(it):
    it.host[1, 2] = it.host[0, 1]


@damage(ledger.PAGE_OWNED_TWICE, "free, free")
def a_page_free_twice(it):
    page = it.allocator.allocate(1)[0]
    it.allocator.free([page])
    it.allocator._is_free[page] = False
    it.allocator.free([page])


@damage(ledger.PAGE_OUT_OF_RANGE, "page -1 of row 1, outside 0..9")
def a_negative_page_in_a_row(it):
    it.host[1, 1] = -1


@damage(ledger.PAGE_OUT_OF_RANGE, "page 10 of row 0, outside 0..9")
def a_page_beyond_the_pool_in_a_row(it):
    it.host[0, 2] = 10


@damage(ledger.PAGE_OUT_OF_RANGE, "page 10 of cached")
def a_page_beyond_the_pool_in_the_cache(it):
    insert(it.engine.manager, [4, 4], [20, 21])


@damage(ledger.ROW_NOT_THE_CACHE_S, "row 0 names")
def a_row_that_names_other_pages_than_the_cache_for_its_prefix(it):
    it.host[0, 1] = it.host[0, 2]


@damage(ledger.PREFIX_NOT_CACHED, "its prefix is not in the cache")
def a_request_without_a_node_for_its_prefix(it):
    it.second.node = None


@damage(ledger.PREFIX_NOT_CACHED, "its prefix is not in the cache")
def a_request_that_names_a_node_of_no_tree(it):
    it.second.node = Node(None, b"", it.host[0, :1], 2)


@damage(ledger.PREFIX_NOT_CACHED, "its prefix is not in the cache")
def a_request_that_names_the_node_of_another_length(it):
    it.second.node = it.first.node


@damage(ledger.PREFIX_NOT_CACHED, "of other tokens")
def a_request_of_another_namespace(it):
    it.second.namespace = "a"


@damage(ledger.PREFIX_NOT_CACHED, "of other tokens")
def a_request_of_other_tokens(it):
    it.second.tokens[0] = 9


@damage(ledger.LOCK_MISSING, "a prefix of 2 tokens has 0 locks, and 1 requests use it")
def a_lock_given_back_too_early(it):
    it.steps.core.unlock_path(it.second.node)


@damage(ledger.LOCK_LEFT_OVER, "a prefix of 2 tokens has 2 locks, and 1 requests use it")
def a_lock_that_nobody_gave_back(it):
    it.steps.core.lock_path(it.second.node)


@damage(ledger.REQUEST_LENGTHS, "in row 1")
def more_cached_than_stored(it):
    it.second.stored_len = 0


@damage(ledger.REQUEST_LENGTHS, "in row 1")
def more_stored_than_there_are_slots(it):
    it.second.stored_len = 6


@damage(ledger.REQUEST_LENGTHS, "in row 1")
def more_slots_than_a_request_may_have(it):
    it.second.extended_len = 21


@damage(ledger.REQUEST_LENGTHS, "in row 1")
def a_part_page_cached(it):
    it.second.cached_len = 1


@damage(ledger.REQUEST_LENGTHS, "in row 1")
def fewer_than_none_cached(it):
    it.second.cached_len = -2


@damage(ledger.REQUEST_LENGTHS, "in row 1")
def less_known_than_cached(it):
    it.second.known_len = 1


@damage(ledger.REQUEST_LENGTHS, "in row 1")
def more_known_than_there_are_tokens(it):
    it.second.known_len = len(it.second.tokens) + 1


@damage(ledger.ROW_MISPLACED, "in row 1 says 0")
def two_requests_in_one_row(it):
    it.second.row = 0


@damage(ledger.ROW_MISPLACED, "free [1, 2], in use [0, 1]")
def a_row_free_that_is_in_use(it):
    it.steps.page_table.give_back_row(1)


@damage(ledger.ROW_MISPLACED, "free [], in use [0, 1]")
def a_row_lost(it):
    it.steps.page_table.take_row()


@damage(ledger.REQUEST_ENDED, "in row 1")
def an_ended_request_among_those_that_run(it):
    it.second.state = type(it.second.state).ABORTED


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_with_its_pages_and_owners(name):
    kind, words, make = DAMAGES[name]
    setting = Setting()
    make(setting)
    before = setting.engine.picture()
    with pytest.raises(LedgerError) as caught:
        setting.requests.check_ledger()
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert error.damage == kind
    assert words in error.details
    assert str(error) == f"{kind}: {error.details}"
    assert bool(error.pages) == (kind.startswith("page") or kind == ledger.ROW_NOT_THE_CACHE_S)
    assert all(type(page) is int for page in error.pages)
    assert setting.engine.picture() == before, "a check changes nothing"


def test_every_kind_of_damage_is_made_here():
    kinds = {getattr(ledger, name) for name in dir(ledger) if name.isupper() and name[0] != "_"}
    assert {kind for kind, _, _ in DAMAGES.values()} == kinds


def test_a_damaged_cache_is_named_as_such():
    setting = Setting()
    setting.engine.manager.core.evictable_size += 1
    with pytest.raises(IntegrityError) as caught:
        setting.requests.check_ledger()
    assert caught.value.damage == integrity.SIZES_WRONG


def test_many_lost_pages_are_named_up_to_a_limit():
    engine = Engine(40)
    engine.requests.allocator.allocate(20)
    with pytest.raises(LedgerError) as caught:
        engine.requests.check_ledger()
    assert len(caught.value.pages) == 20
    assert str(caught.value).count(",") == 7


def test_a_manager_that_nothing_was_done_with_is_whole():
    for naive in (False, True):
        Engine(naive=naive).requests.check_ledger()
