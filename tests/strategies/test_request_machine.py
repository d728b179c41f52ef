"""The requests of kvgpu under the state machine, in shards that `-n auto` spreads."""

from __future__ import annotations

from kvstrategies import request_shards

globals().update(request_shards("kvgpu-radix", name="RadixRequests", shards=2, module=__name__))
globals().update(request_shards("kvgpu-naive", name="NaiveRequests", shards=1, module=__name__))
