"""Handles are known as long as they live, and not kept alive."""

from __future__ import annotations

import gc
from typing import NamedTuple

from kvref.recording.handles import Handles


class Plain:
    pass


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = None


class Tuple(NamedTuple):
    """Of which no weak reference can be had."""

    cached_len: int


def test_each_handle_has_the_match_that_made_it():
    handles, made = Handles(), [Plain(), Plain(), Equal(), Equal()]
    for index, handle in enumerate(made):
        handles.add(handle, 1, index)
    assert [handles.find(handle, 1) for handle in made] == [0, 1, 2, 3]
    assert handles.find(Plain(), 1) is None
    assert handles.find(made[0], 2) is None


def test_one_object_that_is_handed_out_again_has_the_latest():
    handles, handle = Handles(), Plain()
    handles.add(handle, 1, 0)
    handles.add(handle, 2, 7)
    assert handles.find(handle, 2) == 7
    assert len(handles) == 1


def test_what_the_caller_lets_go_is_forgotten():
    handles = Handles()
    for index in range(1000):
        handles.add(Plain(), 1, index)
    gc.collect()
    assert len(handles) == 0


def test_of_those_without_weak_references_the_newest_are_kept():
    handles, made = Handles(strong=3), [Tuple(n) for n in range(5)]
    for index, handle in enumerate(made):
        handles.add(handle, 1, index)
    assert [handles.find(handle, 1) for handle in made] == [None, None, 2, 3, 4]
    assert len(handles) == 3
    handles.add(made[2], 2, 9)
    assert handles.find(made[2], 2) == 9
