"""What only a GPU can show: compiled kernels, one launch, no wait, CUDA graphs, streams."""

from __future__ import annotations

import importlib

import pytest
import torch

from kvgpu import InvalidIndex, InvalidValue
from kvstrategies.tensors import PoolShape, make_indices, make_rows
from tests.storage.suite import Reference, bits_of
from tests.storage.targets import INTERPRETED, Target

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(INTERPRETED, reason="TRITON_INTERPRET is set: no kernel is compiled"),
]

SHAPE = PoolShape(2, 64, 4, 8, 128, torch.bfloat16, page_first=True)
GPU = Target("gpu", "cuda", False)


def rows(n, seed):
    return make_rows(
        "slice of a fused qkv", n, SHAPE.heads, SHAPE.dim, SHAPE.dtype, seed, GPU.device
    )


class Recorder:
    """Stands where a kernel stood, and keeps what each launch through Triton's front ran."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.ran = []

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            self.ran.append(self.kernel[grid](*arguments, **options))
            return self.ran[-1]

        return launch


def recorded(monkeypatch, operation):
    module = importlib.import_module(f"kvgpu.kernels.{operation}")
    recorder = Recorder(getattr(module, f"{operation}_kernel"))
    monkeypatch.setattr(module, f"{operation}_kernel", recorder)
    return recorder


def test_compiled_kernels_ran(monkeypatch):
    cache = GPU.cache(SHAPE)
    assert cache._implementation.name == "triton"
    slots = make_indices(range(5), torch.int32, 1, GPU.device)
    calls = {
        "store_kv": lambda: cache.store_kv(rows(5, 1), rows(5, 2), slots, 1),
        "load_kv": lambda: cache.load_kv(slots, 1),
        "copy_pages": lambda: cache.copy_pages(slots[:2], slots[2:4]),
    }
    for operation, call in calls.items():
        recorder = recorded(monkeypatch, operation)
        call()
        (ran,) = recorder.ran
        assert len(ran.asm["cubin"]) > 0, f"{operation} did not run compiled"


def test_what_is_compiled_does_not_depend_on_the_call(monkeypatch):
    cache = GPU.cache(SHAPE)
    recorder = recorded(monkeypatch, "store_kv")
    k, v = rows(64, 1), rows(64, 2)
    out_loc = make_indices([-1, *range(70)], torch.int32, 1, GPU.device)
    for n, start in ((1, 0), (2, 1), (16, 2), (17, 3), (48, 5), (64, 1)):
        cache.store_kv(k[:n], v[:n], out_loc[start:][:n], n % 2)
    # Later launches go to the compiled kernel itself.
    (ran,) = recorder.ran
    assert {kind for kind in ran.src.signature.values() if kind != "constexpr"} == {"i64"}
    torch.cuda.synchronize()
    got_k, got_v = cache.load_kv(out_loc[1:65], 0)
    assert torch.equal(bits_of(got_k), bits_of(k))
    assert torch.equal(bits_of(got_v), bits_of(v))


def test_nothing_waits_for_the_device():
    cache = GPU.cache(SHAPE)
    slots = make_indices([3, -1, 0, 900], torch.int64, 1, GPU.device)
    k, v = rows(4, 1), rows(4, 2)
    cache.store_kv(k, v, slots, 0)  # the first call compiles
    cache.load_kv(slots, 0)
    cache.copy_pages(slots[:1], slots[1:2])
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        cache.store_kv(k, v, slots, 1)
        cache.load_kv(slots, 1)
        cache.copy_pages(slots[:1], slots[1:2])
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_graph_replays_with_other_rows_and_other_padding():
    cache = GPU.cache(SHAPE)
    n = 16
    k, v = torch.empty_like(rows(n, 0)), torch.empty_like(rows(n, 0))
    out_loc = torch.full((n,), -1, dtype=torch.int32, device=GPU.device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        cache.store_kv(k, v, out_loc, 1)
        cache.load_kv(out_loc, 1)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cache.store_kv(k, v, out_loc, 1)
        got_k, got_v = cache.load_kv(out_loc, 1)
    reference = Reference(cache, SHAPE)
    for real, seed in ((1, 5), (16, 6), (7, 7), (0, 8)):
        slots = [(seed * 31 + 5 * i) % SHAPE.num_slots for i in range(real)]
        k.copy_(rows(n, seed))
        v.copy_(rows(n, seed + 100))
        out_loc.fill_(-1)
        out_loc[:real] = make_indices(slots, torch.int32, 1, GPU.device)
        graph.replay()
        torch.cuda.synchronize()
        for i, slot in enumerate(slots):
            reference.row(0, 1, slot).copy_(bits_of(k)[i])
            reference.row(1, 1, slot).copy_(bits_of(v)[i])
        reference.assert_same()
        assert torch.equal(bits_of(got_k)[:real], bits_of(k)[:real])
        assert torch.equal(bits_of(got_v)[:real], bits_of(v)[:real])
        assert not bits_of(got_k)[real:].any()


def test_calls_go_to_the_current_stream():
    cache = GPU.cache(SHAPE)
    slots = make_indices([9], torch.int64, 1, GPU.device)
    wanted, other = rows(1, 1), rows(1, 2)
    cache.store_kv(other, other, slots, 0)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    late = torch.zeros_like(wanted)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        late.copy_(wanted)
        # On any other stream than this one the row would still be zeros.
        cache.store_kv(late, late, slots, 0)
        got = cache.load_kv(slots, 0)[0]
    side.synchronize()
    assert torch.equal(bits_of(got), bits_of(wanted))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_cache_on_another_device_than_the_current_one():
    far = Target("gpu", "cuda:1", False)
    cache = far.cache(SHAPE)
    k = make_rows("contiguous", 1, SHAPE.heads, SHAPE.dim, SHAPE.dtype, 1, far.device)
    slots = make_indices([9], torch.int64, 1, far.device)
    cache.store_kv(k, k, slots, 0)
    assert torch.equal(bits_of(cache.load_kv(slots, 0)[1]), bits_of(k))
    assert torch.cuda.current_device() == 0


def test_a_device_without_a_number_is_the_current_one():
    cache = GPU.cache(SHAPE)
    assert cache.device == torch.empty(0, device="cuda").device
    assert cache.device.index is not None


def test_checked_mode_looks_at_the_values_on_a_device():
    cache = GPU.cache(SHAPE, checked=True)
    reference = Reference(cache, SHAPE)
    with pytest.raises(InvalidIndex, match="at position 1"):
        cache.store_kv(rows(2, 1), rows(2, 1), make_indices([0, 256], torch.int32, 1, "cuda"), 0)
    with pytest.raises(InvalidValue, match="at position 1"):
        cache.store_kv(rows(2, 1), rows(2, 1), make_indices([7, 7], torch.int32, 1, "cuda"), 0)
    reference.assert_same()
