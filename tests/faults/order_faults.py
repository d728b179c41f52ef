"""Planted faults of the order and the amount of evictions."""

from __future__ import annotations

from typing import Any

from kvgpu.radix_core import RadixCore
from kvgpu.radix_node import EvictPlan, MatchPlan, Node
from tests.faults.fault import fault


@fault("MSG-124")
class SplitPrefixKeepsItsAge(RadixCore):
    """A match that splits does not refresh the upper half, which was just used."""

    def apply_match(self, plan: MatchPlan) -> None:
        self.clock += 1
        if plan.cut is not None:
            self.split(plan.cut)
            self.touch(plan.path[:-1])
        else:
            self.touch(plan.path)


@fault("MSG-124")
class PartialMatchRefreshesAll(RadixCore):
    """A match that splits refreshes the rest of the node as well."""

    def apply_match(self, plan: MatchPlan) -> None:
        super().apply_match(plan)
        if plan.cut is not None:
            self.touch([plan.cut.node])


@fault("OMNI-1724")
class MatchDoesNotRefresh(RadixCore):
    """Only an insert refreshes: the order of an eviction is that of the inserts."""

    def apply_match(self, plan: MatchPlan) -> None:
        self.clock += 1
        if plan.cut is not None:
            self.split(plan.cut)


@fault("OMNI-1724")
class LockRefreshes(RadixCore):
    """A lock counts as a use."""

    def lock_path(self, node: Node) -> None:
        super().lock_path(node)
        self.clock += 1
        path = []
        step: Node | None = node
        while step is not None and step.parent is not None:
            path.append(step)
            step = step.parent
        self.touch(path[::-1])


@fault("OMNI-1724")
class InsertOfTheCachedDoesNotRefresh(RadixCore):
    """An insert that adds nothing leaves the recency of the prefix as it was."""

    def apply_insert(self, plan: Any) -> None:
        if plan.leaf is not None:
            super().apply_insert(plan)
        elif plan.cut is not None:
            self.clock += 1
            self.split(plan.cut)


@fault("TOK-248")
class FifoIsLru(RadixCore):
    """The policy is read and not used."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.by_recency = True


@fault("TOK-248")
class SplitIsACreation(RadixCore):
    """The upper half of a split counts as created now, which FIFO then takes last."""

    def split(self, cut: Any) -> None:
        super().split(cut)
        cut.upper.created = self.clock


@fault("SGL-32016")
class EvictsOneMore(RadixCore):
    """The loop runs until more than `size` is free."""

    def choose_victims(self, size: int, keeping: Any = None) -> list[Node]:
        return super().choose_victims(min(size + 1, self.evictable_size) if size else 0, keeping)


@fault("SGL-4987")
class EvictStopsEarly(RadixCore):
    """Progress is counted before the node is looked at: one node too few."""

    def choose_victims(self, size: int, keeping: Any = None) -> list[Node]:
        victims = super().choose_victims(size, keeping)
        return victims[:-1] if len(victims) > 1 else victims


@fault("LLMD-704")
class ParentNeverBecomesALeaf(RadixCore):
    """When the last child went, the parent is not offered."""

    def remove_leaf(self, node: Node) -> None:
        parent = node.parent
        super().remove_leaf(node)
        if parent is not None and parent.is_evictable_leaf():
            self.delist(parent)


@fault("LLMD-704")
class VictimsAreReversed(RadixCore):
    """Nodes are returned root side first, not in the order in which they went."""

    def plan_evict(self, size: int, keeping: Any = None) -> EvictPlan:
        plan = super().plan_evict(size, keeping)
        slots = self.slots_of([node.pages for node in reversed(plan.victims)])
        return EvictPlan(plan.victims, slots)


@fault("SGL-4987")
class NewLeafIsNotOffered(RadixCore):
    """A leaf below another leaf is not entered among the candidates until it is touched."""

    def attach(self, parent: Node, leaf: Node) -> None:
        super().attach(parent, leaf)
        if parent.parent is not None:
            self.delist(leaf)
