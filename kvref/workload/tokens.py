"""Gives the tokens that a trace leaves out: the same for equal block ids, and for no others."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from struct import unpack

from kvref.workload.mooncake import TracedRequest

__all__ = ["output_tokens", "prompt_tokens"]

_VOCABULARY = 2**16  # what two bytes hold
_FIRST_OF_BLOCK = _VOCABULARY
_FIRST_OF_OUTPUT = 2**62


def prompt_tokens(request: TracedRequest, block_tokens: int) -> tuple[int, ...]:
    """`input_length` tokens: each block's from a generator that is seeded with its id."""
    tokens: list[int] = []
    for block in request.hash_ids:
        tokens += _block(block, block_tokens)
    return tuple(tokens[: request.input_length])


def output_tokens(request: int, start: int, stop: int) -> tuple[int, ...]:
    """The tokens `start` to `stop` that were made for the request number `request`, of it alone."""
    # The first one tells this output from every other continuation of the same prompt.
    return tuple(
        position % _VOCABULARY if position else _FIRST_OF_OUTPUT - request
        for position in range(start, stop)
    )


@lru_cache(maxsize=2048)
def _block(block: int, length: int) -> tuple[int, ...]:
    # Two blocks that began with the same token would share it, at page size 1, and the trace
    # says that they share nothing; so the first one is the block's own. Two bytes a token, drawn
    # at once, take a fifth of the time of a draw for each.
    drawn = unpack(f"<{length - 1}H", Random(block).randbytes(2 * (length - 1)))
    return (_FIRST_OF_BLOCK + block, *drawn)
