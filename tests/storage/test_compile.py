"""The kernels compile for GPUs that are not here; `ci/compile` compiles every variant."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.faults.storage import STORAGE_FAULTS, planted
from tests.storage.targets import INTERPRETED

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
