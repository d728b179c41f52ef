"""The host core of the radix cache: tokens as bytes, page numbers, plain ints, no torch.

Every operation has two phases. `plan_*` reads: it walks, chooses, refuses, and allocates
whatever the operation needs. `apply_*` acts on the plan and cannot fail. Between the two the
caller makes what it wants to return (a tensor on a device, say); if that fails, the plan is
dropped and nothing has happened.

The core takes no lock. Whoever calls it holds the mutex from a plan to its apply, or longer.
Nothing here recurses, since a prompt of 100,000 tokens may lie in as many nodes.
"""

from __future__ import annotations

import heapq

from kvgpu._slot_checks import require_slots
from kvgpu.errors import CacheInUse, NotEvictable
from kvgpu.radix_node import (
    TOKEN_BYTES,
    Cut,
    EvictPlan,
    InsertPlan,
    IntArray,
    MatchPlan,
    Node,
    Root,
    Walk,
)
from kvgpu.radix_tree import RadixTree

__all__ = ["RadixCore"]


class RadixCore(RadixTree):
    """The operations of the cache: each plans, and then acts."""

    # Match and insert

    def plan_match(self, namespace: str | None, data: bytes) -> MatchPlan:
        """Work out the longest cached prefix of `data` (whole pages of int64 tokens)."""
        walk = self.walk(namespace, data)
        slots = self.slots_of(self.runs_of(walk))
        cut = self.prepare_cut(walk)
        return MatchPlan(walk.path, cut, slots)

    def apply_match(self, plan: MatchPlan) -> None:
        """Split where the match ends, and refresh exactly the matched prefix."""
        self.clock += 1
        if plan.cut is not None:
            self.split(plan.cut)
        self.touch(plan.path)

    def plan_insert(self, namespace: str | None, data: bytes, slots: IntArray) -> InsertPlan:
        """Work out what an insert adds.

        Args:
            namespace: the root to insert below.
            data: the prefix, whole pages of int64 tokens.
            slots: `[>= tokens of data]`, int32. Read only; what is kept of it is copied.

        Raises:
            InvalidValue: in checked mode, slots that the cache cannot take over.
        """
        walk = self.walk(namespace, data)
        aligned_len = len(data) // TOKEN_BYTES
        if self.held is not None:
            require_slots(
                slots[:aligned_len],
                self.slots_of(self.runs_of(walk)),
                page_size=self.page_size,
                num_slots=self.num_slots,
                held=self.held,
            )
        already_len = walk.path[-1].end if walk.path else 0
        already_len += walk.shared * self.page_size
        cut = self.prepare_cut(walk)
        parent: Node | None = None
        leaf: Node | None = None
        if already_len < aligned_len:
            parent = walk.path[-1] if walk.path else self.roots.get(namespace) or Root(namespace)
            # A division makes a new array: the caller may overwrite its own.
            pages = slots[already_len : aligned_len : self.page_size] // self.page_size
            leaf = Node(parent, data[already_len * TOKEN_BYTES :], pages, aligned_len)
        return InsertPlan(walk.path, cut, parent, leaf, already_len)

    def apply_insert(self, plan: InsertPlan) -> None:
        """Split, add the new leaf, refresh the whole prefix."""
        self.clock += 1
        if plan.cut is not None:
            self.split(plan.cut)
        if plan.leaf is not None and plan.parent is not None:
            self.attach(plan.parent, plan.leaf)
        self.touch(plan.path)

    def prepare_cut(self, walk: Walk) -> Cut | None:
        """Allocate the split where a walk ends inside a node; its upper half ends the path."""
        node = walk.partial
        if node is None:
            return None
        pages = walk.shared
        key_bytes = pages * self.page_bytes
        upper_end = node.end - (len(node.pages) - pages) * self.page_size
        # Copies for both halves: a view would keep the whole of the former array alive.
        upper = Node(node.parent, node.key[:key_bytes], node.pages[:pages].copy(), upper_end)
        walk.path.append(upper)
        return Cut(node, upper, node.key[key_bytes:], node.pages[pages:].copy())

    # Evict and reset

    def plan_evict(self, size: int, keeping: MatchPlan | None = None) -> EvictPlan:
        """Choose what goes for `size` slots, `size >= 0`.

        Args:
            size: in slots.
            keeping: a match that will be applied, and locked, before this plan is. What goes is
                what an evict would take then; so a match, its lock and the evict that makes
                room for the rest are planned together, and refused without a trace.

        Raises:
            NotEvictable: more than the evictable size, or than what it will be by then.
        """
        evictable = self.evictable_size
        if keeping is not None:
            evictable -= self.unlocked_size(keeping)
        if size > evictable:
            raise NotEvictable(size, evictable)
        victims = self.choose_victims(size, keeping)
        return EvictPlan(victims, self.slots_of([_left(node, keeping) for node in victims]))

    def unlocked_size(self, plan: MatchPlan) -> int:
        """How many slots of a matched prefix are evictable as long as nobody locks it."""
        cut = plan.cut
        # A lock covers a whole path from the root, so what no lock covers is the end of this one.
        locked_len = 0
        for node in reversed(plan.path):
            covered = cut.node if cut is not None and node is cut.upper else node
            if covered.ref_count:
                locked_len = node.end
                break
        return len(plan.slots) - locked_len

    def choose_victims(self, size: int, keeping: MatchPlan | None = None) -> list[Node]:
        """The leaves to take one after the other, parents that become leaves on the way too.

        The tree stays as it is meanwhile: a heap holds the parents that would be leaves by
        then, and each step takes the lesser of its top and of the next of `leaves`. What
        `keeping` matched is passed over.
        """
        kept = set(keeping.path) if keeping is not None else ()
        victims: list[Node] = []
        children_gone: dict[Node, int] = {}
        bared: list[tuple[int, Node]] = []  # no two share a time, so nodes are never compared
        times = iter(self.leaves)  # its items would be looked up one by one in Python
        head = next(times, None)
        freed = 0
        while freed < size:
            if bared and (head is None or bared[0][0] < head):
                node = heapq.heappop(bared)[1]
            else:
                assert head is not None
                node = self.leaves[head]
                head = next(times, None)
                if node in kept:
                    continue
            victims.append(node)
            freed += len(_left(node, keeping)) * self.page_size
            parent = node.parent
            assert parent is not None
            if parent.parent is None or parent.ref_count or parent in kept:
                continue  # a root, or locked by then
            gone = children_gone[parent] = children_gone.get(parent, 0) + 1
            if gone == len(parent.children):
                heapq.heappush(bared, (self.order_time(parent), parent))
        return victims

    def apply_evict(self, plan: EvictPlan) -> None:
        """Remove the victims."""
        self.clock += 1
        for node in plan.victims:
            self.remove_leaf(node)

    def plan_reset(self) -> EvictPlan:
        """Choose everything, in the order in which an evict of all would take it.

        Raises:
            CacheInUse: something is locked.
        """
        if self.protected_size:
            raise CacheInUse(self.protected_size)
        return self.plan_evict(self.evictable_size)

    def apply_reset(self, plan: EvictPlan) -> None:
        """Empty the tree."""
        self.clock += 1
        for node in plan.victims:
            node.retire()
        self.roots.clear()
        self.leaves.clear()
        self.evictable_size = 0
        if self.held is not None:
            self.held.clear()


def _left(node: Node, keeping: MatchPlan | None) -> IntArray:
    """The pages of a node once `keeping` was applied: a cut leaves it the lower half."""
    cut = keeping.cut if keeping is not None else None
    return cut.lower_pages if cut is not None and cut.node is node else node.pages
