"""Each kind of damage is made on a healthy tree, and read from the error with its place."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import numpy as np
import pytest

from kvgpu import IntegrityError, RadixCacheManager, integrity
from kvgpu.radix_core import RadixCore
from kvgpu.radix_node import Node, Root
from tests.kvgpu.trees import RandomWalk, insert, match, picture


def healthy() -> RadixCacheManager:
    """Pages of two slots: [0 0] with [1 1] and [2 2] below it, the latter locked; tenant 'a'."""
    manager = RadixCacheManager("cpu", page_size=2, num_slots=40, checked=True)
    insert(manager, [0, 0, 1, 1], [0, 1, 2, 3])
    insert(manager, [0, 0, 2, 2, 3, 3], [0, 1, 4, 5, 6, 7])
    manager.lock_handle(match(manager, 0, 0, 2, 2, 3, 3))
    insert(manager, [5, 5], [10, 11], "a")
    manager.check_integrity()
    return manager


def at(core: RadixCore, *tokens: int, namespace: str | None = None) -> Node:
    """The node that ends this prefix."""
    node = core.plan_match(namespace, np.array(tokens, np.int64).tobytes()).node
    assert node is not None
    return node


def key(*tokens: int) -> bytes:
    return np.array(tokens, np.int64).tobytes()


def pages(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


UPPER, ONES, TWOS = (0, 0), (0, 0, 1, 1), (0, 0, 2, 2, 3, 3)

DAMAGES: dict[str, tuple[str, str, Callable[[RadixCore], object]]] = {}


def damage(name: str, path: str) -> Callable[[Callable[[RadixCore], object]], None]:
    """Register one damage by the words of its function's name."""

    def register(make: Callable[[RadixCore], object]) -> None:
        DAMAGES[make.__name__.replace("_", " ")] = (name, path, make)

    return register


# The structure


@damage(integrity.NODE_REACHED_TWICE, "root/[0 0]/[1 1]/[0 0]")
def a_cycle(core):
    at(core, *ONES).children[key(0, 0)] = at(core, *UPPER)


@damage(integrity.NODE_REACHED_TWICE, "root/[0 0]/[]")
def a_cycle_through_the_root(core):
    at(core, *UPPER).children[key(8, 8)] = core.roots[None]


@damage(integrity.NODE_REACHED_TWICE, "root/[0 0]/[1 1]")
def a_node_filed_twice(core):
    at(core, *UPPER).children[key(8, 8)] = at(core, *ONES)


@damage(integrity.NODE_REACHED_TWICE, "root")
def one_root_for_two_namespaces(core):
    core.roots["b"] = core.roots[None]


@damage(integrity.PARENT_LINK, "root/[0 0]/[1 1]")
def a_child_without_a_parent(core):
    at(core, *ONES).parent = None


@damage(integrity.PARENT_LINK, "root/[0 0]/[1 1]")
def a_child_that_names_its_sibling_as_parent(core):
    at(core, *ONES).parent = at(core, *TWOS)


@damage(integrity.PARENT_LINK, "root/[0 0]/[]")
def a_node_that_was_given_up(core):
    at(core, *ONES).retire()


@damage(integrity.CHILD_MISFILED, "root/[0 0]/[1 1]")
def a_child_filed_under_other_tokens(core):
    children = at(core, *UPPER).children
    children[key(8, 8)] = children.pop(key(1, 1))


@damage(integrity.CHILD_MISFILED, "root/[0 0]/[2 2 3 3]")
def a_child_filed_under_its_first_token_alone(core):
    children = at(core, *UPPER).children
    children[key(2)] = children.pop(key(2, 2))


@damage(integrity.SIBLINGS_ALIKE, "root/[0 0]/[2 2 3 3]")
def siblings_that_begin_with_the_same_page(core):
    at(core, *ONES).key = key(2, 2)


@damage(integrity.EMPTY_NODE, "root/[0 0]/[]")
def an_empty_node(core):
    node = at(core, *ONES)
    node.key, node.pages, node.end = b"", pages(), 2
    core.evictable_size -= 2


@damage(integrity.PART_PAGE, "root/[0 0]/[1 1 1]")
def a_key_of_one_and_a_half_pages(core):
    node = at(core, *ONES)
    node.key += key(1)


@damage(integrity.PART_PAGE, "root/[0 0]/[1]")
def a_key_that_ends_inside_a_token(core):
    node = at(core, *ONES)
    node.key = node.key[:-3]


@damage(integrity.LENGTHS_DIFFER, "root/[0 0]/[1 1]")
def more_pages_than_tokens(core):
    at(core, *ONES).pages = pages(1, 9)


@damage(integrity.LENGTHS_DIFFER, "root/[0 0]/[1 1]")
def no_pages_for_the_tokens(core):
    at(core, *ONES).pages = pages()


