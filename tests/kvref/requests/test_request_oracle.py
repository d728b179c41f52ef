"""The oracle of requests, line by line as the contract has it, against values found by hand."""

from __future__ import annotations

import pytest

from kvref.refusals import Refusal, RefusalKind, Refused
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.ledger import CACHE, FREE, Ledger
from kvref.requests.oracle import Need, RequestOracle

KIND = RefusalKind


def oracle(pages: int = 6, size: int = 1, **options) -> RequestOracle:
    configured = {
        name: options.pop(name) for name in ("policy", "max_requests", "max_len") if name in options
    }
    return RequestOracle(
        RequestConfiguration(page_size=size, num_pages=pages, **configured), **options
    )


def begin(made: RequestOracle, number: int, *tokens: int, slots=None, **options) -> Need:
    """Begin, and take the lowest free pages (or these slots)."""
    need = made.begin(number, tokens, **options)
    give(made, number, need, slots)
    return need


def extend(made: RequestOracle, number: int, count: int) -> Need:
    need = made.extend(number, count)
    give(made, number, need)
    return need


def give(made: RequestOracle, number: int, need: Need, slots=None) -> None:
    made.evict(need.missing)
    size, row = made._size, made.requests[number].row
    if slots is None:
        begun = -len(row) % size
        slots = [row[-1] + 1 + at for at in range(begun)]
        for page in sorted(made.ledger.held_by(FREE))[: need.pages]:
            slots += range(page * size, (page + 1) * size)
        slots = slots[: need.tokens]
    assert made.wrong_slots(number, need, slots) is None
    made.take(number, slots)
    made.recompute()


def whole(made: RequestOracle, number: int, *tokens: int, **options) -> None:
    """A request from its begin to its end."""
    begin(made, number, *tokens, **options)
    made.store(number)
    made.finish(number)
    made.recompute()


def refusal(function, *args, **kwargs) -> Refusal:
    with pytest.raises(Refused) as caught:
        function(*args, **kwargs)
    return caught.value.refusal


def lengths(made: RequestOracle, number: int) -> tuple[int, int, int, int]:
    request = made.requests[number]
    return len(request.tokens), len(request.row), request.stored_len, request.cached_len


def sizes(made: RequestOracle) -> tuple[int, int, int]:
    """Evictable, protected, free pages."""
    return made.cache.evictable_size, made.cache.protected_size, made.ledger.num_free


class TestBegin:
    def test_an_empty_cache_matches_nothing(self):
        made = oracle()
        assert begin(made, 0, 7, 8, 9) == Need(tokens=3, pages=3, missing=0)
        assert lengths(made, 0) == (3, 3, 0, 0)
        assert sizes(made) == (0, 0, 3)

    def test_one_token_is_left_to_compute(self):
        made = oracle()
        whole(made, 0, 7, 8)
        assert begin(made, 1, 7, 8) == Need(1, 1, 0)
        assert lengths(made, 1) == (2, 2, 1, 1)
        assert sizes(made) == (1, 1, 3)

    def test_whole_pages_are_matched(self):
        made = oracle(size=2)
        whole(made, 0, 1, 2, 3, 4)
        assert begin(made, 1, 1, 2, 3, 4) == Need(2, 1, 0)
        assert begin(made, 2, 1, 2, 3, 4, 5) == Need(1, 1, 0)
        assert (lengths(made, 1)[3], lengths(made, 2)[3]) == (2, 4)

    def test_what_was_matched_is_locked_and_in_the_row(self):
        made = oracle()
        whole(made, 0, 7, 8, slots=[4, 2])
        begin(made, 1, 7, 8, 9)
        assert made.requests[1].row[:2] == [4, 2]
        assert sizes(made)[:2] == (0, 2)

    def test_namespaces_do_not_meet(self):
        made = oracle()
        whole(made, 0, 7, 8, namespace="a")
        assert begin(made, 1, 7, 8, 9) == Need(3, 3, 0)
        assert begin(made, 2, 7, 8, namespace="a") == Need(1, 1, 0)

    def test_a_chunk_is_counted_after_the_match(self):
        made = oracle(size=2, pages=8)
        whole(made, 0, 1, 2)
        assert begin(made, 1, 1, 2, 3, 4, 5, 6, max_tokens=3) == Need(3, 2, 0)
        assert lengths(made, 1) == (6, 5, 2, 2)
        assert begin(made, 2, 1, 2, 3, max_tokens=9) == Need(1, 1, 0)

    @pytest.mark.parametrize(
        ("tokens", "options"),
        [((), {}), ((1,), {"max_tokens": 0}), ((1,), {"max_tokens": -1}), ((1,) * 7, {})],
    )
    def test_what_can_never_be(self, tokens, options):
        assert refusal(oracle().begin, 0, tokens, **options) == Refusal(KIND.VALUE)

    def test_the_longest_may_be_given(self):
        made = oracle(max_len=2)
        assert refusal(made.begin, 0, (1, 2, 3)) == Refusal(KIND.VALUE)
        begin(made, 0, 1, 2)
        assert refusal(made.extend, 0, 1) == Refusal(KIND.VALUE)

    def test_no_more_than_max_requests(self):
        made = oracle(max_requests=1)
        begin(made, 0, 1)
        assert refusal(made.begin, 1, (1,)) == Refusal(KIND.TOO_MANY, {"running": 1})
        made.abort(0)
        begin(made, 1, 1)


