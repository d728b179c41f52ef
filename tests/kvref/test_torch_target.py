"""The bridge from tensors to plain values, over managers that differ from the interface."""

from __future__ import annotations

import pytest
import torch

from kvgpu import RadixCacheManager
from kvref.answers import Raised
from kvref.configuration import Configuration
from kvref.executor import LocalExecutor
from kvref.operations import Evict, Insert, Match
from kvref.promises import Promises
from kvref.registry import UnknownTarget, find
from kvref.targets.torch_manager import TorchTarget
from tests.kvref.oracle_target import judge_of


class WithoutNamespaces:
    """A manager of the older interface: no namespaces."""

    def __init__(self):
        self._inner = RadixCacheManager("cpu")

    def match_prefix(self, input_ids):
        return self._inner.match_prefix(input_ids)

    def insert_prefix(self, input_ids, indices):
        return self._inner.insert_prefix(input_ids, indices)

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Wide(RadixCacheManager):
    """Index tensors are int64 both ways."""

    def insert_prefix(self, input_ids, indices, *, namespace=None):
        return super().insert_prefix(input_ids, indices.int(), namespace=namespace)

    def match_prefix(self, input_ids, *, namespace=None):
        handle, indices = super().match_prefix(input_ids, namespace=namespace)
        return handle, indices.long()

    def evict(self, size):
        return super().evict(size).long()


PROGRAM = (Insert((1, 2), (4, 5)), Match((1, 2, 3)), Match((9,)), Evict(1))


def test_a_manager_without_namespaces_is_never_given_one():
    target = TorchTarget(WithoutNamespaces, namespaces=False)
    promises = Promises(namespaces=False, checked_inserts=False)
    judge = judge_of(
        target, *PROGRAM, promises=promises, configuration=Configuration(checked=False)
    )
    assert judge.divergence is None
    assert judge.accepted == len(PROGRAM)


def test_indices_of_another_dtype_are_a_finding_unless_announced():
    executor = LocalExecutor(TorchTarget(lambda: Wide("cpu")), None)
    executor.call(0, Insert((1,), (4,)))
    answer, _ = executor.call(1, Match((1,)))
    assert isinstance(answer, Raised)
    assert answer.error == "WrongTensor"
    assert "torch.int64" in answer.message
    announced = TorchTarget(lambda: Wide("cpu"), index_dtype=torch.int64)
    assert judge_of(announced, *PROGRAM).divergence is None


def test_a_target_of_ours_that_lacks_its_packages_says_what_to_install(monkeypatch):
    def gone(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("importlib.import_module", gone)
    with pytest.raises(UnknownTarget, match=r"pip install 'kvref\[gpu\]'"):
        find("kvgpu-radix")
