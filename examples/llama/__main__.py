"""Serve conversations out of a pool that is too small for them, and compare with no reuse."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

import torch

from examples.llama.reference import Reference, run_without_reuse, tiny_llama
from examples.llama.serving import Job, Server
from kvgpu import KVCacheLayout, MHAKVCache, NaiveCacheManager, RadixCacheManager, RequestManager

MAX_LEN = 96
PAGE_SIZE = 4
NUM_PAGES = 44
NUM_NEW = 12


def prompts() -> list[list[int]]:
    """Two openings, each with five sequels of its own, in any order."""
    rng = random.Random(0)
    found = []
    for _ in range(2):
        opening = [rng.randrange(97) for _ in range(30)]
        found += [opening + [rng.randrange(97) for _ in range(n)] for n in (3, 12, 25, 25, 40)]
    rng.shuffle(found)
    return found


def serve(server: Server) -> list[Job]:
    """All prompts at once; the second is aborted on its way."""
    jobs = [server.submit(prompt, NUM_NEW) for prompt in prompts()]
    while not server.idle:
        server.step()
        if server.statistics.steps == 3:
            server.abort(jobs[1])
        server.requests.check_ledger()
    return jobs


def compare(jobs: list[Job], references: list[Reference]) -> tuple[str, bool]:
    """In words; and whether the tokens are equal, and the logits bit for bit."""
    pairs = list(zip(jobs, references, strict=True))
    tokens_equal = all(job.tokens == ref.tokens for job, ref in pairs if job.done)
    found = [difference for job, ref in pairs for difference in ref.differences(job.logits)]
    differing = sum(difference != 0 for difference in found)
    logits = f"no, {differing} of {len(found)} rows differ by up to {max(found):.1e}"
    logits = logits if differing else f"yes, all {len(found)} rows"
    words = f"greedy tokens equal: {'yes' if tokens_equal else 'no'}; logits bit for bit: {logits}"
    return words, tokens_equal and not differing


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all is equal that has to be."""
    parser = argparse.ArgumentParser(prog="python -m examples.llama", description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(parser.parse_args(arguments).device)
    torch.set_num_threads(1)  # the tensors are tiny
    model = tiny_llama(MAX_LEN, device)
    config = model.config
    print(
        f"Llama of {config.num_hidden_layers} layers, {config.num_attention_heads} query heads "
        f"over {config.num_key_value_heads} K/V heads, on {device}; "
        f"{NUM_PAGES} pages of {PAGE_SIZE} tokens"
    )
    references = [run_without_reuse(model, prompt, NUM_NEW, rows=MAX_LEN) for prompt in prompts()]
    good = True
    for manager_class, exact in (
        (RadixCacheManager, True),
        (NaiveCacheManager, True),
        (RadixCacheManager, False),
    ):
        kv_cache = MHAKVCache(
            num_kv_heads=config.num_key_value_heads,
            num_layers=config.num_hidden_layers,
            head_dim=config.head_dim,
            num_pages=NUM_PAGES,
            dtype=torch.float32,
            kv_layout=KVCacheLayout.PageFirst,
            device=device,
            page_size=PAGE_SIZE,
        )
        requests = RequestManager(
            manager_class(kv_cache.device, page_size=PAGE_SIZE),
            kv_cache,
            max_requests=4,
            max_len=MAX_LEN,
        )
        server = Server(model, requests, chunk=16, exact=exact)
        words, equal = compare(serve(server), references)
        did = server.statistics
        print(
            f"\n{manager_class.__name__}, forwards {'of one shape' if exact else 'as they come'}\n"
            f"  tokens computed: {did.computed_tokens}, reused: {did.reused_tokens}; "
            f"pages evicted: {did.evicted_pages}\n"
            f"  requests finished: {did.finished}, aborted: {did.aborted}, "
            f"preempted and begun again: {did.preempted}\n"
            f"  {words}"
        )
        good = good and (equal or not exact)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
