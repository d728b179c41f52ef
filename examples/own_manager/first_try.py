"""The cache as it was written first. It passed the tests that its author had thought of."""

from __future__ import annotations

from block_cache import Block, BlockCache


class FirstTry(BlockCache):
    """What nobody holds can go; and what was not used for longest goes first."""

    def may_go(self, block: Block) -> bool:
        """Whether it can be given up now."""
        return not block.holds
