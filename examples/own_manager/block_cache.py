"""A small cache of blocks, as somebody's engine might have it. Nothing of kvref is in it.

A block holds the keys and values of a fixed number of tokens. It is found by the block before it
and its own tokens, so equal beginnings of prompts share their blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class Gone(Exception):
    """A chain of which some block was given up."""


class NotHeld(Exception):
    """A release without a hold."""


class TooMuch(Exception):
    """More was asked for than can be given up."""


@dataclass(eq=False)
class Block:
    """One block. `number` says where its keys and values lie; the root has none.

    `holds` counts the chains in use that go through it, `ends` those that end in it.
    """

    number: int
    tokens: tuple[int, ...]
    parent: Block | None
    used: int = 0
    holds: int = 0
    ends: int = 0
    gone: bool = False
    children: dict[tuple[int, ...], Block] = field(default_factory=dict)


class BlockCache:
    """Blocks of `block_tokens` tokens each."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.root = Block(-1, (), None)
        self.blocks: set[Block] = set()
        self.clock = 0

    def lookup(self, tokens: tuple[int, ...]) -> list[Block]:
        """The longest chain of blocks that these tokens begin with."""
        self.clock += 1
        chain, block = [], self.root
        for piece in self._pieces(tokens):
            found = block.children.get(piece)
            if found is None:
                break
            found.used = self.clock
            chain.append(found)
            block = found
        return chain

    def store(self, tokens: tuple[int, ...], numbers: list[int]) -> int:
        """Keep what is missing under these numbers; how many blocks there were already."""
        chain = self.lookup(tokens)
        block = chain[-1] if chain else self.root
        pieces = self._pieces(tokens)
        for piece, number in list(zip(pieces, numbers, strict=True))[len(chain) :]:
            block.children[piece] = Block(number, piece, block, self.clock)
            block = block.children[piece]
            self.blocks.add(block)
        return len(chain)

    def hold(self, chain: list[Block]) -> None:
        """Keep the whole chain until it is released."""
        self._count(chain, 1)

    def release(self, chain: list[Block]) -> None:
        """Give a hold back."""
        self._count(chain, -1)

    def shrink(self, count: int) -> list[int]:
        """Give up so many blocks, the longest unused first; their numbers."""
        if count > self.spare:
            raise TooMuch(f"{count} of {self.spare} blocks")
        freed = []
        for _ in range(count):
            block = min((each for each in self.blocks if self.may_go(each)), key=self.age)
            self._drop(block)
            freed.append(block.number)
        return freed

    def clear(self) -> list[int]:
        """Give up all blocks; their numbers. Nothing may be held."""
        return self.shrink(len(self.blocks))

    @property
    def spare(self) -> int:
        """How many blocks nobody holds."""
        return sum(not block.holds for block in self.blocks)

    def may_go(self, block: Block) -> bool:
        """Whether it can be given up now: a block below it could never be found again."""
        return not block.holds and not block.children

    def age(self, block: Block) -> tuple[int, int]:
        """The smallest goes first."""
        return block.used, block.number

    def _pieces(self, tokens: tuple[int, ...]) -> list[tuple[int, ...]]:
        size = self.block_tokens
        return [tokens[i : i + size] for i in range(0, len(tokens) - size + 1, size)]

    def _count(self, chain: list[Block], by: int) -> None:
        if not chain:
            return
        if any(block.gone for block in chain):
            raise Gone
        if chain[-1].ends + by < 0:
            raise NotHeld
        chain[-1].ends += by
        for block in chain:
            block.holds += by

    def _drop(self, block: Block) -> None:
        assert block.parent is not None
        del block.parent.children[block.tokens]
        self.blocks.remove(block)
        block.gone = True