@damage(integrity.END_WRONG, "root/[0 0]/[1 1]")
def a_length_that_is_not_the_prefix_s(core):
    at(core, *ONES).end = 2


@damage(integrity.MALFORMED_NODE, "root/[0 0]/[?]")
def a_key_that_is_no_bytes(core):
    at(core, *ONES).key = [1, 1]


@damage(integrity.MALFORMED_NODE, "root/[0 0]/[1 1]")
def pages_that_are_a_list(core):
    at(core, *ONES).pages = [1]


@damage(integrity.MALFORMED_NODE, "root/[0 0]/[1 1]")
def pages_of_two_dimensions(core):
    at(core, *ONES).pages = pages(1)[None]


@damage(integrity.MALFORMED_NODE, "root/[0 0]/[1 1]")
def children_that_are_none(core):
    at(core, *ONES).children = None


@damage(integrity.MALFORMED_NODE, "root/[0 0]")
def a_child_that_is_no_node(core):
    at(core, *UPPER).children[key(8, 8)] = None


@damage(integrity.MALFORMED_NODE, "root/[0 0]/[1 1]")
def a_time_that_is_no_number(core):
    at(core, *ONES).recency = None


# Roots


@damage(integrity.ROOT_DAMAGED, "root")
def a_namespace_without_a_root(core):
    core.roots["b"] = at(core, *ONES)


@damage(integrity.ROOT_DAMAGED, "root 'a'")
def a_root_filed_under_another_namespace(core):
    core.roots["b"] = core.roots.pop("a")


@damage(integrity.ROOT_DAMAGED, "root 'b'")
def a_root_with_nothing_below_it(core):
    core.roots["b"] = Root("b")


@damage(integrity.ROOT_DAMAGED, "root 'a'")
def a_root_below_a_node(core):
    core.roots["a"].parent = at(core, *ONES)


@damage(integrity.ROOT_DAMAGED, "root 'a'")
def a_root_with_tokens(core):
    core.roots["a"].key = key(1, 1)


@damage(integrity.ROOT_DAMAGED, "root")
def a_locked_root(core):
    core.roots[None].ref_count = 1


# Counts and times


@damage(integrity.LOCK_COUNT, "root/[0 0]")
def a_count_that_lacks_the_lock_of_a_child(core):
    at(core, *UPPER).ref_count = 0


@damage(integrity.LOCK_COUNT, "root/[0 0]/[2 2 3 3]")
def a_lock_that_nobody_holds(core):
    at(core, *TWOS).own_locks = 2


@damage(integrity.LOCK_COUNT, "root/[0 0]/[1 1]")
def locks_below_zero(core):
    node = at(core, *ONES)
    node.own_locks = node.ref_count = -1
    at(core, *UPPER).ref_count -= 1


@damage(integrity.RECENCY_ORDER, "root/[0 0]/[2 2 3 3]")
def a_parent_less_recent_than_its_child(core):
    at(core, *UPPER).recency = 1


@damage(integrity.CREATION_ORDER, "root/[0 0]/[1 1]")
def a_parent_created_after_its_child(core):
    at(core, *UPPER).created = 2


@damage(integrity.CLOCK_BEHIND, "root/[0 0]")
def a_clock_that_went_back(core):
    core.clock = 0


# Slots and sizes


@damage(integrity.SLOT_OUT_OF_RANGE, "root/[0 0]/[1 1]")
def a_page_beyond_the_pool(core):
    at(core, *ONES).pages = pages(20)


@damage(integrity.SLOT_OUT_OF_RANGE, "root/[0 0]/[2 2 3 3]")
def a_negative_page(core):
    at(core, *TWOS).pages = pages(2, -1)


@damage(integrity.SLOT_MISALIGNED, "root/[0 0]/[1 1]")
def half_a_page_number(core):
    at(core, *ONES).pages = np.array([1.5])


@damage(integrity.SLOT_HELD_TWICE, "root/[0 0]/[2 2 3 3]")
def a_page_twice_in_a_node(core):
    at(core, *TWOS).pages = pages(2, 2)


@damage(integrity.SLOT_HELD_TWICE, "root 'a'/[5 5]")
def a_page_in_two_namespaces(core):
    at(core, 5, 5, namespace="a").pages = pages(0)


@damage(integrity.HELD_PAGES_WRONG, "root")
def a_page_that_the_checked_mode_forgot(core):
    core.held.discard(1)


@damage(integrity.SIZES_WRONG, "root")
def an_evictable_size_that_is_no_sum(core):
    core.evictable_size += 2


@damage(integrity.SIZES_WRONG, "root")
def a_protected_size_that_is_no_sum(core):
    core.protected_size -= 2


# The order of eviction


@damage(integrity.LEAF_NOT_OFFERED, "root/[0 0]/[1 1]")
def an_evictable_leaf_that_no_evict_would_find(core):
    core.delist(at(core, *ONES))


