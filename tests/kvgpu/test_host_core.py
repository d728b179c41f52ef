"""What the cores offer to those who hold the mutex: plans beside each other, pages, nodes."""

from __future__ import annotations

import numpy as np
import pytest

from kvgpu import EvictionUnsupported, NaiveCacheManager, NotEvictable, RadixCacheManager
from kvgpu.host_core import HostManager
from kvgpu.radix_node import NO_PAGES
from tests.kvgpu.trees import RandomWalk, insert, match, picture, runs


def data(*tokens):
    return np.array(tokens, np.int64).tobytes()


def test_both_managers_have_a_core():
    assert isinstance(RadixCacheManager("cpu"), HostManager)
    assert isinstance(NaiveCacheManager("cpu"), HostManager)
    assert not isinstance(object(), HostManager)


@pytest.mark.parametrize("page_size", [1, 2, 3])
@pytest.mark.parametrize("policy", ["lru", "fifo"])
def test_an_evict_planned_beside_a_match_takes_what_one_after_its_lock_does(page_size, policy):
    """Two caches with one history: in one all is planned first, in the other done in order."""
    spared = cuts = 0
    for seed in range(60):
        planned, ordered = (RandomWalk(seed, page_size=page_size, policy=policy) for _ in "ab")
        for walk in (planned, ordered):
            for _ in range(40):
                walk.step()
        core = planned.manager.core
        for _ in range(20):  # until one finds something, mostly
            tokens, namespace = planned.prompt()
            tokens = tokens[: len(tokens) // page_size * page_size]
            keeping = core.plan_match(namespace, tokens.numpy().tobytes())
            if keeping.node is not None:
                break
        unlocked = core.unlocked_size(keeping)
        before = picture(planned.manager)

        handle, _ = ordered.manager.match_prefix(tokens, namespace=namespace)
        evictable = ordered.manager.size_info.evictable_size
        ordered.manager.lock_handle(handle)
        rest = ordered.manager.size_info.evictable_size
        assert unlocked == evictable - rest
        with pytest.raises(NotEvictable) as caught:
            core.plan_evict(rest + 1, keeping)
        assert (caught.value.needed, caught.value.evictable) == (rest + 1, rest)

        size = planned.random.randrange(rest + 1)
        plan = core.plan_evict(size, keeping)
        assert picture(planned.manager) == before
        assert plan.slots.tolist() == ordered.manager.evict(size).tolist()
        core.apply_match(keeping)
        if keeping.node is not None:
            core.lock_path(keeping.node)
        core.apply_evict(plan)
        planned.manager.check_integrity()
        assert runs(planned.manager) == runs(ordered.manager)
        assert planned.manager.size_info == ordered.manager.size_info
        spared += bool(plan.victims) and unlocked > 0
        cuts += keeping.cut is not None and keeping.cut.node in plan.victims
    assert spared > 5
    assert cuts > 0


def test_pages_of_a_prefix_from_any_page_on():
    manager = RadixCacheManager("cpu", page_size=2)
    insert(manager, [0, 0, 1, 1, 2, 2], [6, 7, 2, 3, 8, 9])
    match(manager, 0, 0, 1, 1)
    core = manager.core
    path = core.plan_match(None, data(0, 0, 1, 1, 2, 2)).path
    assert [len(node.pages) for node in path] == [2, 1]
    for start, pages in ((0, [3, 1, 4]), (2, [1, 4]), (4, [4]), (6, [])):
        assert core.pages_from(path, start).tolist() == pages
    assert core.pages_from([], 0).tolist() == []
    given = core.pages_from(path, 0)
    given[:] = 0
    assert core.pages_from(path, 0).tolist() == [3, 1, 4]


def test_an_insert_plan_names_the_node_that_a_match_would():
    manager = RadixCacheManager("cpu")
    core = manager.core
    for tokens in ((0, 1, 2), (0, 1, 3), (0, 1), (0, 1, 2)):
        plan = core.plan_insert(None, data(*tokens), np.array([*tokens], np.int32))
        core.apply_insert(plan)
        assert plan.node is core.plan_match(None, data(*tokens)).node
    assert core.plan_insert(None, b"", NO_PAGES).node is None


def test_nodes_are_all_there_are():
    walk = RandomWalk(3)
    for _ in range(60):
        walk.step()
    nodes = list(walk.manager.core.nodes())
    assert (
        len(nodes)
        == len(set(nodes))
        == len(picture(walk.manager)["nodes"]) - len(walk.manager.core.roots)
    )
    total = sum(len(node.pages) for node in nodes)
    assert total == walk.manager.size_info.total_size


def test_the_naive_core_plans_nothing_and_acts_on_nothing():
    core = NaiveCacheManager("cpu", page_size=2).core
    found = core.plan_match(None, data(1, 1))
    assert (found.node, found.slots.tolist(), core.unlocked_size(found)) == (None, [], 0)
    core.apply_match(found)
    plan = core.plan_insert("a", data(1, 1), NO_PAGES)
    assert (plan.node, plan.already_len) == (None, 2)
    core.apply_insert(plan)
    assert core.pages_from([], 0).tolist() == []
    for empty in (core.plan_evict(0), core.plan_reset()):
        assert (empty.victims, empty.slots.tolist()) == ([], [])
        core.apply_evict(empty)
        core.apply_reset(empty)
    with pytest.raises(EvictionUnsupported):
        core.plan_evict(1)
    assert (core.evictable_size, list(core.nodes())) == (0, [])
    walk = RandomWalk(0)
    walk.insert()
    node = next(iter(walk.manager.core.nodes()))
    core.lock_path(node)
    core.unlock_path(node)
    assert node.ref_count == 0
