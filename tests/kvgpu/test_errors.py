"""Errors go from one process to another, as pytest-xdist and engines send them, fields and all."""

from __future__ import annotations

import copy
import pickle

import pytest

import kvgpu
from kvgpu import KVCacheError, RequestState, errors

EXAMPLES = [
    errors.KVCacheError("said"),
    errors.InvalidType("tokens", "a str", "ints"),
    errors.InvalidValue("size", "-1", "at least 0"),
    errors.InvalidIndex("layer_id", "9", "0..1"),
    errors.StaleHandle(4),
    errors.ForeignHandle(4),
    errors.UnbalancedUnlock(4),
    errors.NotEvictable(3, 2),
    errors.EvictionUnsupported(3),
    errors.CacheInUse(5),
    errors.OutOfPages(3, 2),
    errors.NoRoom(3, 1, 1),
    errors.TooManyRequests(8),
    errors.RequestEnded(RequestState.ABORTED),
    errors.IntegrityError("locks-wrong", "/1,2", "1, not 2"),
    errors.LedgerError("page-lost", [3], "1 of nobody: 3"),
]


def test_each_error_of_the_family_has_its_example():
    family = {error for error in vars(kvgpu).values() if isinstance(error, type)}
    family = {error for error in family if issubclass(error, KVCacheError)}
    assert {type(error) for error in EXAMPLES} == family


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("send", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])
def test_a_copy_says_the_same_with_the_same_fields(error, send):
    error = copy.copy(error)
    error.add_note("while a test looked")
    again = send(error)
    assert type(again) is type(error)
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