class TestRoom:
    def test_it_just_fits_and_just_does_not(self):
        made = oracle(pages=4)
        begin(made, 0, 1)
        assert refusal(made.begin, 1, (2, 2, 2, 2)) == Refusal(
            KIND.NO_ROOM, {"needed": 4, "free": 3, "evictable": 0}
        )
        begin(made, 1, 2, 2, 2)
        assert sizes(made) == (0, 0, 0)

    def test_its_own_match_is_not_there_to_be_evicted(self):
        made = oracle(pages=4)
        whole(made, 0, 1, 2, 3)
        begin(made, 1, 9)
        # 3 cached, of which [1, 2] match: 2 more are needed, and 1 may be evicted.
        assert refusal(made.begin, 2, (1, 2, 4, 4)) == Refusal(
            KIND.NO_ROOM, {"needed": 2, "free": 0, "evictable": 1}
        )

    def test_a_match_that_another_locks_is_not_counted_twice(self):
        made = oracle(pages=4)
        whole(made, 0, 1, 2)
        begin(made, 1, 1, 3)
        # [1] is locked by 1, and [1, 2] is cached: of 2 evictable at first, 1 is left.
        assert made.room(made.cache.walk([1])) == (1, 1)
        assert made.room(made.cache.walk([1, 2])) == (1, 0)

    def test_only_the_shortfall_goes_and_the_least_wanted_first(self):
        made = oracle(pages=4)
        whole(made, 0, 1)
        whole(made, 1, 2)
        need = begin(made, 2, 3, 3, 3)
        assert need == Need(3, 3, 1)
        assert made.cache.cached_slots((1,)) == []
        assert made.cache.cached_slots((2,)) == [1]
        assert sizes(made) == (1, 0, 0)

    def test_a_refused_begin_leaves_no_trace(self):
        made = oracle(pages=4)
        whole(made, 0, 1)
        whole(made, 1, 2)
        begin(made, 2, 9)
        refusal(made.begin, 3, (1, 3, 3, 3))
        begin(made, 3, 4, 4)
        assert made.cache.cached_slots((1,)) == []

    def test_or_that_of_a_match_where_that_is_all_that_can_be_had(self):
        made = oracle(pages=4, refused_begin_matches=True)
        whole(made, 0, 1)
        whole(made, 1, 2)
        begin(made, 2, 9)
        refusal(made.begin, 3, (1, 3, 3, 3))
        begin(made, 3, 4, 4)
        assert made.cache.cached_slots((1,)) == [0]
        assert made.cache.cached_slots((2,)) == []

    def test_extending_takes_pages_at_their_ends_alone(self):
        made = oracle(pages=4, size=2)
        begin(made, 0, 1)
        assert extend(made, 0, 1) == Need(1, 0, 0)
        assert extend(made, 0, 1) == Need(1, 1, 0)
        assert extend(made, 0, 3) == Need(3, 1, 0)
        assert made.requests[0].row == [0, 1, 2, 3, 4, 5]
        assert refusal(made.extend, 0, 0) == Refusal(KIND.VALUE)

    def test_extending_evicts_what_is_missing(self):
        made = oracle(pages=4)
        whole(made, 0, 1)
        whole(made, 1, 2)
        begin(made, 2, 3)
        assert extend(made, 2, 2) == Need(2, 2, 1)
        assert sizes(made) == (1, 0, 0)

    def test_without_room_an_extend_changes_nothing(self):
        made = oracle(pages=3)
        begin(made, 0, 1)
        begin(made, 1, 2)
        assert refusal(made.extend, 0, 2) == Refusal(
            KIND.NO_ROOM, {"needed": 2, "free": 1, "evictable": 0}
        )
        assert lengths(made, 0) == (1, 1, 0, 0)


