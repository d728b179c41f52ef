"""A run of requests as a Python program against kvgpu."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kvref.requests.configuration import RequestConfiguration
from kvref.requests.operations import Begin, RequestOperation

__all__ = ["program"]

_BEGINNING = """\
from contextlib import suppress

import torch
from kvgpu import KVCacheLayout, MHAKVCache, RadixCacheManager
from kvgpu.requests import RequestManager

def ids(tokens, dtype=torch.int64, stride=1):
    return torch.tensor(tokens, dtype=dtype).repeat_interleave(stride)[::stride]

def store(request):  # K and V of ones; a judge stores what names each token
    slots = torch.as_tensor(request.out_loc)
    rows = torch.ones(len(slots), {heads}, {dim}).to(torch.{dtype})
    for layer in range({layers}):
        kv_cache.store_kv(rows, rows.clone(), slots, layer)
    request.mark_stored()

cache = RadixCacheManager(
    "cpu", page_size={size}, num_slots={slots}, policy="{policy}", checked={checked}
)
kv_cache = MHAKVCache(
    {heads}, {layers}, {dim}, {pages}, torch.{dtype}, KVCacheLayout.{layout}, "cpu",
    page_size={size},
)
requests = RequestManager(cache, kv_cache, max_requests={requests}, max_len={longest})
"""


def program(
    configuration: RequestConfiguration,
    operations: Sequence[RequestOperation],
    refused: Collection[int] = (),
    skipped: Collection[int] = (),
) -> str:
    """The whole run.

    Args:
        configuration: of the requests.
        operations: of the run.
        refused: the numbers of those that had to be refused; the program goes on after them.
        skipped: the numbers of those that were not issued.
    """
    text = _BEGINNING.format(
        size=configuration.page_size,
        slots=configuration.num_slots,
        pages=configuration.num_pages,
        policy=configuration.policy,
        checked=configuration.checked,
        heads=configuration.kv_heads,
        layers=configuration.layers,
        dim=configuration.head_dim,
        dtype=configuration.dtype,
        layout=configuration.layout,
        requests=configuration.max_requests,
        longest=configuration.longest,
    )
    dropped = set(skipped) | {index for index in refused if isinstance(operations[index], Begin)}
    lines = []
    for index, operation in enumerate(operations):
        line = operation.python(index)
        if index in skipped or getattr(operation, "request", None) in dropped:
            line = f"# not issued: {line}"
        elif index in refused:
            line = f"with suppress(Exception): {line}  # has to be refused"
        lines.append(line)
    return text + "\n".join(lines) + "\n"
