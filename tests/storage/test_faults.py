"""The suite catches every planted fault, and nothing without one."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from kvgpu import mha_pool
from kvstrategies.tensors import (
    INDEX_DTYPES,
    page_moves,
    pool_shapes,
    rows_to_store,
    slot_lists,
)
from tests.faults.storage_faults import STORAGE_FAULTS, planted
from tests.storage import test_large_pools, test_refusals, test_tp
from tests.storage.properties import examples
from tests.storage.suite import check_copy, check_load, check_store, check_views
from tests.storage.targets import INTERPRETED, Target

# No shrinking: that a fault is caught is asked, not how small. No database, and the same examples
# each time: a fault that only luck catches is one that the suite does not catch.
_HUNT = {"phases": [Phase.generate], "database": None, "derandomize": True}


def hunt_store(target, number=100):
    @examples(number, **_HUNT)
    @given(data=st.data())
    def run(data):
        shape = data.draw(pool_shapes())
        check_store(target, shape, data.draw(rows_to_store(shape, outside=not target.looks)))

    run()


def hunt_load(target, number=50):
    @examples(number, **_HUNT)
    @given(data=st.data())
    def run(data):
        shape = data.draw(pool_shapes())
        slots = data.draw(slot_lists(shape.num_slots, distinct=False, outside=not target.looks))
        check_load(target, shape, slots, 0, data.draw(st.sampled_from(INDEX_DTYPES)), 1)

    run()


def hunt_copy(target, number=50):
    @examples(number, **_HUNT)
    @given(data=st.data())
    def run(data):
        shape = data.draw(pool_shapes())
        check_copy(target, shape, data.draw(page_moves(shape, outside=not target.looks)))

    run()


def hunt_views(target, number=20):
    @examples(number, **_HUNT)
    @given(shape=pool_shapes())
    def run(shape):
        check_views(target, shape)

    run()


def hunt_refusals(target, number=0):
    for case in test_refusals.STORES:
        test_refusals.test_store_kv_refuses_and_changes_nothing(target, *case)
    for case in test_refusals.CHECKED_STORES:
        test_refusals.test_a_checked_store_names_the_first_bad_slot(target, *case)
    for case in test_refusals.CHECKED_COPIES:
        test_refusals.test_a_checked_copy_names_the_first_bad_page(target, *case)


def hunt_large(target, number=0):
    test_large_pools.check_large(target, test_large_pools.NARROW, page_first=False)


HUNTS = {
    "store": hunt_store,
    "load": hunt_load,
    "copy": hunt_copy,
    "views": hunt_views,
    "refusals": hunt_refusals,
    "large": hunt_large,
}


def hunt(operation: str, module, implementation, **options) -> None:
    """Look for what is wrong with one operation; raises where something is."""
    if operation == "heads":
        test_tp.check_heads(module)
        return
    target = Target("hunted", "cpu", not INTERPRETED, module.MHAKVCache, implementation)
    HUNTS[operation](target, **options)


# What only a compiled kernel shows is in test_compile.py.
FAULTS_HERE = [
    fault
    for fault in STORAGE_FAULTS
    if fault.operation != "compile" and fault.triton == INTERPRETED
]


@pytest.mark.parametrize("fault", FAULTS_HERE, ids=lambda fault: fault.name)
def test_the_suite_catches(fault, tmp_path):
    # An IndexError of torch is what is left where the check before it lost a bad index.
    caught = (AssertionError, pytest.fail.Exception, IndexError)
    with planted(fault, tmp_path) as (module, implementation), pytest.raises(caught):
        hunt(fault.operation, module, implementation)


@pytest.mark.parametrize("operation", HUNTS)
def test_the_suite_finds_nothing_where_nothing_was_planted(operation, tmp_path):
    """So that what is caught above is the fault, and not that modules were loaded anew."""
    fault = STORAGE_FAULTS[-1 if INTERPRETED else 0]
    harmless = dataclasses.replace(fault, name="as-it-is", new=fault.old)
    with planted(harmless, tmp_path) as (module, implementation):
        assert module is not mha_pool
        hunt(operation, module, implementation, number=20)


def test_the_registry_is_in_order():
    names = [fault.name for fault in STORAGE_FAULTS]
    assert len(set(names)) == len(names) > 30
    for fault in STORAGE_FAULTS:
        assert fault.source() != "", fault.name
        assert fault.origin, fault.name
        assert fault.breaks, fault.name
