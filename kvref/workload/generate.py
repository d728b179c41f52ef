"""Makes up a request trace: chats of many turns, agents with long shared prefixes, retries.

What makes a trace telling for a prefix cache is what its prompts share. So a generated one has
a few system prompts that everybody begins with, conversations whose every turn carries all
turns before it, agents that begin with the same long list of tools and then go their own ways,
and clients that send the same prompt again before the first answer is there.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from random import Random

from kvref.workload.mooncake import BLOCK_TOKENS, TracedRequest

__all__ = ["generate"]


@dataclass
class _Context:
    """What a client's next prompt is made of, in blocks."""

    blocks: list[int]
    length: int = 0


def generate(requests: int, seed: int, *, block_tokens: int = BLOCK_TOKENS) -> list[TracedRequest]:
    """So many requests, in the order of their arrival; the same for the same arguments."""
    return _Generator(Random(seed), block_tokens).requests(requests)


class _Generator:
    def __init__(self, random: Random, block_tokens: int) -> None:
        self._random = random
        self._block = block_tokens
        self._ids = count()
        # Whole blocks: what follows a part block has another id, so only whole ones are shared.
        self._systems = [self._shared(random.randint(1, 3)) for _ in range(3)]
        self._tools = [self._shared(random.randint(6, 12)) for _ in range(2)]

    def requests(self, wanted: int) -> list[TracedRequest]:
        random = self._random
        made: list[TracedRequest] = []
        # When each client sends its next prompt; the number keeps equal times apart.
        due: list[tuple[float, int, _Context, int]] = []
        now, clients = 0.0, 0
        while len(made) < wanted:
            if not due or random.random() < 0.25:
                now = now + random.expovariate(1 / 100)
                context, turns = self._client()
                heapq.heappush(due, (now, clients, context, turns))
                clients += 1
            now, client, context, turns = heapq.heappop(due)
            self._grow(context, random.choice((20, 80, 300, 900)))
            output = random.choice((1, 8, 40, 150, 400))
            request = TracedRequest(
                timestamp=int(now),
                input_length=context.length,
                output_length=output,
                hash_ids=tuple(context.blocks),
            )
            made.append(request)
            if random.random() < 0.05:  # the client lost its patience
                made.append(request)
            if turns > 1:
                self._grow(context, output)
                pause = random.expovariate(1 / 800)
                heapq.heappush(due, (now + pause, client, context, turns - 1))
        return made[:wanted]

    def _client(self) -> tuple[_Context, int]:
        random = self._random
        if random.random() < 0.3:
            blocks, turns = random.choice(self._tools), random.randint(4, 12)
        else:
            blocks, turns = random.choice(self._systems), random.choice((1, 1, 2, 4, 8))
        return _Context(list(blocks), len(blocks) * self._block), turns

    def _shared(self, blocks: int) -> list[int]:
        return [next(self._ids) for _ in range(blocks)]

    def _grow(self, context: _Context, tokens: int) -> None:
        if context.length % self._block:
            context.blocks.pop()  # part full, and its content changes: another id
        context.length += tokens
        while len(context.blocks) * self._block < context.length:
            context.blocks.append(next(self._ids))
