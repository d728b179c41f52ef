"""The oracle of the baseline that remembers nothing."""

from __future__ import annotations

import pytest

from kvref.configuration import Configuration
from kvref.naive_oracle import NaiveOracle
from kvref.oracle import EMPTY, Handle, Oracle
from kvref.refusals import Refusal, RefusalKind, Refused


def test_it_never_finds_anything_and_claims_that_all_whole_pages_were_there():
    cache = NaiveOracle(Configuration(page_size=2))
    assert cache.insert_prefix([1, 2, 3], [0, 1, 2]) == 2
    assert cache.match_prefix([1, 2]) == (EMPTY, [])
    assert cache.cached_slots([1, 2]) == cache.nodes() == cache.reset() == cache.evict(0) == []
    assert 0 not in cache.held
    assert (cache.evictable_size, cache.protected_size) == (0, 0)
    cache.recompute()


def test_beside_the_radix_cache_it_computes_the_shared_tokens_again():
    # Two requests of 6 and 5 tokens that begin with the same two words.
    first, second = [1, 2, 3, 4, 5, 6], [1, 2, 7, 8, 9]
    computed = {}
    for cache in (NaiveOracle(Configuration()), Oracle(Configuration(num_pages=16))):
        computed[type(cache).__name__] = 0
        for tokens, slots in ((first, range(6)), (second, range(6, 11))):
            handle, own = cache.match_prefix(tokens)
            computed[type(cache).__name__] += len(tokens) - handle.cached_len
            cache.insert_prefix(tokens, [*own, *list(slots)[len(own) :]])
    assert computed == {"NaiveOracle": 11, "Oracle": 9}


def test_any_handle_may_be_locked_and_unlocked():
    cache = NaiveOracle(Configuration())
    cache.lock_handle(EMPTY, unlock=True)
    cache.lock_handle(Handle(None, None, 3))


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (lambda cache: cache.insert_prefix([1], []), Refusal(RefusalKind.VALUE)),
        (lambda cache: cache.lock_handle(None), Refusal(RefusalKind.TYPE)),
        (lambda cache: cache.evict(True), Refusal(RefusalKind.TYPE)),
        (lambda cache: cache.evict(1.0), Refusal(RefusalKind.TYPE)),
        (lambda cache: cache.evict(-1), Refusal(RefusalKind.VALUE)),
        (lambda cache: cache.evict(2), Refusal(RefusalKind.UNSUPPORTED, {"needed": 2})),
    ],
)
def test_it_refuses_what_the_contract_says(call, refusal):
    with pytest.raises(Refused) as caught:
        call(NaiveOracle(Configuration()))
    assert caught.value.refusal == refusal
