"""Bridges the cache of blocks to what kvref asks of a manager, and says what it promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from block_cache import Block, BlockCache
from first_try import FirstTry

from kvref.configuration import Configuration
from kvref.promises import Promises
from kvref.refusals import RefusalKind
from kvref.target import TargetFactory


class Handle:
    """A chain of blocks, and how many tokens it holds."""

    def __init__(self, chain: list[Block], block_tokens: int) -> None:
        self.chain = chain
        self.cached_len = len(chain) * block_tokens


class Bridge:
    """Tokens and slots are plain ints: block `n` has the slots from `n * size` on."""

    def __init__(self, cache: BlockCache) -> None:
        self.cache = cache
        self.size = cache.block_tokens

    def match_prefix(
        self, tokens: Sequence[int], *, namespace: str | None, carried: str
    ) -> tuple[Handle, list[int]]:
        """The handle, and the slots of what was found."""
        chain = self.cache.lookup(tuple(tokens))
        return Handle(chain, self.size), self._slots([block.number for block in chain])

    def insert_prefix(
        self, tokens: Sequence[int], slots: Sequence[int], *, namespace: str | None, carried: str
    ) -> int:
        """How many tokens were cached already."""
        whole = len(tokens) // self.size * self.size
        numbers = [slot // self.size for slot in slots[: whole : self.size]]
        return self.cache.store(tuple(tokens), numbers) * self.size

    def lock_handle(self, handle: Handle, unlock: bool = False) -> None:
        """Hold the chain, or release it."""
        (self.cache.release if unlock else self.cache.hold)(handle.chain)

    def evict(self, size: int) -> list[int]:
        """Whole blocks, as many as `size` slots take."""
        return self._slots(self.cache.shrink(-(-size // self.size)))

    def reset(self) -> list[int]:
        """All slots."""
        return self._slots(self.cache.clear())

    def sizes(self) -> tuple[int, int]:
        """Slots that can be evicted, and slots that are locked."""
        spare = self.cache.spare
        return spare * self.size, (len(self.cache.blocks) - spare) * self.size

    def check_integrity(self) -> None:
        """It has no check of its own, and promises none."""

    def foreign_handle(self) -> Handle:
        """Never asked for: it does not promise to refuse one."""
        raise NotImplementedError

    def _slots(self, numbers: list[int]) -> list[int]:
        return [n * self.size + place for n in numbers for place in range(self.size)]


def _build(cache: Callable[[int], BlockCache]) -> Callable[[Configuration], Bridge]:
    return lambda configuration: Bridge(cache(configuration.page_size))


PROMISES = Promises(
    eviction="legal",  # which block goes is its own business, as long as it may go
    granularity="page",  # single blocks, not nodes
    policies=("lru",),
    namespaces=False,
    checked_inserts=False,  # it trusts its caller's numbers
    integrity=False,
    value_handles=False,
    refuses=frozenset(
        {
            RefusalKind.STALE,
            RefusalKind.UNBALANCED,
            RefusalKind.NOT_EVICTABLE,
            RefusalKind.IN_USE,
        }
    ),
    refusal_errors="any",  # by errors of its own
)

first = TargetFactory(_build(FirstTry), PROMISES, "the cache of blocks, as it was written first")
factory = TargetFactory(_build(BlockCache), PROMISES, "the cache of blocks")
