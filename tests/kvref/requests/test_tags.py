"""Tags: one for each prefix, and words for each."""

from __future__ import annotations

import pytest

from kvref.requests.tags import HashedTags, Tags


def test_a_tag_names_the_whole_prefix():
    tags = Tags()
    assert tags.follow((5, 5, 6)) == [0, 1, 2]
    assert tags.follow((5, 6)) == [0, 3]
    assert tags.follow((6,)) == [4]
    assert tags.follow((5, 5, 6, 7)) == [0, 1, 2, 5]
    assert len(tags) == 6


def test_namespaces_have_tags_of_their_own():
    tags = Tags()
    assert tags.follow((5,)) == [0]
    assert tags.follow((5,), "a") == [1]
    assert tags.follow((5,), "") == [2]
    assert tags.follow((5,)) == [0]


def test_a_prefix_may_be_continued():
    tags = Tags()
    first = tags.follow((5, 6))
    assert tags.follow((7,), None, first[-1]) == [2]
    assert tags.follow((5, 6, 7)) == [0, 1, 2]


def test_after_tag_0_too():
    tags = Tags()
    assert tags.follow((5, 6)) == [0, 1]
    assert tags.follow((6,), after=0) == [1]
    assert tags.words(1) == "the token 6 after [5]"


@pytest.mark.parametrize("after", [0, 9])
def test_a_hash_that_is_continued_names_its_namespace_already(after):
    hashed = HashedTags(40)
    assert hashed.follow((5,), "a", after) == hashed.follow((5,), None, after)


def test_hashes_tell_prefixes_and_namespaces_apart_and_have_so_many_bits():
    hashed = HashedTags(40)
    tokens = hashed.follow(range(100))
    other = hashed.follow(range(100), "a")
    assert len({*tokens, *other}) == 200
    assert hashed.follow(range(50, 100), None, tokens[49]) == tokens[50:]
    assert all(0 <= tag < 2**40 for tag in tokens)
    assert set(HashedTags(1).follow(range(100))) == {0, 1}


def test_words():
    tags = Tags()
    tags.follow((5, 6, 3))
    tags.follow((5, 3), "a")
    assert tags.words(0) == "the token 5 after []"
    assert tags.words(2) == "the token 3 after [5, 6]"
    assert tags.words(4) == "the token 3 after [5] of namespace 'a'"
    assert tags.words(9) == "the tag 9, which no prefix here has"


def test_long_prefixes_are_shown_by_their_end():
    tags = Tags()
    assert tags.words(tags.follow(range(13))[-1]) == (
        "the token 12 after [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]"
    )
    last = tags.follow(range(20))[-1]
    assert tags.words(last) == (
        "the token 19 after [7 tokens, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]"
    )
