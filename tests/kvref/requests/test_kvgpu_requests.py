"""The bridge to kvgpu's requests sees what the device is told, and passes nothing on for keeps."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch

from kvgpu import RadixCacheManager, RequestManager
from kvref.campaign import Totals, campaign, start_locally
from kvref.divergence import DivergenceKind
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.operations import Abort, Begin, Commit, Extend, Store
from kvref.requests.promises import RequestPromises
from kvref.requests.target import RequestTargetFactory
from kvref.targets.kvgpu_requests import RadixRequests, radix_requests
from tests.kvref.requests.wrong_lives import judge_of

PAIRS = RequestConfiguration(page_size=2, num_pages=6)


def judged(requests: Any, *operations: Any, manager: Any = RadixCacheManager, **options: Any):
    target = radix_requests(manager, requests)(PAIRS)
    judge = judge_of(
        target, *operations, configuration=PAIRS, promises=RequestPromises(), **options
    )
    return judge.divergence


def test_a_page_table_on_the_device_that_lags_behind_is_found():
    class Lags(RequestManager):
        def upload(self, batch: Any) -> Any:
            self.page_table._changed.clear()
            return super().upload(batch)

    found = judged(Lags, Begin((1, 2, 3)), Abort(0), Begin((1,)), Begin((2,)), Begin((3, 4, 5)))
    assert found.kind is DivergenceKind.INTEGRITY
    assert "on the device" in found.got


def test_lengths_of_a_step_that_are_not_the_requests_are_found():
    class Short(RequestManager):
        def upload(self, batch: Any) -> Any:
            step = super().upload(batch)
            return step._replace(seq_lens=step.seq_lens - 1)

    found = judged(Short, Begin((1, 2, 3)))
    assert "seq_lens [2] of " in found.got


def test_slots_of_a_step_that_are_too_few_are_found():
    class Fewer(RequestManager):
        def upload(self, batch: Any) -> Any:
            step = super().upload(batch)
            return step._replace(out_loc=step.out_loc[1:])

    steps = [Begin((1, 2)), Store(0), *(step for _ in range(8) for step in (Extend(0), Store(0)))]
    steps = [s if not isinstance(s, Extend) else Extend(0, 1, (7,)) for s in steps]
    found = judged(Fewer, *steps)
    assert found.kind is DivergenceKind.REFUSED
    assert "out_loc of 0 slots, where 1 are due" in found.got


def test_a_row_that_is_handed_out_and_kept_is_found():
    """Every buffer that comes back is overwritten."""

    class Shares(RequestManager):
        def begin(self, *args: Any, **keywords: Any) -> Any:
            request = super().begin(*args, **keywords)
            table = self.page_table
            table.slots = lambda row, start, stop: table.host[row, start:stop]  # type: ignore[method-assign]
            return request

    target = radix_requests(requests=Shares)(RequestConfiguration(num_pages=4))
    judge = judge_of(
        target, Begin((1, 2)), configuration=RequestConfiguration(num_pages=4),
        promises=RequestPromises(),
    )  # fmt: skip
    assert judge.divergence is not None


def test_tokens_that_are_kept_and_not_copied_are_found():
    class Keeps(RequestManager):
        def begin(self, input_ids: Any, **keywords: Any) -> Any:
            request = super().begin(input_ids, **keywords)
            request.tokens = input_ids.numpy()
            return request

    found = judged(Keeps, Begin((1, 2, 3)), Store(0), Commit(0), Begin((1, 2, 3)), look_every=99)
    assert found.kind is DivergenceKind.ADMISSION


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device_random_programs_are_clean():
    """Kernels, the copy of the page table, and K and V that are read back."""

    def build(configuration: RequestConfiguration) -> RadixRequests:
        manager = RadixCacheManager(
            "cuda", page_size=configuration.page_size, policy=configuration.policy
        )
        return RadixRequests(manager, configuration, "cuda")

    factory, totals = RequestTargetFactory(build, RequestPromises()), Totals()
    runs = campaign(start_locally(factory, 60.0), factory, 1, totals, look_every=16)
    failures = [failure for failure in islice(runs, 25) if failure is not None]
    assert failures == []
    assert totals.judged["content-running"] > 0


@pytest.mark.parametrize("layers", [1, 2])
def test_every_layer_is_stored(layers):
    configuration = RequestConfiguration(num_pages=4, layers=layers, kv_heads=2)
    judge = judge_of(
        radix_requests()(configuration), Begin((1, 2)), Store(0), configuration=configuration,
        promises=RequestPromises(),
    )  # fmt: skip
    assert judge.divergence is None
    assert judge.judged["content-running"] == 1
