"""Every trace in this folder is a test: its target agrees with the oracle.

To keep a failure that was mended, put its shrunk trace here and say in the `note` of its header
what it was. A trace that is named like a planted fault has to fail against that fault too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvref.manager_machine import ManagerBench
from kvref.replaying import replay_trace
from kvref.shrink import same_way
from kvref.traces.reader import read
from tests.faults.manager_faults import MANAGER_FAULTS

TRACES = sorted(Path(__file__).parent.glob("*.jsonl"))
PLANTED = [path for path in TRACES if path.stem in MANAGER_FAULTS]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_it_fails_no_more(path):
    trace = read(path)
    assert trace.header.note, "its header does not say what it was"
    assert trace.header.target is not None
    with trace.machine.bench(
        trace.header.target, seconds=10.0, isolate=False, look_every=1
    ) as bench:
        replayed = replay_trace(trace, bench)
    assert replayed.agrees
    # The oracle is as it was: only what came back at the end may differ from the recording.
    last = len(trace.program.operations) - 1
    assert replayed.otherwise is None or replayed.otherwise[0] == last


@pytest.mark.parametrize("path", PLANTED, ids=lambda path: path.stem)
def test_it_fails_as_recorded_against_the_fault_it_came_from(path):
    trace = read(path)
    bench = ManagerBench(MANAGER_FAULTS[path.stem].target, look_every=trace.header.look_every)
    replayed = replay_trace(trace, bench)
    assert replayed.otherwise is None
    assert replayed.divergence is not None
    assert trace.divergence is not None
    assert (replayed.divergence.kind, replayed.divergence.law) == (
        trace.divergence.kind,
        trace.divergence.law,
    )
    assert replayed.divergence.index == trace.divergence.index
    assert same_way(replayed.divergence)


def test_there_are_some():
    assert len(TRACES) >= len(PLANTED) >= 8