class TestTaking:
    """What is said against slots that a target gave."""

    @pytest.mark.parametrize(
        ("slots", "words"),
        [
            ([4, 5], "2 slots"),
            ([4, 5, 5], "slots [5], which are no page from its beginning on"),
            ([5, 4, 6], "slots [5, 4], which are no page from its beginning on"),
            ([4, 5, 4], "page 2 twice"),
            ([0, 1, 4], "page 0, which r0 owns"),
            ([2, 3, 4], "page 1, which the cache holds and r1 owned last"),
            ([4, 5, 12], "page 6, where the pool has pages 0 to 5"),
            ([-2, -1, 4], "page -1, where the pool has pages 0 to 5"),
        ],
    )
    def test_new_pages(self, slots, words):
        made = oracle(size=2)
        begin(made, 0, 9)
        whole(made, 1, 8, 8)
        need = made.begin(2, (1, 2, 3))
        assert made.wrong_slots(2, need, slots) == words
        assert made.wrong_slots(2, need, [6, 7, 4]) is None

    def test_the_page_that_is_begun(self):
        made = oracle(size=2)
        begin(made, 0, 9)
        need = made.extend(0, 2)
        words = "slot 4, which does not continue the page of slot 0"
        assert made.wrong_slots(0, need, [4, 5]) == words
        assert made.wrong_slots(0, need, [1, 4]) is None

    def test_a_page_that_was_given_back_says_whose_it_was(self):
        made = oracle()
        begin(made, 0, 9)
        made.abort(0)
        assert made.ledger.words(0) == "page 0, which is free and r0 owned last"
        assert made.ledger.words(1) == "page 1, which is free"


class TestPublishing:
    def test_nothing_is_published_before_it_is_stored(self):
        made = oracle()
        begin(made, 0, 1, 2)
        assert made.commit(0) == 0
        assert sizes(made) == (0, 0, 4)
        assert made.store(0) == 0
        assert made.commit(0) == 2
        assert sizes(made) == (0, 2, 4)

    def test_nor_before_its_values_are_known(self):
        made = oracle()
        begin(made, 0, 1)
        extend(made, 0, 2)
        assert made.store(0) == 0
        assert made.commit(0) == 1
        made.append(0, (2,))
        assert made.commit(0) == 2
        made.append(0, (3, 4, 5))
        assert made.commit(0) == 3

    def test_nor_part_of_a_page(self):
        made = oracle(size=2)
        begin(made, 0, 1, 2, 3)
        made.store(0)
        assert made.commit(0) == 2
        assert made.requests[0].row == [0, 1, 2]
        assert sizes(made) == (0, 2, 4)

    def test_a_store_begins_where_the_last_one_ended(self):
        made = oracle()
        begin(made, 0, 1, 2, 3, max_tokens=2)
        assert made.store(0) == 0
        extend(made, 0, 1)
        assert made.store(0) == 2
        assert made.store(0) == 3

    def test_a_duplicate_is_freed_and_the_row_shows_the_cache(self):
        made = oracle()
        begin(made, 0, 1, 2)
        begin(made, 1, 1, 2, 3)
        made.store(0)
        made.store(1)
        assert made.commit(0) == 2
        assert made.commit(1) == 3
        assert made.requests[1].row == [0, 1, 4]
        assert made.ledger.held_by(CACHE) == {0, 1, 4}
        assert made.ledger.held_by(FREE) == {2, 3, 5}
        assert sizes(made) == (0, 3, 3)
        made.recompute()

    def test_a_commit_moves_the_lock_and_the_next_one_finds_nothing_to_free(self):
        made = oracle()
        begin(made, 0, 1)
        made.store(0)
        made.commit(0)
        extend(made, 0, 1)
        made.append(0, (2,))
        made.store(0)
        assert made.commit(0) == 2
        assert made.commit(0) == 2
        assert [node.lock_count for node in made.cache.nodes()] == [1, 1]
        made.abort(0)
        assert sizes(made) == (2, 0, 4)

    def test_a_commit_refreshes_even_where_nothing_is_new(self):
        made = oracle(pages=3)
        whole(made, 0, 1)
        begin(made, 1, 1, 5)
        made.store(1)
        whole(made, 2, 2)
        made.commit(1)  # [1, 5] is later than [2] now
        made.abort(1)
        begin(made, 3, 3)
        assert made.cache.cached_slots((2,)) == []
        assert made.cache.cached_slots((1,)) != []


