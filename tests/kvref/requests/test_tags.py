"""Tags: one for each prefix, and words for each."""

from __future__ import annotations

from kvref.requests.tags import Tags


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
    last = tags.follow(range(20))[-1]
    assert tags.words(last) == (
        "the token 19 after [7 tokens, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]"
    )
