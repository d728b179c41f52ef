"""Shards, for machines that have no pytest-xdist: KVGPU_SHARD=2/8 runs every eighth test.

One thread for torch: the tensors are small, and several processes share the machine.
"""

from __future__ import annotations

import os

import pytest
import torch

torch.set_num_threads(1)


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
