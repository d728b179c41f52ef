"""The kernels compile for GPUs that are not here; `ci/compile` compiles every variant."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from kvstrategies.tensors import PoolShape
from tests.faults.storage_faults import STORAGE_FAULTS, planted
from tests.storage.targets import INTERPRETED, Target

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(INTERPRETED, reason="interpreted kernels do not compile"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is missing"),
]


@pytest.fixture(scope="module")
def ci():
    spec = importlib.util.spec_from_file_location(
        "compile_kernels", ROOT / "ci" / "compile_kernels.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    try:
        module.tool("ptxas")
        module.tool("cuobjdump")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    return module


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


def test_all_variants_are_asked_for(ci):
    every = list(ci.variants())
    assert len(set(every)) == len(every) == 420
    for arch in (80, 90, 100):
        of = [variant for variant in every if variant.arch == arch]
        assert len(of) == 140
        assert {variant.unit for variant in of} == {1, 2, 4, 8, 16}


@pytest.mark.parametrize("arch", [80, 90, 100])
def test_a_variant_of_each_kernel_is_wide_and_does_not_spill(ci, arch):
    for variant in (
        ci.Variant("store_kv", arch, 16, 32, "page", "apart", 512),
        ci.Variant("load_kv", arch, 16, 64, "one", "-", 512),
        ci.Variant("copy_pages", arch, 2, 64, "-", "-", 128),
    ):
        measured = ci.measure_quietly(variant)
        assert ci.complaints(variant, measured) == []
        assert measured.registers > 0


def test_it_complains_of_narrow_accesses(ci, tmp_path):
    (fault,) = (fault for fault in STORAGE_FAULTS if fault.operation == "compile")
    variant = ci.Variant("store_kv", 90, 16, 32, "one", "together", 128)
    with planted(fault, tmp_path):
        found = ci.complaints(variant, ci.measure_quietly(variant))
    assert len(found) == 2
    assert "loads of 16 bytes wanted" in found[0]
    assert "stores of 16 bytes wanted" in found[1]


def test_it_complains_of_spills_and_of_a_second_width(ci):
    variant = ci.Variant("load_kv", 90, 16, 32, "one", "-", 128)
    fine = ci.Measured(registers=20, spilled=0, loads="16x2 4x1", stores="16x2")
    assert ci.complaints(variant, fine) == []
    spilled = ci.Measured(registers=255, spilled=8, loads="16x2 4x1", stores="16x2")
    assert ci.complaints(variant, spilled) == ["8 bytes spilled"]
    mixed = ci.Measured(registers=20, spilled=0, loads="16x2 4x1", stores="16x2 8x1")
    assert ci.complaints(variant, mixed) == ["stores of several widths: 16x2 8x1"]


class NoDevice:
    """Triton's driver for an sm_90 that is not there: kernels compile, and launches are kept."""

    def __init__(self):
        self.launches = launches = []

        class Launcher:
            def __init__(self, *arguments):
                pass

            def __call__(self, *arguments):
                launches.append(arguments)

        class Utils:
            get_device_properties = staticmethod(lambda _: {"max_shared_mem": 1 << 17})
            load_binary = staticmethod(lambda *_: (0, 0, 30, 0, 1024))
            unload_module = staticmethod(lambda *_: None)

        self.launcher_cls, self.utils = Launcher, Utils

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


@pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="what Triton keeps of this would meet the real device; test_device.py looks at that",
)
def test_later_launches_skip_tritons_front_and_pass_the_same(ci, monkeypatch):
    from triton.runtime import driver

    from kvgpu.kernels import TRITON, _units

    monkeypatch.setattr(_units, "_compiled", {})
    fake = NoDevice()
    monkeypatch.setattr(driver, "_active", fake)
    cache = Target("no device", "cpu", False, implementation=TRITON).cache(
        PoolShape(2, 40, 1, 2, 64, torch.float16, page_first=False)
    )
    k = torch.zeros(17, 2, 64, dtype=torch.float16)
    out_loc = torch.arange(17)
    # The lengths and strides that Triton would specialise on by itself: 1, 16, odd ones.
    for n, step in ((16, 1), (1, 1), (7, 2), (17, 1), (16, 1)):
        cache.store_kv(k[:n], k[:n], out_loc.repeat(2)[::step][:n], 1)
    (compiled,) = _units._compiled.values()
    kinds = [kind for kind in compiled.src.signature.values() if kind != "constexpr"]
    assert kinds == ["i64"] * 15
    assert len(fake.launches) == 5
    # Launched through Triton's front first, directly last, with the same arguments.
    first, last = fake.launches[0], fake.launches[-1]
    runtime = slice(9, 9 + 15)
    assert len(first) == len(last)
    assert first[:4] == last[:4]
    assert [*first[runtime]][3:] == [*last[runtime]][3:]
    assert first[9] == k.data_ptr()
