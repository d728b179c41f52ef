"""Shards, for machines that have no pytest-xdist: KVGPU_SHARD=2/8 runs every eighth test.

One thread for torch: the tensors are small, and several processes share the machine.

And no need of msgspec, which a machine with a GPU may lack: of kvstrategies only the tensor
strategies are used here, so there the package is made without what it imports for the machines.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)

if importlib.util.find_spec("msgspec") is None:
    bare = types.ModuleType("kvstrategies")
    bare.__path__ = [str(Path(__file__).parents[2] / "strategies" / "kvstrategies")]
    sys.modules.setdefault("kvstrategies", bare)


# After -m and -k have chosen, so that the shards are of one size.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    shard = os.environ.get("KVGPU_SHARD")
    if not shard:
        return
    number, of = map(int, shard.split("/"))
    if not 0 <= number < of:
        raise ValueError(f"KVGPU_SHARD: got {shard}, expected 0/{of} to {of - 1}/{of}")
    items[:], left_out = items[number::of], [t for i, t in enumerate(items) if i % of != number]
    config.hook.pytest_deselected(items=left_out)
