"""What only a GPU can show of requests: an upload makes one copy, and nothing waits for it."""

from __future__ import annotations

import random

import pytest
import torch

from kvgpu import (
    KVCacheLayout,
    MHAKVCache,
    NoRoom,
    RadixCacheManager,
    RequestManager,
    TooManyRequests,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def make(page_size):
    storage = MHAKVCache(
        1, 1, 8, 64, torch.float16, KVCacheLayout.LayerFirst, "cuda", page_size=page_size
    )
    manager = RadixCacheManager("cuda", page_size=page_size)
    return RequestManager(manager, storage, max_requests=8, max_len=40)


@pytest.mark.parametrize("page_size", [1, 4])
def test_the_device_has_the_rows_after_each_upload_and_nothing_waited(page_size):
    requests, chance = make(page_size), random.Random(page_size)
    looks = []
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(300):
            try:
                requests.begin([chance.randrange(2) for _ in range(chance.randrange(1, 30))])
            except (NoRoom, TooManyRequests):
                victim = chance.choice(requests.running)
                chance.choice([victim.finish, victim.abort])()
            step = requests.upload(requests.running)
            for request in requests.running:
                used = -(-request.extended_len // page_size)
                host = requests.page_table.host[request.row, :used].tolist()
                looks.append((step.page_table[request.row, :used].clone(), host))
            wanted = [slot for request in requests.running for slot in request.out_loc.tolist()]
            looks.append((step.out_loc, wanted))
            looks.append((step.rows, [request.row for request in requests.running]))
            for request in requests.running:
                request.mark_stored()
                request.commit()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(looks) > 1000
    for tensor, wanted in looks:
        assert tensor.device.type == "cuda"
        assert tensor.tolist() == wanted


def test_an_upload_is_one_copy_to_the_device():
    requests = make(2)
    batch = [requests.begin([number] * 9) for number in range(4)]
    requests.upload(batch)  # so that what is made once is made
    for request in batch:
        request.mark_stored()
        request.extend(4)
    with torch.profiler.profile() as profile:
        requests.upload(batch)
        torch.cuda.synchronize()
    names = [event.name for event in profile.events()]
    assert sum("Memcpy HtoD" in name for name in names) == 1
    assert not any("Memcpy DtoH" in name for name in names)
