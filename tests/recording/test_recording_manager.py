"""What is recorded of a live manager replays as it went, and nothing of it reaches the caller."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections import deque
from pathlib import Path
from random import Random

import pytest
import torch

from kvgpu import RadixCacheManager
from kvgpu.errors import KVCacheError, NotEvictable, StaleHandle
from kvref.composer import Composer, drain, draw_configuration
from kvref.configuration import Configuration
from kvref.executor import LocalExecutor
from kvref.export.exporters import export
from kvref.export.text import Style
from kvref.judge import Judge
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.operations import FOREIGN, NOT_A_HANDLE, Evict, Insert, Lock, Match, Reset
from kvref.promises import Promises
from kvref.recording.trace_file import TraceFile
from kvref.replaying import replay_trace
from kvref.shrink import shrink
from kvref.targets.kvgpu import radix
from kvref.targets.recording import RecordingManager
from kvref.targets.torch_manager import TorchTarget
from kvref.traces.reader import read
from tests.faults.manager_faults import MANAGER_FAULTS

ROOT = Path(__file__).parents[2]
SMALL = Configuration(num_pages=16)


def ids(*tokens, dtype=torch.int64):
    return torch.tensor(tokens, dtype=dtype)


def slots(*places):
    return torch.tensor(places, dtype=torch.int32)


def built(configuration=SMALL, manager=RadixCacheManager):
    return manager(
        "cpu",
        page_size=configuration.page_size,
        num_slots=configuration.num_slots,
        policy=configuration.policy,
        checked=configuration.checked,
    )


def replayed(path, factory=radix):
    trace = read(path)
    return replay_trace(trace, ManagerBench(factory, look_every=1))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def recorder(path):
    with RecordingManager(built(), path, SMALL, target="kvgpu-radix") as recorder:
        yield recorder


class TestReplay:
    @pytest.mark.parametrize("seed", range(25))
    def test_a_random_run_is_recorded_whole_and_replays_as_it_went(self, path, seed):
        """All that a campaign issues: misuse, strides, namespaces, buffers used again at once."""
        random = Random(seed)
        configuration = draw_configuration(random, Promises())
        recorders = []

        def make():
            if recorders:  # where foreign handles come from
                return built(configuration)
            recorders.append(RecordingManager(built(configuration), path, configuration))
            return recorders[0]

        executor = LocalExecutor(TorchTarget(make, page_size=configuration.page_size))
        judge = Judge(executor, configuration)
        for part in (Composer(random, judge).program(), drain(judge)):
            for operation in part:
                assert judge.apply(operation) is None
        executor.close()
        recorders[0].close()
        trace = read(path)
        assert trace.gap is None
        assert trace.header.target is None
        was, now = judge.operations, trace.program.operations
        assert [type(each) for each in now] == [type(each) for each in was]
        for one, other in zip(was, now, strict=True):
            if isinstance(one, Match | Insert):
                assert len(one.tokens) == len(other.tokens)
                assert (one.namespace is None) == (other.namespace is None)
            if isinstance(one, Insert):
                assert one.slots == other.slots
        done = replayed(path)
        assert done.divergence is None
        assert done.otherwise is None
        counts = recorders[0].counts
        assert (counts.recorded, counts.dropped, counts.errors) == (len(was), 0, 0)

    def test_calls_from_several_threads_replay_in_the_order_of_their_execution(self, path):
        configuration = Configuration(page_size=2, num_pages=64)
        recorder = RecordingManager(built(configuration), path, configuration)
        pages = [deque(range(number, 64, 4)) for number in range(4)]

        def work(number):
            random, free = Random(number), pages[number]
            for _ in range(150):
                tokens = ids(*(random.randrange(2) for _ in range(random.randrange(1, 9))))
                try:
                    handle, own = recorder.match_prefix(tokens)
                    recorder.lock_handle(handle)
                    new = [free.popleft() for _ in range((len(tokens) - len(own)) // 2)]
                    fresh = [slot for page in new for slot in (2 * page, 2 * page + 1)]
                    rest = [0] * (len(tokens) - len(own) - len(fresh))
                    places = torch.cat([own, slots(*fresh, *rest)])
                    recorder.insert_prefix(tokens, places)
                    recorder.lock_handle(handle, unlock=True)
                except (KVCacheError, IndexError):
                    pass
                if random.random() < 0.4:
                    try:
                        victims = recorder.evict(random.randrange(6))
                    except NotEvictable:
                        continue
                    free.extend(page for page in (victims[::2] // 2).tolist())

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.close()
        assert recorder.counts.dropped == 0
        done = replayed(path)
        assert done.divergence is None
        assert done.otherwise is None
        assert len(read(path).program.operations) > 500

    def test_the_file_is_there_after_a_flush(self, recorder, path):
        recorder.insert_prefix(ids(5, 6), slots(0, 1))
        assert recorder.flush()
        assert read(path).program.operations == (Insert((0, 0), (0, 1)),)
        recorder.match_prefix(ids(5, 7))
        assert recorder.flush(10.0)
        trace = read(path)
        assert trace.program.operations[1] == Match((0, 1))
        assert [record.got for record in trace.records] == [
            "0 cached before",
            "1 cached, slots [0]",
        ]
        assert trace.header.target == "kvgpu-radix"

    def test_it_can_be_exported(self, recorder, path):
        recorder.insert_prefix(ids(5, 6), slots(0, 1))
        handle, _ = recorder.match_prefix(ids(5))
        recorder.lock_handle(handle)
        with pytest.raises(NotEvictable):
            recorder.evict(9)
        recorder.close()
        exec(compile(export(read(path), Style.SCRIPT), "<exported>", "exec"), {})


def serve(manager, requests: int, num_slots: int, seed: int = 0) -> None:
    """Requests of conversations: match, lock, evict what is missing, insert, unlock; some abort."""
    random = Random(seed)
    free = deque(range(num_slots))
    talks = [[random.randrange(10**6, 10**7) for _ in range(8)] for _ in range(3)]
    for _ in range(requests):
        talk = random.choice(talks)
        prompt = talk[: random.randrange(4, 9)] + [random.randrange(10**6, 10**7)] * 3
        handle, own = manager.match_prefix(ids(*prompt[:-1]), namespace="a tenant's name")
        manager.lock_handle(handle)
        needed = len(prompt) - len(own)
        if random.random() < 0.3:
            manager.lock_handle(handle, unlock=True)
            continue
        if len(free) < needed:
            free.extend(manager.evict(needed - len(free)).tolist())
        new = [free.popleft() for _ in range(needed)]
        already = manager.insert_prefix(
            ids(*prompt), torch.cat([own, slots(*new)]), namespace="a tenant's name"
        )
        free.extend(new[: already - len(own)])
        manager.lock_handle(handle, unlock=True)


class TestFaulty:
    @pytest.mark.parametrize(
        ("fault", "most"),
        [
            ("split-prefix-keeps-its-age", 5),
            ("match-does-not-refresh", 5),
            ("victims-are-reversed", 4),
        ],
    )
    def test_what_a_faulty_manager_did_under_load_is_found_and_shrunk(self, path, fault, most):
        configuration = Configuration(num_pages=60)
        broken = MANAGER_FAULTS[fault]
        with RecordingManager(
            built(configuration, broken.manager), path, configuration
        ) as recorder:
            serve(recorder, 200, configuration.num_slots)
        trace = read(path)
        assert len(trace.program.operations) > 600
        bench = ManagerBench(broken.target, look_every=256)
        assert replay_trace(trace, bench).divergence is not None
        short = shrink(MANAGER, bench, trace.program, seconds=20.0)
        assert len(short.program.operations) <= most
        # On a healthy manager the same calls go well, up to where a victim was another.
        assert replayed(path).divergence is None

    def test_a_healthy_one_under_the_same_load_replays_clean(self, path):
        configuration = Configuration(num_pages=60)
        with RecordingManager(built(configuration), path, configuration) as recorder:
            serve(recorder, 200, configuration.num_slots)
        done = replayed(path)
        assert done.divergence is None
        assert done.otherwise is None


class TestPrivacy:
    def test_no_token_and_no_namespace_is_in_the_file(self, path):
        configuration = Configuration(num_pages=60)
        with RecordingManager(built(configuration), path, configuration) as recorder:
            serve(recorder, 50, configuration.num_slots)
        text = path.read_bytes()
        assert b"tenant" not in text
        sequences = [
            each.tokens
            for each in read(path).program.operations
            if isinstance(each, Match | Insert)
        ]
        numbers = {token for tokens in sequences for token in tokens}
        assert max(numbers) < 100

    def test_the_words_of_an_error_are_not_in_the_file(self, path):
        class Talkative:
            size_info = (0, 0)

            def match_prefix(self, input_ids):
                raise ValueError(f"cannot read {input_ids.tolist()}")

        recorder = RecordingManager(Talkative(), path, SMALL)
        with pytest.raises(ValueError, match="cannot read"):
            recorder.match_prefix(ids(123456, 654321))
        recorder.close()
        assert b"123456" not in path.read_bytes()
        assert read(path).records[0].got == "raised ValueError: "


class TestTheCallerNeverSeesIt:
    def test_results_and_errors_are_those_of_the_manager(self, path):
        manager, problem = built(), RuntimeError("mine")
        with RecordingManager(manager, path, SMALL) as recorder:
            assert recorder.insert_prefix(ids(1, 2), slots(0, 1)) == 0
            handle, indices = recorder.match_prefix(ids(1), namespace=None)
            assert handle == manager.match_prefix(ids(1))[0]
            assert indices.tolist() == [0]
            assert recorder.size_info == manager.size_info
            assert recorder.page_size == 1
            recorder.check_integrity()
            with pytest.raises(AttributeError):
                recorder.nothing  # noqa: B018
            manager.evict = lambda size: (_ for _ in ()).throw(problem)
            with pytest.raises(RuntimeError) as caught:
                recorder.evict(1)
            assert caught.value is problem
            with pytest.raises(TypeError):
                recorder.match_prefix(ids(1), nonsense=3)
        recorder.insert_prefix(ids(7), slots(7))  # after the end: used, and not recorded
        recorder.close()
        assert recorder.size_info.total_size == 3
        assert not recorder.recording
        assert recorder.counts.recorded == 3
        assert recorder.counts.left_out == 1

    def test_a_write_that_fails_is_counted_logged_once_and_forgotten_at_the_next_reset(
        self, path, monkeypatch, caplog
    ):
        flush = TraceFile.flush
        full = [True]

        def fails(self):
            if full[0]:
                raise OSError("no space left")
            flush(self)

        recorder = RecordingManager(built(), path, SMALL)
        recorder.insert_prefix(ids(1), slots(0))
        assert recorder.flush()
        monkeypatch.setattr(TraceFile, "flush", fails)
        with caplog.at_level(logging.WARNING):
            for number in range(1, 5):
                recorder.insert_prefix(ids(number), slots(number))
                assert recorder.flush()
        assert not recorder.recording
        assert recorder.counts.recorded == 1
        assert recorder.counts.dropped == 4
        assert recorder.counts.errors == 1
        assert [each.message for each in caplog.records] == [f"recording {path} stopped: OSError"]
        full[0] = False
        recorder.reset()
        recorder.insert_prefix(ids(9), slots(3))
        recorder.close()
        assert len(read(path).program.operations) == 1  # whole lines alone
        assert read(path.with_name("run-2.jsonl")).program.operations == (Insert((0,), (3,)),)

    def test_a_file_that_cannot_be_opened(self, tmp_path, caplog):
        (tmp_path / "file").write_text("")
        recorder = RecordingManager(built(), tmp_path / "file" / "run.jsonl", SMALL)
        assert recorder.flush()
        assert recorder.insert_prefix(ids(1), slots(0)) == 0
        recorder.close()
        assert recorder.counts.errors == 1
        assert recorder.counts.dropped == 1

    def test_results_that_no_interface_knows_end_the_trace_and_not_the_call(self, path):
        class Odd:
            size_info = (0, 0)

            def match_prefix(self, input_ids):
                return None

            def evict(self, size):
                return [1, 2]

        with RecordingManager(Odd(), path, SMALL) as recorder:
            assert recorder.match_prefix(ids(1)) is None
            assert recorder.evict(1) == [1, 2]
        assert "the recorder failed" in read(path).gap
        assert recorder.counts.dropped == 2

    @pytest.mark.parametrize("refuses", [False, True])
    def test_a_handle_that_raises_when_it_is_looked_at_ends_the_trace_and_not_the_call(
        self, path, refuses
    ):
        class Odd:
            @property
            def cached_len(self):
                raise RuntimeError("not for you")

        class Manager(RadixCacheManager):
            def lock_handle(self, handle, unlock=False):
                if refuses:
                    raise TypeError("the manager's own")
                return "locked"

        with RecordingManager(built(manager=Manager), path, SMALL) as recorder:
            if refuses:
                with pytest.raises(TypeError, match="the manager's own"):
                    recorder.lock_handle(Odd())
            else:
                assert recorder.lock_handle(Odd()) == "locked"
            assert not recorder.recording
            assert recorder.counts.dropped == 1

    def test_a_flag_that_has_no_truth_ends_the_trace_and_not_the_call(self, path):
        class Manager(RadixCacheManager):
            def lock_handle(self, handle, unlock=False):
                return "locked"

        with RecordingManager(built(manager=Manager), path, SMALL) as recorder:
            handle, _ = recorder.match_prefix(ids(1))
            assert recorder.lock_handle(handle, unlock=ids(1, 2)) == "locked"
            assert not recorder.recording

    def test_sizes_that_do_not_compare_are_those_of_no_empty_manager(self, path):
        class Manager(RadixCacheManager):
            @property
            def size_info(self):
                return ids(0, 0), ids(0, 0)

        with RecordingManager(built(manager=Manager), path, SMALL) as recorder:
            recorder.reset()
            assert not recorder.recording

    def test_a_number_that_no_trace_can_hold_is_refused_in_the_managers_words(self, recorder):
        with pytest.raises((KVCacheError, ValueError, TypeError)):
            recorder.evict(10**400)
        assert recorder.recording
        assert recorder.counts.left_out == 1


class TestGaps:
    def test_a_queue_that_is_full_ends_the_trace_and_a_reset_begins_the_next(self, path):
        recorder = RecordingManager(built(), path, SMALL)
        recorder.insert_prefix(ids(1, 2), slots(0, 1))
        recorder._log._max_pending = 0
        recorder.insert_prefix(ids(3), slots(2))
        handle, _ = recorder.match_prefix(ids(3))
        assert not recorder.recording
        assert recorder.counts.dropped == 2
        recorder._log._max_pending = 1 << 20
        recorder.insert_prefix(ids(4), slots(3))  # still not understood without the one before
        recorder.lock_handle(handle)
        with pytest.raises(RuntimeError):
            recorder.reset()
        assert not recorder.recording
        recorder.lock_handle(handle, unlock=True)
        recorder.reset()
        assert recorder.recording
        with pytest.raises(StaleHandle):
            recorder.lock_handle(handle)  # of the time before: refused, and no words for it
        recorder.insert_prefix(ids(1), slots(0))
        recorder.close()
        first, second = read(path), read(path.with_name("run-2.jsonl"))
        assert first.gap == "the queue was full"
        assert first.program.operations == (Insert((0, 0), (0, 1)),)
        assert second.gap is None
        assert second.program.operations == (Insert((0,), (0,)),)
        assert recorder.counts.left_out == 1
        assert replayed(path).otherwise is None

    def test_a_trace_has_a_largest_size(self, path):
        recorder = RecordingManager(built(), path, SMALL, max_bytes=2_000)
        for _ in range(60):
            recorder.match_prefix(ids(1))
        recorder.close()
        assert read(path).gap == "the trace has its largest size"
        assert path.stat().st_size < 3_000
        assert recorder.counts.recorded == len(read(path).program.operations)
        assert recorder.counts.recorded + recorder.counts.dropped == 60

    def test_a_manager_that_is_not_empty_is_recorded_from_its_reset_on(self, path):
        manager = built()
        manager.insert_prefix(ids(1), slots(0))
        with RecordingManager(manager, path, SMALL) as recorder:
            recorder.match_prefix(ids(1))
            assert not path.exists()
            recorder.reset()
            recorder.match_prefix(ids(1))
        assert read(path).program.operations == (Match((0,)),)

    def test_a_reset_in_a_whole_trace_is_part_of_it(self, recorder, path):
        recorder.insert_prefix(ids(1), slots(0))
        recorder.reset()
        recorder.match_prefix(ids(1))
        recorder.close()
        assert [type(each) for each in read(path).program.operations] == [Insert, Reset, Match]

    def test_a_call_that_was_interrupted_ends_the_trace(self, path):
        manager = built()
        with RecordingManager(manager, path, SMALL) as recorder:
            manager.evict = lambda size: (_ for _ in ()).throw(KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                recorder.evict(1)
        assert read(path).gap == "a call was interrupted, and may have changed anything"
        assert replayed(path).divergence is None


class TestHandlesAndMisuse:
    def test_handles_are_named_by_the_match_that_made_them(self, recorder, path):
        recorder.insert_prefix(ids(1, 2), slots(0, 1))
        one, _ = recorder.match_prefix(ids(1))
        other, _ = recorder.match_prefix(ids(1, 2))
        for handle in (one, other, one):
            recorder.lock_handle(handle)
        recorder.close()
        assert read(path).program.operations[3:] == (Lock(1), Lock(2), Lock(1))

    def test_recording_keeps_no_handle(self, recorder):
        recorder.insert_prefix(ids(1, 2), slots(0, 1))
        for _ in range(100):
            recorder.match_prefix(ids(1))
        recorder.flush()
        gc.collect()
        assert len(recorder._handles) == 0

    def test_what_is_refused_is_in_the_trace_if_it_has_words_for_it(self, recorder, path):
        other = built()
        other.insert_prefix(ids(1), slots(0))
        foreign, _ = other.match_prefix(ids(1))
        with_words = [
            lambda: recorder.lock_handle(foreign),
            lambda: recorder.lock_handle("no handle"),
            lambda: recorder.evict(True),
            lambda: recorder.evict(None),
            lambda: recorder.evict(-1),
            lambda: recorder.insert_prefix(ids(1), slots()),
        ]
        without = [
            lambda: recorder.match_prefix([1]),
            lambda: recorder.match_prefix(torch.zeros(2)),
            lambda: recorder.match_prefix(ids(1), namespace=3),
            lambda: recorder.insert_prefix(ids(1), ids(1)),
            lambda: recorder.insert_prefix(ids(1, 2).view(1, 2), slots(1)),
            lambda: recorder.evict("1"),
            lambda: recorder.evict(2**70),
            lambda: recorder.evict(float("nan")),
        ]
        for call in with_words + without:
            with pytest.raises(KVCacheError):
                call()
        recorder.close()
        assert read(path).program.operations == (
            Lock(FOREIGN), Lock(NOT_A_HANDLE), Evict(True), Evict(None), Evict(-1),
            Insert((0,), ()),
        )  # fmt: skip
        assert recorder.counts.left_out == len(without)
        assert replayed(path).otherwise is None

    def test_the_empty_handle_of_an_earlier_trace_is_nothing_to_record(self, recorder, path):
        handle, _ = recorder.match_prefix(ids(1))
        recorder._log.lose("on purpose")
        recorder.reset()
        recorder.lock_handle(handle)
        assert recorder.recording
        recorder.close()
        assert read(path.with_name("run-2.jsonl")).program.operations == ()

    @pytest.mark.parametrize(
        ("tokens", "carried"),
        [
            (ids(1, 2), "int64"),
            (ids(1, 2, dtype=torch.int32), "int32"),
            (ids(1, 0, 2, 0)[::2], "int64-strided"),
            (ids(1, 0, 2, 0, dtype=torch.int32)[::2], "int32-strided"),
        ],
    )
    def test_how_the_tokens_came_is_kept(self, recorder, path, tokens, carried):
        recorder.match_prefix(tokens)
        recorder.match_prefix(ids(1, 2))
        recorder.close()
        assert read(path).program.operations == (Match((0, 0), None, carried), Match((0, 0)))


class TestEnd:
    def test_the_interpreters_exit_writes_what_waits(self, path):
        program = (
            "import sys, torch\n"
            "from kvgpu import RadixCacheManager\n"
            "from kvref.configuration import Configuration\n"
            "from kvref.targets.recording import RecordingManager\n"
            "made = Configuration(num_pages=1000)\n"
            "manager = RecordingManager(RadixCacheManager('cpu'), sys.argv[1], made)\n"
            "for n in range(500):\n"
            "    manager.match_prefix(torch.arange(n))\n"
            "raise SystemExit(3)\n"
        )
        path_of_ours = os.pathsep.join(map(str, (ROOT, ROOT / "strategies")))
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, "PYTHONPATH": path_of_ours},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 3, done.stderr
        assert done.stderr == ""
        assert len(read(path).program.operations) == 500

    def test_a_recorder_that_is_let_go_ends_its_thread_and_its_file(self, path):
        recorder = RecordingManager(built(), path, SMALL)
        recorder.match_prefix(ids(1))
        thread = recorder._log._thread
        del recorder
        gc.collect()
        assert not thread.is_alive()
        assert len(read(path).program.operations) == 1

    def test_after_a_fork_the_child_writes_nothing_and_waits_for_nothing(self, recorder, path):
        recorder._log.leave_to_the_parent()  # as os.register_at_fork has it called
        recorder.match_prefix(ids(1))
        recorder.close()
        assert recorder.counts.recorded == 0

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_every_recorder_hears_of_a_fork(self, recorder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forks in a process with threads
            child = os.fork()
        if not child:
            os._exit(7 if recorder.recording else 0)
        assert os.waitpid(child, 0)[1] == 0
        assert recorder.recording


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device_no_call_waits_and_the_trace_is_the_same(path):
    configuration = Configuration(num_pages=64)
    manager = RadixCacheManager("cuda", num_slots=64)
    with RecordingManager(manager, path, configuration) as recorder:
        recorder.insert_prefix(ids(1, 2, 3), slots(0, 1, 2))
        recorder.match_prefix(ids(1))  # the first takes pinned memory from the driver
        torch.cuda.set_sync_debug_mode("error")
        try:
            handle, indices = recorder.match_prefix(ids(1, 2))
            indices.fill_(-1)
            recorder.lock_handle(handle)
            recorder.evict(1)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert read(path).records[2].got == "2 cached, slots [0, 1]"
    assert replayed(path).otherwise is None
