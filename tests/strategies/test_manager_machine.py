"""The managers of kvgpu under the state machine, in shards that `-n auto` spreads."""

from __future__ import annotations

from kvstrategies import manager_shards

globals().update(manager_shards("kvgpu-radix", name="Radix", shards=4, module=__name__))
globals().update(manager_shards("kvgpu-naive", name="Naive", shards=1, module=__name__))