class TestEnds:
    def test_a_finish_publishes_and_frees_the_part_page(self):
        made = oracle(size=2)
        whole(made, 0, 1, 2, 3)
        assert sizes(made) == (2, 0, 5)
        assert made.requests[0].row == []
        assert not made.requests[0].running

    def test_a_finish_frees_duplicates(self):
        made = oracle()
        begin(made, 0, 1, 2)
        begin(made, 1, 1, 2)
        for number in (0, 1):
            made.store(number)
            made.finish(number)
        assert made.ledger.held_by(CACHE) == {0, 1}
        assert sizes(made) == (2, 0, 4)

    def test_a_finish_publishes_no_more_than_is_stored_and_known(self):
        made = oracle()
        begin(made, 0, 1, 2, max_tokens=1)
        made.store(0)
        extend(made, 0, 2)
        made.finish(0)
        assert sizes(made) == (1, 0, 5)

    def test_an_abort_keeps_what_was_committed(self):
        made = oracle()
        begin(made, 0, 1, 2)
        made.store(0)
        made.commit(0)
        extend(made, 0, 2)
        made.abort(0)
        assert sizes(made) == (2, 0, 4)

    def test_an_abort_publishes_nothing(self):
        made = oracle()
        begin(made, 0, 1, 2)
        made.store(0)
        made.abort(0)
        assert sizes(made) == (0, 0, 6)

    def test_a_preempted_request_says_what_it_knew(self):
        made = oracle()
        begin(made, 0, 1)
        extend(made, 0, 1)
        made.append(0, (2, 3))
        assert made.preempt(0) == [1, 2, 3]
        assert sizes(made) == (0, 0, 6)

    @pytest.mark.parametrize(
        ("step", "arguments"),
        [
            ("extend", (1,)), ("append", ((1,),)), ("store", ()), ("commit", ()),
            ("finish", ()), ("abort", ()), ("preempt", ()),
        ],
    )  # fmt: skip
    def test_what_has_ended_is_over(self, step, arguments):
        made = oracle()
        whole(made, 0, 1)
        assert refusal(getattr(made, step), 0, *arguments) == Refusal(KIND.ENDED)

    def test_a_flush_empties_the_cache(self):
        made = oracle()
        whole(made, 0, 1, 2)
        begin(made, 1, 1, 5)
        assert refusal(made.flush) == Refusal(KIND.IN_USE, {"protected_size": 1})
        made.abort(1)
        made.flush()
        assert sizes(made) == (0, 0, 6)
        made.recompute()


class TestRemembersNothing:
    def test_everything_stays_its_own(self):
        made = oracle(keeps_prefixes=False)
        begin(made, 0, 1, 2)
        made.store(0)
        assert made.commit(0) == 0
        assert lengths(made, 0) == (2, 2, 2, 0)
        assert made.ledger.held_by(0) == {0, 1}
        begin(made, 1, 1, 2)
        made.recompute()
        made.store(1)
        made.finish(1)
        made.finish(0)
        made.flush()
        assert sizes(made) == (0, 0, 6)

    def test_nothing_is_evictable(self):
        made = oracle(keeps_prefixes=False, pages=2)
        whole(made, 0, 1)
        assert made.room(made.cache.walk([1])) == (2, 0)
        begin(made, 1, 1, 1)
        assert refusal(made.extend, 1, 1) == Refusal(KIND.VALUE)
        assert refusal(made.begin, 2, (1,)) == Refusal(
            KIND.NO_ROOM, {"needed": 1, "free": 0, "evictable": 0}
        )


class TestOthersChoice:
    def test_it_is_followed_where_it_was_legal(self):
        made = oracle(pages=3)
        whole(made, 0, 1)
        whole(made, 1, 2)
        need = made.begin(2, (3, 3))
        assert need.missing == 1
        assert made.follow(1, [1]) is None
        assert made.wrong_slots(2, need, [1, 2]) is None
        made.take(2, [1, 2])
        made.recompute()
        assert made.cache.cached_slots((1,)) == [0]

    def test_and_said_why_it_was_not(self):
        made = oracle(pages=3)
        whole(made, 0, 1)
        made.begin(1, (3, 3, 3))
        assert made.follow(1, []) == "0 slots, fewer than the 1 asked for"


class TestRecount:
    def damaged(self) -> RequestOracle:
        made = oracle()
        whole(made, 0, 1)
        begin(made, 1, 2)
        return made

    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            (lambda made: made._running.clear(), "running"),
            (lambda made: made.ledger.move([0], CACHE, 1), "cached pages"),
            (lambda made: made.ledger.move([3], FREE, 1), "owned pages"),
            (lambda made: made.ledger.move([3], FREE, 9), "pages"),
            (lambda made: setattr(made.requests[1], "stored_len", 2), "lengths"),
            (lambda made: setattr(made.ledger, "num_free", 2), "free pages"),
            (lambda made: setattr(made.cache, "evictable_size", 9), ""),
        ],
    )
    def test_each_damage_is_named(self, damage, words):
        made = self.damaged()
        made.recompute()
        damage(made)
        with pytest.raises(AssertionError, match=f"^{words}"):
            made.recompute()

    def test_a_page_that_moves_from_the_wrong_holder_names_it(self):
        ledger = Ledger(2)
        ledger.move([0], FREE, 4)
        with pytest.raises(AssertionError, match=r"not 5's: page 0, which r4 owns"):
            ledger.move([0], 5, FREE)
