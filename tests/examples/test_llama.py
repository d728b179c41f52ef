"""A real model over the pages: what it says with reuse is what it says without, bit for bit."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from kvgpu import (
    KVCacheLayout,
    MHAKVCache,
    NaiveCacheManager,
    RadixCacheManager,
    RequestManager,
)
from kvgpu.request_steps import RequestSteps

if find_spec("transformers") is None:
    pytest.skip("transformers is not installed; the extra test has it", allow_module_level=True)

# The example is imported where it is used: transformers takes seconds of each worker that collects.

ROOT = Path(__file__).parents[2]
MAX_LEN = 64
NUM_NEW = 6
# The longest sequence needs 56 slots; three run at a time.
NUM_SLOTS = 72


def prompts():
    """Two openings of 21 tokens, each with four sequels, and the first prompt twice."""
    rng = random.Random(0)
    found = []
    for _ in range(2):
        opening = [rng.randrange(97) for _ in range(21)]
        found += [opening + [rng.randrange(97) for _ in range(n)] for n in (2, 9, 14, 30)]
    rng.shuffle(found)
    return [found[0], *found]


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    from examples.llama.reference import tiny_llama

    return tiny_llama(MAX_LEN)


@pytest.fixture(scope="module")
def references(model):
    from examples.llama.reference import run_without_reuse

    return [run_without_reuse(model, prompt, NUM_NEW, rows=MAX_LEN) for prompt in prompts()]


def make_server(
    model, *, manager=RadixCacheManager, page_size=4, layout=KVCacheLayout.LayerFirst,
    steps=RequestSteps, exact=True,
):  # fmt: skip
    config = model.config
    kv_cache = MHAKVCache(
        config.num_key_value_heads, config.num_hidden_layers, config.head_dim,
        NUM_SLOTS // page_size, torch.float32, layout, "cpu", page_size=page_size,
    )  # fmt: skip

    class Requests(RequestManager):
        steps_class = steps

    requests = Requests(
        manager("cpu", page_size=page_size), kv_cache, max_requests=3, max_len=MAX_LEN
    )
    from examples.llama.serving import Server

    return Server(model, requests, chunk=8, exact=exact)


def serve(server, *, healthy=True):
    """All prompts at once; the fourth is aborted when it has computed more than a chunk."""
    jobs = [server.submit(prompt, NUM_NEW) for prompt in prompts()]
    while not server.idle:
        server.step()
        if not server.statistics.aborted and jobs[3].request and len(jobs[3].logits) > 8:
            server.abort(jobs[3])
        if healthy:
            server.requests.check_ledger()
    return jobs


def differences(jobs, references):
    """Of every row of logits that was computed, also by who was aborted or preempted."""
    return [
        difference
        for job, reference in zip(jobs, references, strict=True)
        for difference in reference.differences(job.logits)
    ]


def tokens_are_equal(jobs, references):
    """Of all jobs but the aborted one."""
    pairs = zip(jobs, references, strict=True)
    return [job.tokens == reference.tokens for job, reference in pairs if job is not jobs[3]]


@pytest.mark.parametrize("manager", [RadixCacheManager, NaiveCacheManager])
@pytest.mark.parametrize("layout", KVCacheLayout)
@pytest.mark.parametrize("page_size", [1, 4])
def test_logits_and_greedy_tokens_are_those_of_the_model_alone(
    model, references, page_size, layout, manager
):
    server = make_server(model, manager=manager, page_size=page_size, layout=layout)
    jobs = serve(server)
    assert set(differences(jobs, references)) == {0.0}
    assert all(tokens_are_equal(jobs, references))

    did = server.statistics
    assert did.finished == 8
    assert did.aborted == 1
    assert did.preempted > 0
    needed = sum(len(job.tokens) - 1 for job in jobs if job is not jobs[3])
    if manager is RadixCacheManager:
        assert did.reused_tokens > 0
        assert did.evicted_pages > 0
        assert did.computed_tokens < needed
    else:
        assert did.reused_tokens == did.evicted_pages == 0
        assert did.computed_tokens >= needed
    # Nobody runs, and what is not free is cached.
    requests = server.requests
    assert requests.num_available_pages == NUM_SLOTS // page_size
    requests.flush()
    assert requests.num_free_pages == NUM_SLOTS // page_size


def test_forwards_as_they_come_round_otherwise_and_say_the_same(model, references):
    server = make_server(model, exact=False)
    jobs = serve(server)
    assert server.statistics.reused_tokens > 0
    assert max(differences(jobs, references)) < 1e-3
    assert all(tokens_are_equal(jobs, references))


def test_the_reference_is_not_bent_by_its_padding(model, references):
    from examples.llama.reference import run_without_reuse

    bare = [run_without_reuse(model, prompt, NUM_NEW) for prompt in prompts()[:3]]
    for reference, unpadded in zip(references, bare, strict=False):
        assert reference.tokens == unpadded.tokens
        torch.testing.assert_close(reference.logits, unpadded.logits, rtol=0, atol=1e-3)


def cached_pages(steps, request):
    return steps.page_table.host[request.row, : request.cached_len // steps.page_size].copy()


class KeepsDuplicates(RequestSteps):
    """MSG-142: the row goes on naming pages that were freed, since the cache had the prefix."""

    def take_over(self, request, plan):
        pass


class NamesAnotherPrefix(RequestSteps):
    """A match gives the pages of the match before it."""

    before = ()

    def admit(self, request, data, max_tokens):
        super().admit(request, data, max_tokens)
        pages = cached_pages(self, request)
        if len(pages):
            self.page_table.write(request.row, 0, self.before[: len(pages)])
            self.before = pages


class SwapsTwoPages(RequestSteps):
    """The right pages of the right prefix, the first two of them in the wrong order."""

    def admit(self, request, data, max_tokens):
        super().admit(request, data, max_tokens)
        pages = cached_pages(self, request)
        if len(pages) >= 2:
            self.page_table.write(request.row, 0, pages[1::-1])


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("fault", [KeepsDuplicates, NamesAnotherPrefix])
def test_pages_of_others_show_in_the_logits_and_in_the_tokens(model, references, fault, page_size):
    server = make_server(model, steps=fault, page_size=page_size)
    jobs = serve(server, healthy=False)
    found = differences(jobs, references)
    assert max(found) > 1
    assert 0.0 in found
    assert not all(tokens_are_equal(jobs, references))


@pytest.mark.parametrize("page_size", [1, 4])
def test_pages_in_the_wrong_order_show_in_the_bits_alone(model, references, page_size):
    """Attention is a sum over keys that carry their own positions: another order rounds otherwise.

    So no comparison with a tolerance, and no look at the tokens, would see this one.
    """
    server = make_server(model, steps=SwapsTwoPages, page_size=page_size)
    jobs = serve(server, healthy=False)
    assert 0 < max(differences(jobs, references)) < 1e-3
    assert all(tokens_are_equal(jobs, references))


def test_the_example_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.llama", "--device", "cpu"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("greedy tokens equal: yes") == 3
    assert done.stdout.count("logits bit for bit: yes") >= 2
