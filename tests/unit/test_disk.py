import errno
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roquet.disk import PAGE_SIZE, Space, SystemDisk, is_full, replace_file
from tests.support.descriptors import open_count
from tests.support.few_descriptors import few_descriptors_left
from tests.support.raising import raises

DISK = SystemDisk()


def test_a_created_file_has_its_size_and_only_zeros(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old content")
    descriptor = DISK.create(path, 5000)
    DISK.close(descriptor)
    assert path.read_bytes() == bytes(5000)


def test_a_created_file_is_private(tmp_path: Path) -> None:
    DISK.close(DISK.create(tmp_path / "file", 0))
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_an_allocated_range_takes_space_on_the_disk(tmp_path: Path) -> None:
    descriptor = DISK.create(tmp_path / "file", 16 * PAGE_SIZE)
    before = os.fstat(descriptor).st_blocks
    DISK.allocate(descriptor, 0, 16 * PAGE_SIZE)
    after = os.fstat(descriptor).st_blocks
    DISK.close(descriptor)
    assert (before, after) == (0, 16 * PAGE_SIZE // 512)


def test_what_the_mapping_writes_the_descriptor_reads(tmp_path: Path) -> None:
    descriptor = DISK.create(tmp_path / "file", PAGE_SIZE)
    with DISK.map(descriptor, PAGE_SIZE, writable=True) as mapping:
        mapping[100:105] = b"hello"
    DISK.write(descriptor, 105, b" world")
    DISK.sync(descriptor)
    assert DISK.read(descriptor, 100, 11) == b"hello world"
    assert DISK.read(descriptor, PAGE_SIZE - 1, 10) == b"\0"
    DISK.close(descriptor)


def test_parts_are_written_one_behind_the_other_however_many_there_are(tmp_path: Path) -> None:
    parts = [memoryview(b"%06d" % number) for number in range(3000)]
    descriptor = DISK.create(tmp_path / "file", 0)
    DISK.write_parts(descriptor, 4, parts)
    DISK.close(descriptor)
    assert (tmp_path / "file").read_bytes() == bytes(4) + b"".join(parts)


def test_what_a_write_of_parts_leaves_over_is_written_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_seven(descriptor: int, parts: list[memoryview], position: int) -> int:
        return os.pwrite(descriptor, b"".join(parts)[:7], position)

    monkeypatch.setattr(os, "pwritev", first_seven)
    descriptor = DISK.create(tmp_path / "file", 0)
    DISK.write_parts(descriptor, 0, [memoryview(b"hello "), memoryview(b"world")])
    DISK.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"hello world"


def test_space_that_was_never_written_has_no_data(tmp_path: Path) -> None:
    descriptor = DISK.create(tmp_path / "file", 1 << 24)
    DISK.allocate(descriptor, 0, 1 << 24)
    assert DISK.data_ranges(descriptor, 0) == []
    for position in (1 << 20, 1 << 23):
        DISK.write(descriptor, position, b"x")
    found = DISK.data_ranges(descriptor, 5)
    assert found == [(at, at + PAGE_SIZE) for at in (1 << 20, 1 << 23)]
    assert DISK.data_ranges(descriptor, (1 << 23) + 1) == [((1 << 23) + 1, found[1][1])]
    assert DISK.data_ranges(descriptor, 1 << 24) == []
    DISK.close(descriptor)


def test_a_file_that_is_too_short_to_be_mapped_is_an_error_of_the_system(tmp_path: Path) -> None:
    descriptor = DISK.create(tmp_path / "file", 10)
    with pytest.raises(OSError, match="length"):
        DISK.map(descriptor, 11, writable=False)
    DISK.close(descriptor)


def test_a_mapping_for_reading_cannot_be_written(tmp_path: Path) -> None:
    DISK.close(DISK.create(tmp_path / "file", PAGE_SIZE))
    descriptor = DISK.open(tmp_path / "file", writable=False)
    with DISK.map(descriptor, PAGE_SIZE, writable=False) as mapping, pytest.raises(TypeError):
        mapping[0:1] = b"x"
    with raises(OSError, errno=errno.EBADF):
        DISK.write(descriptor, 0, b"x")
    DISK.close(descriptor)


def test_a_lock_keeps_out_a_second_owner_in_this_process(tmp_path: Path) -> None:
    first = DISK.create(tmp_path / "lock", 0)
    second = DISK.open(tmp_path / "lock", writable=True)
    assert DISK.lock(first)
    assert not DISK.lock(second)
    DISK.close(first)
    assert DISK.lock(second)
    DISK.close(second)


def test_a_lock_is_seen_by_other_processes_as_a_record_lock(tmp_path: Path) -> None:
    # A JVM takes a record lock on the first byte, and only that.
    probe = (
        "import fcntl, os, sys\n"
        "descriptor = os.open(sys.argv[1], os.O_RDWR)\n"
        "fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
    )
    command = [sys.executable, "-c", probe, str(tmp_path / "lock")]
    descriptor = DISK.create(tmp_path / "lock", 0)
    assert DISK.lock(descriptor)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    DISK.close(descriptor)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_made_directories_are_private_with_all_their_parents(tmp_path: Path) -> None:
    DISK.make_directory(tmp_path / "a" / "b")
    DISK.make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_entries_are_sorted_and_say_size_kind_and_time(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"123")
    os.utime(tmp_path / "b", ns=(0, 1_700_000_000_123_000_000))
    (tmp_path / "a").mkdir()
    directory, file = DISK.entries(tmp_path)
    assert (directory.name, directory.is_directory) == ("a", True)
    assert file == ("b", 3, 1_700_000_000_123, False)
    assert DISK.entries(tmp_path / "missing") == []


def test_a_link_that_leads_nowhere_is_not_taken_for_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").symlink_to(tmp_path / "unmounted" / "b")
    with pytest.raises(FileNotFoundError):
        DISK.entries(tmp_path)


def test_a_file_that_is_removed_meanwhile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    scan = os.scandir

    @contextmanager
    def scan_and_remove(path: Path) -> Iterator[list[os.DirEntry[str]]]:
        with scan(path) as items:
            listed = list(items)
        (tmp_path / "b").unlink()
        yield listed

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    assert [entry.name for entry in DISK.entries(tmp_path)] == ["a"]


def test_names_can_be_changed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    DISK.rename(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").touch()
    DISK.remove(tmp_path / "c")
    DISK.sync_directory(tmp_path)
    assert [entry.name for entry in DISK.entries(tmp_path)] == ["b"]
    assert (tmp_path / "b").read_bytes() == b"1"
    assert DISK.exists(tmp_path / "b")
    assert not DISK.exists(tmp_path / "a")


def test_a_directory_with_content_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with raises(OSError, errno=errno.ENOTEMPTY):
        DISK.remove_directory(tmp_path / "full")


def test_space_counts_used_and_usable_bytes(tmp_path: Path) -> None:
    space = DISK.space(tmp_path)
    assert space.used > 0
    assert space.usable > 0


@pytest.mark.parametrize(
    ("used", "usable", "percent"),
    [(0, 100, 0), (1, 999, 1), (75, 25, 75), (751, 249, 76), (0, 0, 100)],
)
def test_the_used_share_is_rounded_up(used: int, usable: int, percent: int) -> None:
    assert Space(used, usable).used_percent == percent


def test_only_a_lack_of_space_counts_as_full() -> None:
    assert is_full(OSError(errno.ENOSPC, ""))
    assert is_full(OSError(errno.EDQUOT, ""))
    assert not is_full(OSError(errno.EIO, ""))


def test_a_directory_can_be_synced_when_no_descriptor_is_left(tmp_path: Path) -> None:
    disk = SystemDisk()
    disk.sync_directory(tmp_path)
    with few_descriptors_left(0):
        for _ in range(3):
            disk.sync_directory(tmp_path)
        with raises(OSError, errno=errno.EMFILE):
            disk.open(tmp_path, writable=False)


def test_without_a_directory_there_is_nothing_to_sync(tmp_path: Path) -> None:
    disk = SystemDisk()
    disk.sync_directory(tmp_path)
    with few_descriptors_left(0), pytest.raises(FileNotFoundError):
        disk.sync_directory(tmp_path / "missing")
    disk.sync_directory(tmp_path)


def test_what_was_opened_ahead_is_closed_with_the_disk(tmp_path: Path) -> None:
    gc.collect()  # What others left behind is not to go meanwhile.
    before = open_count(os.devnull)
    disk = SystemDisk()
    disk.sync_directory(tmp_path)
    assert open_count(os.devnull) == before + 1
    del disk
    assert open_count(os.devnull) == before


def test_a_replaced_file_has_the_new_content_and_no_temporary_one_stays(tmp_path: Path) -> None:
    disk = SystemDisk()
    path = tmp_path / "new" / "rules.yml"
    replace_file(disk, path, b"old")
    replace_file(disk, path, b"new", backup=path.with_suffix(".bak"))
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == {
        "rules.yml": b"new",
        "rules.bak": b"old",
    }
