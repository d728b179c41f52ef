"""Files are written whole or not at all, and in place of nothing else."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from kvref.files import check_writable, over_input, replace


def test_a_folder_is_made_and_a_file_is_there_whole(tmp_path):
    replace(tmp_path / "a" / "b", b"1")
    replace(tmp_path / "a" / "b", b"2")
    assert (tmp_path / "a" / "b").read_bytes() == b"2"
    assert len(list((tmp_path / "a").iterdir())) == 1


def test_a_link_stays_one_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "real")
    for content in (b"first", b"second"):
        replace(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "there" / "real").read_bytes() == content


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    replace(pipe, b"through")
    reader.join(10)
    assert got == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_the_link_of_a_device_stays_what_it_is(tmp_path):
    (tmp_path / "null").symlink_to("/dev/null")
    replace(tmp_path / "null", b"x")
    check_writable(tmp_path / "null")
    assert (tmp_path / "null").resolve() == Path("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_what_fails_leaves_nothing_and_names_the_file_that_was_asked_for(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "folder", tmp_path / "file" / "x"):
        for write in (lambda path: replace(path, b"x"), check_writable):
            with pytest.raises(OSError) as caught:
                write(path)
            assert caught.value.filename == str(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_full_disk_leaves_the_former_file_and_no_part_of_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"former")

    def full(self, content):
        self.touch()
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left") as caught:
        replace(path, b"x")
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"former"


def test_to_try_whether_it_can_be_written_changes_nothing(tmp_path):
    path = tmp_path / "a"
    check_writable(path)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"former")
    check_writable(path)
    assert path.read_bytes() == b"former"


def test_an_input_is_known_under_each_of_its_names(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    (tmp_path / "link").symlink_to(one)
    assert over_input(other, one) is None
    other.touch()
    assert over_input(other, one) is None
    for name in (one, tmp_path / "link", tmp_path / "." / "one"):
        assert over_input(name, other, one) == f"{name} is the input itself; give another file"
