"""The example in docs/requests.md runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from kvgpu import NoRoom, Request

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


def served(prompts: list[list[int]], answer_len: int) -> None:
    names = example()
    requests = names["requests"]
    requests.running[0].abort()
    jobs = [names["Job"](torch.tensor(prompt)) for prompt in prompts]
    names["serve"](jobs, answer_len)
    assert [job.answer for job in jobs] == [[7] * answer_len] * len(jobs)
    assert requests.running == ()
    requests.check_ledger()


def test_the_example_gets_on_where_all_want_more_than_there_is():
    lengths = [9, 10, 7, 3, 3, 9, 27, 18]
    served([[1000 * at + token for token in range(count)] for at, count in enumerate(lengths)], 100)


def test_the_example_has_those_wait_that_find_no_row():
    served([[number, 1, 2] for number in range(9)], 3)


def test_the_example_says_what_will_never_fit():
    names = example()
    for tokens in (range(128), range(200, 300)):  # these do not end
        names["requests"].begin(list(tokens))
    with pytest.raises(NoRoom):
        names["serve"]([names["Job"](torch.arange(500, 560))], 1)
    names["requests"].check_ledger()
