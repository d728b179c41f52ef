"""The example in docs/requests.md runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from kvgpu import Request

PAGE = Path(__file__).resolve().parents[2] / "docs" / "requests.md"


def example() -> dict:
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(code) == 1
    names: dict = {}
    exec(compile(code[0], str(PAGE), "exec"), names)
    return names


def test_the_example_runs_and_leaves_everything_in_its_place():
    requests = example()["requests"]
    (left,) = requests.running
    left.abort()
    requests.flush()
    assert requests.num_free_pages == 64


def test_the_example_serves_more_than_fits_at_a_time(monkeypatch):
    names = example()
    requests = names["requests"]
    requests.running[0].abort()
    preempted = []
    preempt = Request.preempt
    monkeypatch.setattr(Request, "preempt", lambda self: preempted.append(1) or preempt(self))
    jobs = [names["Job"](torch.arange(99) + 1000 * number) for number in range(6)]
    names["serve"](jobs, 29)
    assert [job.answer for job in jobs] == [[7] * 29] * 6
    assert preempted, "some had to begin again"
    assert requests.running == ()
    requests.check_ledger()
