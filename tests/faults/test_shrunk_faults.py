"""From a campaign's failure to a short program: no longer than the sequence that is on record."""

from __future__ import annotations

from itertools import islice

import pytest

from kvref.buffers import KEPT, overwritten
from kvref.campaign import Totals, campaign, start_locally
from kvref.cli.findings import body
from kvref.machine import Machine, Program
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.replaying import replay_trace
from kvref.requests.machine import REQUESTS, RequestBench
from kvref.shrink import same_way, shrink
from kvref.targets.kvgpu import radix
from kvref.testing.explaining import explained
from kvref.traces.failures import write_failure
from kvref.traces.reader import read
from tests.faults.manager_faults import MANAGER_FAULTS
from tests.faults.request_faults import REQUEST_FAULTS

FAILURES = 3
"""That a campaign stops after, of which the shortest counts."""

ON_RECORD = {
    "lock-skips-the-node": ("MSG-52", 4),  # insert, match, lock, evict
    "handle-names-an-ancestor": ("MSG-46", 4),  # insert, match, lock, evict
    "partial-match-is-not-split": ("RUST-508", 5),  # insert, match, lock, insert, unlock
    "split-drops-the-lock-count": ("SGL-38480", 5),  # insert, match, lock, insert, evict
    "unlock-steals-a-lock": ("LMC-2954", 8),  # insert, match and lock twice, unlock twice, evict
    "locked-leaf-is-offered": ("LMD-4700", 6),  # insert, match, lock, evict, unlock, evict
    "keeps-the-callers-indices": ("MSG-94fe", 2),  # insert, match
    "evicted-stays-in-the-index": ("VLLM-4764", 3),  # insert, evict, match
    "split-changes-the-sizes": ("MLLM-656", 4),  # insert, match, lock, unlock
    "matches-part-of-a-page": ("SGL-5221", 3),  # insert, match, evict
    "split-prefix-keeps-its-age": ("MSG-124", 4),  # insert, insert, match, evict
    "last-unlock-is-refused": ("MSG-44", 4),  # insert, match, lock, unlock
    "stale-handle-is-accepted": ("VLLM-18957", 4),  # insert, match, evict, lock
    "counts-the-part-page": ("SGL-10637", 2),  # insert, match
    "evict-stops-early": ("SGL-4987", 3),  # insert, insert, evict
    "compares-half-of-a-token": ("VLLM-12621", 2),  # insert, match
    "match-drops-the-namespace": ("KT-2184", 2),  # insert, match
}
"""By fault: where it was met, and how many operations the shortest known sequence has."""


@pytest.mark.parametrize("name", ON_RECORD)
def test_a_campaigns_failure_shrinks_to_no_more_than_is_on_record(name, tmp_path):
    fault = MANAGER_FAULTS[name]
    origin, longest = ON_RECORD[name]
    assert fault.origin == origin
    runs = campaign(start_locally(fault.target, 10.0), fault.target, 0, Totals())
    found = islice((failure for failure in runs if failure is not None), FAILURES)
    lengths = []
    for failure in found:
        path = tmp_path / f"{failure.run}.jsonl"
        bench = ManagerBench(fault.target, look_every=256)
        program = Program(failure.operations, failure.configuration)
        assert write_failure(path, MANAGER, bench, program, failure.divergence, target=name)
        shrunk = shrink(MANAGER, bench, read(path).program)
        assert same_way(shrunk.divergence) == same_way(failure.divergence)
        assert write_failure(
            path, MANAGER, bench, shrunk.program, shrunk.divergence,
            target=name, look_every=shrunk.look_every,
        )  # fmt: skip
        trace = read(path)
        again = ManagerBench(fault.target, look_every=trace.header.look_every)
        assert replay_trace(trace, again).divergence == shrunk.divergence
        assert replay_trace(trace, ManagerBench(radix, look_every=1)).divergence is None
        lengths.append(len(trace.program.operations))
    assert min(lengths) <= longest, lengths


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("keeps-the-callers-indices", True),
        ("hands-out-its-own-array", True),
        ("evict-stops-early", False),
        ("keeps-the-callers-prompt", True),
        ("abort-publishes", False),
    ],
)
def test_a_failure_says_so_where_it_is_about_a_buffer_that_was_kept(name, kept, tmp_path):
    """Its program says nothing of buffers, and runs without a fault where it is typed in."""
    machine: Machine = REQUESTS if name in REQUEST_FAULTS else MANAGER
    target = (REQUEST_FAULTS if machine is REQUESTS else MANAGER_FAULTS)[name].target
    bench_of = RequestBench if machine is REQUESTS else ManagerBench
    runs = campaign(start_locally(target, 10.0), target, 0, Totals(), look_every=64)
    failure = next(failure for failure in runs if failure is not None)
    program = Program(failure.operations, failure.configuration)
    bench = bench_of(target, look_every=64)
    shrunk = shrink(machine, bench, program)
    assert shrunk.kept_buffer == kept
    assert (body(machine, bench, shrunk)[-1] == f"# {KEPT}") == kept
    found = explained(
        machine, bench, program, failure.divergence, target=name, folder=tmp_path, note=""
    )
    assert (f"\n# {KEPT}\n" in str(found)) == kept
    assert overwritten()
