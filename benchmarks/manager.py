"""What the radix manager costs on the host. Prints one table; `--help` says what can be chosen.

Times are wall times of one thread, the least of `--repeats` where a run can be repeated.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable
from typing import Any

import torch

from kvgpu import PageAllocator, RadixCacheManager

LEAF_TOKENS = 16


def table(rows: list[tuple[str, str]]) -> None:
    """Print what was measured, and the figure."""
    width = max(len(name) for name, _figure in rows)
    for name, figure in rows:
        print(f"{name:<{width}}  {figure:>12}")


def build(num_leaves: int) -> RadixCacheManager:
    """A tree of leaves of 16 tokens below its root."""
    manager = RadixCacheManager("cpu")
    size = LEAF_TOKENS * num_leaves
    tokens = torch.arange(size).view(-1, LEAF_TOKENS)
    slots = torch.arange(size, dtype=torch.int32).view(-1, LEAF_TOKENS)
    for prompt, indices in zip(tokens, slots, strict=True):
        manager.insert_prefix(prompt, indices)
    return manager


def seconds(call: Callable[[], object]) -> float:
    """Of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def evict_one(num_leaves: int, calls: int) -> float:
    """Microseconds per `evict(16)`, of which each takes one leaf."""
    manager = build(num_leaves)

    def run() -> None:
        for _ in range(calls):
            manager.evict(LEAF_TOKENS)

    return seconds(run) / calls * 1e6


def build_and_evict(num_leaves: int, collector: bool) -> tuple[float, float]:
    """Seconds to build a tree and to evict all of it at once, with Python's collector or not."""
    gc.collect()
    if not collector:
        gc.disable()
    try:
        start = time.perf_counter()
        manager = build(num_leaves)
        built = time.perf_counter() - start
        return built, seconds(lambda: manager.evict(LEAF_TOKENS * num_leaves))
    finally:
        gc.enable()


def conversations(num_requests: int, seed: int) -> list[torch.Tensor]:
    """Prompts of conversations of many turns over a few system prompts, interleaved."""
    chance = random.Random(seed)
    systems = [torch.randint(0, 50_000, (512,)) for _ in range(4)]
    talks: list[torch.Tensor] = []
    prompts: list[torch.Tensor] = []
    for _ in range(num_requests):
        if not talks or chance.random() < 0.15:
            talks.append(chance.choice(systems))
        number = chance.randrange(max(0, len(talks) - 64), len(talks))
        turn = torch.randint(0, 50_000, (chance.randrange(100, 900),))
        talks[number] = torch.cat([talks[number], turn])
        prompts.append(talks[number])
        if len(talks[number]) > 12_000:
            talks[number] = chance.choice(systems)
    return prompts


def serve(
    manager: Any, prompts: list[torch.Tensor], page_size: int, num_slots: int, pause: float = 0.0
) -> float:
    """Requests: match, lock, evict what is missing, insert, unlock; and then a pause, in seconds.

    Returns:
        Seconds within the manager.
    """
    allocator = PageAllocator(num_slots // page_size, page_size)
    offsets = torch.arange(page_size, dtype=torch.int32)
    total = 0.0
    for prompt in prompts:
        start = time.perf_counter()
        handle, own = manager.match_prefix(prompt[:-1])
        manager.lock_handle(handle)
        total += time.perf_counter() - start
        needed = -(-(len(prompt) - len(own)) // page_size)
        missing = needed - allocator.num_free_pages
        if missing > 0:
            start = time.perf_counter()
            given = manager.evict(missing * page_size)
            total += time.perf_counter() - start
            allocator.free(given[::page_size] // page_size)
        fresh = torch.from_numpy(allocator.allocate(needed))
        slots = (fresh[:, None] * page_size + offsets).view(-1)
        indices = torch.cat([own, slots])[: len(prompt)]
        start = time.perf_counter()
        already = manager.insert_prefix(prompt, indices)
        manager.lock_handle(handle, unlock=True)
        total += time.perf_counter() - start
        # What the cache did not take: duplicates, and the part page.
        first = (already - len(own)) // page_size
        end = len(prompt) // page_size - len(own) // page_size
        allocator.free(torch.cat([fresh[:first], fresh[end:]]))
        if pause:
            time.sleep(pause)
    return total


def small_tree(calls: int, repeats: int) -> list[tuple[str, str]]:
    """Microseconds per call on 50 leaves of 20 tokens."""
    manager = RadixCacheManager("cpu")
    tokens = torch.arange(1000).view(50, 20)
    slots = torch.arange(1000, dtype=torch.int32).view(50, 20)
    for prompt, indices in zip(tokens, slots, strict=True):
        manager.insert_prefix(prompt, indices)
    prompt, indices = tokens[7], slots[7]
    handle, _own = manager.match_prefix(prompt)
    stranger = torch.arange(-20, 0)

    def grow_and_shrink() -> None:
        manager.insert_prefix(stranger, indices)
        manager.evict(1)
        manager.insert_prefix(prompt, indices)

    def lock_and_unlock() -> None:
        manager.lock_handle(handle)
        manager.lock_handle(handle, unlock=True)

    rows = []
    for name, call in (
        ("match of 20 tokens", lambda: manager.match_prefix(prompt)),
        ("match of nothing", lambda: manager.match_prefix(stranger)),
        ("insert of what is cached", lambda: manager.insert_prefix(prompt, indices)),
        ("lock and unlock", lock_and_unlock),
        ("insert of a new leaf, evict, insert", grow_and_shrink),
    ):

        def run(call: Callable[[], object] = call) -> None:
            for _ in range(calls):
                call()

        least = min(seconds(run) for _ in range(repeats))
        rows.append((name, f"{least / calls * 1e6:.1f} us"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--evicts", type=int, default=500, help="timed evict(16) calls a tree")
    parser.add_argument("--large", type=int, default=1_000_000, help="leaves; 0 leaves it out")
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--slots", type=int, default=1_000_000, help="of the pool of the replay")
    parser.add_argument("--calls", type=int, default=5_000, help="on the small tree")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    rows = small_tree(arguments.calls, arguments.repeats)
    for leaves in arguments.leaves:
        figure = evict_one(leaves, min(arguments.evicts, leaves))
        rows.append((f"evict(16) among {leaves:,} leaves", f"{figure:.1f} us"))
    prompts = conversations(arguments.requests, seed=0)
    for page_size in (1, 16):
        enough = sum(map(len, prompts)) + len(prompts) * page_size
        for slots, words in (
            (enough, "unlimited"),
            (arguments.slots, f"{arguments.slots:,} slots"),
        ):
            manager = RadixCacheManager("cpu", page_size=page_size, num_slots=slots)
            figure = serve(manager, prompts, page_size, slots) / len(prompts) * 1e6
            rows.append((f"1,000 requests, page size {page_size}, {words}", f"{figure:.0f} ms"))
    if arguments.large:
        for collector in (False, True):
            built, evicted = build_and_evict(arguments.large, collector)
            words = f"{arguments.large:,} leaves, collector {'on' if collector else 'off'}"
            rows.append((f"build {words}", f"{built:.1f} s"))
            rows.append((f"evict {words}", f"{evicted:.1f} s"))
    table(rows)


if __name__ == "__main__":
    main()
