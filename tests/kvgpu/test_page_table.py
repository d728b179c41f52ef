"""The page table by itself, and under requests: one copy a step brings the device up to date."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from kvgpu import InvalidType, InvalidValue, KVCacheError, PageTable, RequestEnded, page_table
from tests.kvgpu.engine import Engine
from tests.kvgpu.test_refusals import refused


def pages(*numbers):
    return np.array(numbers, dtype=np.int32)


def count_copies(table, monkeypatch):
    """A list that grows by the size of each copy to the device."""
    sizes = []
    copy = table.copy_to_device

    def counted(staging):
        sizes.append(len(staging))
        return copy(staging)

    monkeypatch.setattr(table, "copy_to_device", counted)
    return sizes


def test_a_table_has_a_row_for_each_request_and_whole_pages_for_all_its_tokens():
    table = PageTable(3, 9, 4, "cpu")
    assert (table.max_requests, table.max_pages, table.page_size) == (3, 3, 4)
    assert table.host.shape == table.device_table.shape == (3, 3)
    assert table.device_table.dtype == torch.int32
    rows = [table.take_row() for _ in range(3)]
    assert (sorted(rows), table.num_free_rows, table.free_rows) == ([0, 1, 2], 0, [])
    table.give_back_row(1)
    assert table.free_rows == [1]
    table.free_rows.append(7)
    assert table.free_rows == [1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, 1, 1, "cpu"), InvalidValue),
        ((1, 0, 1, "cpu"), InvalidValue),
        ((1, 1, 0, "cpu"), InvalidValue),
        ((True, 1, 1, "cpu"), InvalidType),
        ((1, 1, 1, "nowhere"), InvalidValue),
        ((2**16, 2**16, 2, "cpu"), InvalidValue),
    ],
)
def test_a_table_that_cannot_be_is_refused(arguments, error):
    with pytest.raises(KVCacheError) as caught:
        PageTable(*arguments)
    assert type(caught.value) is error


@pytest.mark.parametrize("page_size", [1, 3])
def test_slots_follow_from_pages(page_size):
    table = PageTable(2, 4 * page_size, page_size, "cpu")
    table.write(1, 0, pages(5, 2, 7))
    wanted = [page * page_size + offset for page in (5, 2, 7) for offset in range(page_size)]
    for start in range(len(wanted) + 1):
        for stop in range(start, len(wanted) + 1):
            slots = table.slots(1, start, stop)
            assert slots.dtype == np.int32
            assert slots.tolist() == wanted[start:stop]
            assert not np.shares_memory(slots, table.host)


def test_an_upload_is_one_copy_of_what_changed_and_of_the_step(monkeypatch):
    table = PageTable(4, 16, 2, "cpu")
    sizes = count_copies(table, monkeypatch)
    table.write(2, 0, pages(3, 1, 2))
    table.write(0, 0, pages(7))
    step = table.upload([2, 0], [1, 0], [5, 2])
    assert sizes == [2 * 4 + 2 * 2 + 4 + 2]
    assert step.page_table is table.device_table
    assert step.page_table.tolist() == table.host.tolist()
    assert step.rows.tolist() == [2, 0]
    assert step.seq_lens.tolist() == [5, 2]
    assert step.out_loc.tolist() == [7, 2, 3, 4, 14, 15]
    assert {tensor.dtype for tensor in step} == {torch.int32}
    again = table.upload([2], [5], [5])
    assert sizes[1:] == [2]
    assert again.out_loc.tolist() == []
    assert again.page_table is step.page_table


def test_nothing_at_all_is_an_upload_too(monkeypatch):
    table = PageTable(1, 1, 1, "cpu")
    sizes = count_copies(table, monkeypatch)
    step = table.upload([], [], [])
    assert [tensor.tolist() for tensor in step] == [[[0]], [], [], []]
    assert sizes == [0]


def test_an_entry_written_twice_is_sent_once_with_what_it_is_now(monkeypatch):
    table = PageTable(2, 8, 1, "cpu")
    sizes = count_copies(table, monkeypatch)
    table.write(1, 2, pages(4, 5))
    table.write(1, 3, pages(6))
    table.write(1, 2, pages(7))
    table.write(1, 0, pages())
    table.upload([], [], [])
    assert sizes == [2 * 2]
    assert table.device_table[1].tolist() == [0, 0, 7, 6, 0, 0, 0, 0]


def test_a_row_given_back_is_not_sent_and_its_next_owner_s_is(monkeypatch):
    table = PageTable(1, 4, 1, "cpu")
    row = table.take_row()
    table.write(row, 0, pages(1, 2, 3))
    table.give_back_row(row)
    sizes = count_copies(table, monkeypatch)
    table.upload([], [], [])
    assert sizes == [0]
    table.give_back_row(table.take_row())
    table.write(table.take_row(), 0, pages(9))
    table.upload([], [], [])
    assert table.device_table[0, 0] == 9


def test_inference_mode_may_come_and_go():
    with torch.inference_mode():
        table = PageTable(1, 4, 1, "cpu")
        table.write(0, 0, pages(1))
        table.upload([0], [0], [1])
    table.write(0, 1, pages(2))
    table.upload([0], [0], [2])
    with torch.inference_mode():
        table.write(0, 2, pages(3))
        table.upload([0], [0], [3])
    assert table.device_table.tolist() == [[1, 2, 3, 0]]


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_after_each_upload_the_device_has_the_rows_of_all_that_run(page_size, monkeypatch):
    """Admission, growth, pages replaced by a commit, rows used again; the batch is some of them."""
    engine = Engine(24, page_size, max_requests=5)
    table, chance = engine.requests.page_table, random.Random(page_size)
    sizes = count_copies(table, monkeypatch)
    replaced = uploads = 0
    for _ in range(1500):
        running = engine.requests.running
        request = chance.choice(running) if running else None
        try:
            match chance.randrange(8):
                case 0 | 1:
                    engine.begin([chance.randrange(2) for _ in range(chance.randrange(1, 20))])
                case 2 | 3 if request:
                    request.extend(chance.randrange(1, 4))
                case 4 if request:
                    request.append([chance.randrange(2)])
                    request.mark_stored()
                    before = request.slots(0, request.stored_len).tolist()
                    request.commit()
                    replaced += before != request.slots(0, request.stored_len).tolist()
                case 5 if request:
                    request.mark_stored()
                    chance.choice([request.finish, request.abort])()
                case 6:
                    batch = chance.sample(running, chance.randrange(len(running) + 1))
                    step = engine.requests.upload(batch)
                    uploads += 1
                    assert len(sizes) == uploads
                    assert step.rows.tolist() == [each.row for each in batch]
                    assert step.seq_lens.tolist() == [each.extended_len for each in batch]
                    wanted = [slot for each in batch for slot in each.out_loc.tolist()]
                    assert step.out_loc.tolist() == wanted
                    for each in running:
                        used = -(-each.extended_len // page_size)
                        have = step.page_table[each.row, :used]
                        assert have.tolist() == table.host[each.row, :used].tolist()
                        slots = have.repeat_interleave(page_size) * page_size
                        slots += torch.arange(used * page_size) % page_size
                        assert slots[: each.extended_len].tolist() == each.slots().tolist()
        except (KVCacheError, IndexError):
            pass
    assert uploads > 100
    assert replaced > 3
    engine.requests.check_ledger()


def test_a_batch_is_of_running_requests_of_this_manager_each_once():
    engine, other = Engine(), Engine()
    request = engine.begin([1])
    foreign = other.begin([1])
    for wrong in ([1], None, request):
        refused(
            lambda it=wrong: engine.requests.upload(it), InvalidType, TypeError, argument="batch"
        )
    refused(lambda: engine.requests.upload([foreign]), InvalidValue, ValueError, argument="batch")
    refused(
        lambda: engine.requests.upload([request, request]), InvalidValue, ValueError,
        argument="batch",
    )  # fmt: skip
    assert engine.requests.upload(each for each in [request]).rows.tolist() == [request.row]
    request.abort()
    with pytest.raises(RequestEnded):
        engine.requests.upload([request])


def test_a_table_may_have_as_many_entries_as_can_be_named(monkeypatch):
    monkeypatch.setattr(page_table, "_MAX_ENTRIES", 6)
    assert PageTable(2, 5, 2, "cpu").host.size == 6
    with pytest.raises(InvalidValue, match="at most 6 entries"):
        PageTable(1, 7, 1, "cpu")
