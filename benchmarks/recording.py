"""What recording costs the caller. Prints one table; `--help` says what can be chosen.

Each row runs the bare manager and the recorded one by turns in one process, so that only the ratios
count. `caller` is the processor time of the calling thread, `wall` what the caller waits, with the
writer's thread at work beside it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.manager import conversations, serve
from kvgpu import RadixCacheManager
from kvref.configuration import Configuration
from kvref.targets.recording import RecordingManager

Times = tuple[float, float]


def timed(call: Callable[[], object]) -> Times:
    """Seconds of this thread, and of the clock on the wall."""
    thread, wall = time.thread_time(), time.perf_counter()
    call()
    return time.thread_time() - thread, time.perf_counter() - wall


def small(num_tokens: int) -> tuple[RadixCacheManager, torch.Tensor]:
    manager = RadixCacheManager("cpu", num_slots=50 * num_tokens)
    prompts = torch.arange(50 * num_tokens).view(50, num_tokens)
    for prompt, start in zip(prompts, range(0, 50 * num_tokens, num_tokens), strict=True):
        manager.insert_prefix(prompt, torch.arange(start, start + num_tokens, dtype=torch.int32))
    return manager, prompts[7]


def row(name: str, bare: list[Times], recorded: list[Times], calls: int, after: str = "") -> None:
    """The least of the repeats of each, a call, and the ratios."""
    one, other = (
        tuple(min(each[clock] for each in times) / calls * 1e6 for clock in (0, 1))
        for times in (bare, recorded)
    )
    print(
        f"{name:<44} {one[0]:8.1f} {other[0]:8.1f} us  x{other[0] / one[0]:5.2f}"
        f"   {one[1]:8.1f} {other[1]:8.1f} us  x{other[1] / one[1]:5.2f}  {after}"
    )


def single_calls(folder: Path, calls: int, repeats: int) -> None:
    for num_tokens in (20, 2_000):
        bare, prompt = small(num_tokens)
        wrapped, _ = small(num_tokens)
        configuration = Configuration(num_pages=50 * num_tokens)
        recorder = RecordingManager(wrapped, folder / f"calls{num_tokens}.jsonl", configuration)
        recorder.reset()
        recorder.insert_prefix(prompt, torch.arange(num_tokens, dtype=torch.int32))

        def body(kind: str, manager: Any, prompt: torch.Tensor = prompt) -> Callable[[], None]:
            handle, _ = manager.match_prefix(prompt)

            def match() -> None:
                for _ in range(calls):
                    manager.match_prefix(prompt)

            def lock() -> None:
                for _ in range(calls // 2):
                    manager.lock_handle(handle)
                    manager.lock_handle(handle, unlock=True)

            return match if kind == "match" else lock

        for kind in ("match", "lock"):
            if kind == "lock" and num_tokens != 20:
                continue
            times: tuple[list[Times], list[Times]] = ([], [])
            for _ in range(repeats):
                times[0].append(timed(body(kind, bare)))
                times[1].append(timed(body(kind, recorder)))
                recorder.flush()
            words = f"match of {num_tokens:,} tokens" if kind == "match" else "lock or unlock"
            row(words, *times, calls)
        recorder.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--slots", type=int, default=1_000_000)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two requests")
    parser.add_argument("--paced", type=int, default=300, help="requests with such pauses")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"{'a call':<44} {'caller: bare, recorded':>26} {'wall: bare, recorded':>33}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        single_calls(folder, arguments.calls, arguments.repeats)
        prompts = conversations(arguments.requests, seed=0)
        for page_size in (1, 16):
            for pause, some in ((0.0, prompts), (arguments.pause, prompts[: arguments.paced])):
                made = Configuration(page_size=page_size, num_pages=arguments.slots // page_size)

                def manager(made: Configuration = made) -> RadixCacheManager:
                    return RadixCacheManager(
                        "cpu", page_size=made.page_size, num_slots=made.num_slots
                    )

                run = partial(serve, manager(), some, page_size, made.num_slots, pause)
                bare = timed(run)
                path = folder / f"requests{page_size}-{pause}.jsonl"
                recorder = RecordingManager(manager(), path, made)
                run = partial(serve, recorder, some, page_size, made.num_slots, pause)
                recorded = timed(run)
                recorder.close()
                counts = recorder.counts
                size = path.stat().st_size / 1e6
                pace = f"one every {pause:g} s" if pause else "as fast as it goes"
                calls = counts.recorded + counts.dropped
                after = f"{counts.dropped} of {calls} dropped, {size:.0f} MB"
                name = f"a request, pages of {page_size}, {pace}"
                row(name, [bare], [recorded], len(some), after)
                path.unlink()


if __name__ == "__main__":
    main()
