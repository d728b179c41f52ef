"""What the tests of the managers share: short spellings, a picture of a tree, a random walk."""

from __future__ import annotations

import random
from typing import Any

import torch

from kvgpu import KVCacheError, RadixCacheManager
from kvgpu.radix_node import Node


def ids(*tokens: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """`input_ids` of these tokens."""
    return torch.tensor(tokens, dtype=dtype)


def slots(*numbers: int) -> torch.Tensor:
    """`indices` of these slots."""
    return torch.tensor(numbers, dtype=torch.int32)


def insert(
    manager: RadixCacheManager, tokens: list[int], at: list[int], namespace: str | None = None
) -> int:
    """`insert_prefix` of lists."""
    return manager.insert_prefix(ids(*tokens), slots(*at), namespace=namespace)


def match(manager: RadixCacheManager, *tokens: int, namespace: str | None = None) -> Any:
    """The handle of `match_prefix`."""
    return manager.match_prefix(ids(*tokens), namespace=namespace)[0]


def picture(manager: RadixCacheManager) -> dict[str, Any]:
    """Everything that a refused call could have changed, as plain values."""
    core = manager.core
    nodes: list[Any] = []
    waiting: list[Node] = list(core.roots.values())
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children.values())
        nodes.append(
            (
                id(node),
                id(node.parent),
                {first: id(child) for first, child in node.children.items()},
                node.key,
                node.pages.tolist(),
                (node.end, node.ref_count, node.own_locks, node.recency, node.created),
            )
        )
    return {
        "roots": {namespace: id(root) for namespace, root in core.roots.items()},
        "nodes": nodes,
        "leaves": [(time, id(leaf)) for time, leaf in core.leaves.items()],
        "sizes": (core.evictable_size, core.protected_size),
        "held": None if core.held is None else set(core.held),
        "clock": core.clock,
    }


def runs(manager: RadixCacheManager) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Each node as its prefix's tokens and its own slots: the shape of the default namespace."""
    found = set()
    waiting: list[tuple[Node, tuple[int, ...]]] = [
        (root, ()) for namespace, root in manager.core.roots.items() if namespace is None
    ]
    while waiting:
        node, above = waiting.pop()
        prefix = above + tuple(memoryview(node.key).cast("q"))
        if node.parent is not None:
            found.add((prefix, tuple(manager.core.slots_of([node.pages]).tolist())))
        waiting.extend((child, prefix) for child in node.children.values())
    return found


class RandomWalk:
    """Calls of all kinds on one manager, with pages that it knows to be free."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.random = random.Random(seed)
        self.page_size = options.get("page_size", 1)
        self.num_pages = 64
        self.manager = RadixCacheManager(
            "cpu", num_slots=self.num_pages * self.page_size, checked=True, **options
        )
        self.free = set(range(self.num_pages))
        self.locked: list[Any] = []

    def step(self) -> None:
        """One random call; some are refused."""
        name = self.random.choice(
            ["insert", "insert", "match", "lock", "unlock", "evict", "reset_rarely"]
        )
        getattr(self, name)()

    def prompt(self) -> tuple[torch.Tensor, str | None]:
        """A few tokens of an alphabet of three, so that prompts share prefixes."""
        length = self.random.randrange(5 * self.page_size)
        tokens = [self.random.randrange(3) for _ in range(length)]
        return ids(*tokens), self.random.choice([None, None, "a"])

    def insert(self) -> None:
        """Insert with the cache's own slots where it has some, and free pages for the rest."""
        tokens, namespace = self.prompt()
        own = self.manager.match_prefix(tokens, namespace=namespace)[1]
        missing = -(-(len(tokens) - len(own)) // self.page_size)
        if missing > len(self.free):
            return
        pages = self.random.sample(sorted(self.free), missing)
        fresh = [page * self.page_size + i for page in pages for i in range(self.page_size)]
        at = torch.cat([own, slots(*fresh)])[: len(tokens)]
        already = self.manager.insert_prefix(tokens, at, namespace=namespace)
        taken = (len(tokens) - already) // self.page_size
        self.free -= set(pages[:taken])

    def match(self) -> Any:
        """Match, and sometimes keep no handle."""
        tokens, namespace = self.prompt()
        return self.manager.match_prefix(tokens, namespace=namespace)[0]

    def lock(self) -> None:
        """Lock what a match found."""
        handle = self.match()
        self.manager.lock_handle(handle)
        self.locked.append(handle)

    def unlock(self) -> None:
        """Give one lock back."""
        if self.locked:
            self.manager.lock_handle(
                self.locked.pop(self.random.randrange(len(self.locked))), unlock=True
            )

    def evict(self) -> None:
        """Evict up to a little more than is evictable."""
        self.collect(lambda: self.manager.evict(self.random.randrange(8 * self.page_size)))

    def reset_rarely(self) -> None:
        """Reset one time in five."""
        if self.random.randrange(5) == 0:
            self.collect(self.manager.reset)

    def collect(self, call: Any) -> None:
        """Take the slots that a call gives up; a refusal must have changed nothing."""
        before = picture(self.manager)
        try:
            given = call().tolist()
        except KVCacheError:
            assert picture(self.manager) == before
            return
        pages = {slot // self.page_size for slot in given}
        assert len(given) == len(pages) * self.page_size
        assert not pages & self.free
        self.free |= pages