@damage(integrity.LEAF_NOT_OFFERED, "root/[0 0]/[1 1]")
def a_leaf_that_only_the_mapping_knows(core):
    time = core.order_time(at(core, *ONES))
    core.leaves._list_remove(time)


@damage(integrity.OFFERED_WRONGLY, "root/[0 0]/[2 2 3 3]")
def a_locked_leaf_that_is_offered(core):
    core.leaves[10**6] = at(core, *TWOS)


@damage(integrity.OFFERED_WRONGLY, "root/[0 0]")
def an_inner_node_that_is_offered(core):
    core.leaves[10**6] = at(core, *UPPER)


@damage(integrity.OFFERED_WRONGLY, "root")
def a_node_that_is_offered_and_not_in_the_tree(core):
    core.leaves[10**6] = Node(core.roots[None], key(9, 9), pages(9), 2)


@damage(integrity.OFFERED_WRONGLY, "root")
def a_time_without_a_node(core):
    dict.pop(core.leaves, core.order_time(at(core, *ONES)))


@damage(integrity.EVICTION_ORDER, "root/[0 0]/[1 1]")
def a_leaf_filed_under_a_time_that_is_not_its_own(core):
    node = at(core, *ONES)
    core.delist(node)
    core.leaves[10**6] = node


@damage(integrity.EVICTION_ORDER, "root")
def leaves_that_are_out_of_order(core):
    core.leaves.keys()
    core.leaves._list._lists[0].reverse()


@pytest.mark.parametrize("words", DAMAGES)
def test_a_damage_is_named_with_its_place(words):
    name, path, make = DAMAGES[words]
    manager = healthy()
    make(manager.core)
    with pytest.raises(IntegrityError) as caught:
        manager.check_integrity()
    assert (caught.value.damage, caught.value.path) == (name, path)
    assert isinstance(caught.value, RuntimeError)
    assert str(caught.value).startswith(f"{name} at {path}: ")


def test_every_kind_of_damage_has_a_test():
    kinds = {
        value
        for name, value in vars(integrity).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    assert kinds == {name for name, _path, _make in DAMAGES.values()}


def test_long_runs_and_deep_paths_are_abbreviated():
    manager = RadixCacheManager("cpu")
    insert(manager, list(range(100)), list(range(100)))
    for end in range(1, 31):
        match(manager, *range(end))
    at(manager.core, *range(100)).end = 0
    with pytest.raises(IntegrityError) as caught:
        manager.check_integrity()
    upper, lower = "[0]/[1]/[2]/[3]/[4]/[5]", "[25]/[26]/[27]/[28]/[29]"
    last = "[30 31 32 33 34 35 36 37 ... 70 tokens]"
    assert caught.value.path == f"root/{upper}/(19 nodes)/{lower}/{last}"


@pytest.mark.parametrize("policy", ["lru", "fifo"])
@pytest.mark.parametrize("page_size", [1, 2, 3])
def test_a_healthy_cache_passes_and_is_not_changed(policy, page_size):
    for seed in range(4):
        walk = RandomWalk(seed, page_size=page_size, policy=policy)
        for _ in range(150):
            walk.step()
            before = picture(walk.manager)
            walk.manager.check_integrity()
            assert picture(walk.manager) == before
        for handle in walk.locked:
            walk.manager.lock_handle(handle, unlock=True)
        walk.collect(walk.manager.reset)
        assert len(walk.free) == walk.num_pages
        walk.manager.check_integrity()


def test_a_number_of_another_class_of_ints_is_a_number():
    manager = healthy()
    node = at(manager.core, *TWOS)
    node.own_locks = type("Count", (int,), {})(node.own_locks)
    manager.check_integrity()


def test_a_tree_deeper_than_the_recursion_limit_passes():
    manager = RadixCacheManager("cpu")
    depth = 2 * sys.getrecursionlimit()
    insert(manager, list(range(depth)), list(range(depth)))
    for end in range(1, depth):
        match(manager, *range(end))
    manager.check_integrity()


JUNK = [
    None,
    -1,
    0,
    3,
    10**9,
    1.5,
    "x",
    b"",
    b"abc",
    key(7, 7),
    key(0, 0),
    [],
    [1],
    {},
    {b"": None},
]
JUNK += [np.array([1.5]), np.array(["a", "b"]), pages(), pages(99), pages(0, 1), pages(1)[None]]


def test_no_damage_makes_the_check_fail_in_another_way():
    chance = random.Random(3)
    found = 0
    for _ in range(600):
        manager = healthy()
        core = manager.core
        nodes = [*core.roots.values(), at(core, *UPPER), at(core, *ONES), at(core, *TWOS)]
        for _ in range(chance.randrange(1, 3)):
            name = chance.choice(Node.__slots__)
            setattr(chance.choice(nodes), name, chance.choice([*JUNK, *nodes]))
        try:
            manager.check_integrity()
        except IntegrityError:
            found += 1
    assert found > 500
