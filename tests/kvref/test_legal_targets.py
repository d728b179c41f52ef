"""A manager whose choice of victims is its own is right as long as each choice was allowed."""

from __future__ import annotations

from itertools import islice

from kvgpu import RadixCacheManager
from kvgpu.radix_core import RadixCore
from kvref.campaign import Totals, campaign, start_locally
from kvref.promises import Promises
from kvref.target import TargetFactory
from kvref.targets.kvgpu import radix_factory


class MostRecentFirst(RadixCacheManager):
    class core_class(RadixCore):  # noqa: N801
        """Takes the leaf that was used last."""

        def order_time(self, node):
            return -node.recency


def failures(promises: Promises) -> list:
    factory = TargetFactory(radix_factory(MostRecentFirst).build, promises)
    return [
        each
        for each in islice(campaign(start_locally(factory, 10.0), factory, 0, Totals()), 60)
        if each
    ]


def test_its_evictions_and_its_reset_are_legal():
    assert failures(Promises(eviction="legal", policies=("lru",))) == []


def test_as_a_promise_of_the_least_recent_they_are_not():
    assert failures(Promises(policies=("lru",)))
