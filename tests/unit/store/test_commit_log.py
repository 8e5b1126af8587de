import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.disk import Disk, SystemDisk
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.store.commit_log import CommitLog
from roquet.store.errors import (
    BadRecord,
    BadStoreDirectory,
    DiskFull,
    StoreUnavailable,
)
from tests.support.drafts import draft
from tests.support.faulty_disk import FaultyDisk
from tests.support.few_descriptors import few_descriptors_left
from tests.support.mapped_memory import parts_fetched_by_page, resident_size
from tests.support.raising import raises

FILE_SIZE = 4096


def open_log(directory: Path, disk: Disk | None = None) -> CommitLog:
    log = CommitLog(disk or SystemDisk(), directory, FILE_SIZE)
    log.load()
    if not log.files:
        log.resume()
    return log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    log = open_log(tmp_path / "commitlog")
    yield log
    log.close()


def fill_file(log: CommitLog, left: int) -> None:
    """Append one record so that `left` bytes of the file remain."""
    body_size = FILE_SIZE - log.end % FILE_SIZE - left - draft(b"").size
    log.append(draft(b"x" * body_size), 0, 1)


def test_the_bytes_of_a_record_are_as_specified(log: CommitLog) -> None:
    # The vector of the specification, at another place.
    plain = draft(
        b"hello",
        topic="T1",
        queue_id=2,
        properties={"TAGS": "TagA", "KEYS": "k1"},
        has_checksum=False,
    )
    assert log.append(plain, 7, 1_700_000_000_123) == 0
    assert log.bytes_at(0, 115) == bytes.fromhex(
        "00000073 daa320a7 3610a686 00000002 00000000 0000000000000007 0000000000000000"
        "00000000 0000018bcfe56800 7f0000010000c350 0000018bcfe5687b 7f00000100002a9f"
        "00000000 0000000000000000 00000005 68656c6c6f 02 5431 0011"
        "544147530154616741024b455953016b31"
    )


def test_records_follow_each_other_and_are_read_back(log: CommitLog) -> None:
    first = log.append(draft(b"1"), 5, 1000)
    second = log.append(draft(b"2"), 6, 1001)
    assert (first, second) == (0, draft(b"1").size)
    assert log.end == 2 * second
    record = log.record_at(second)
    assert (record.queue_offset, record.store_timestamp, record.size) == (6, 1001, second)
    assert log.last_store_timestamp == 1001


def test_a_record_may_leave_exactly_eight_bytes_of_its_file(log: CommitLog) -> None:
    fill_file(log, left=8)
    assert log.end == FILE_SIZE - 8
    assert log.append(draft(), 0, 1) == FILE_SIZE
    assert log.bytes_at(FILE_SIZE - 8, 8) == bytes.fromhex("00000008cbd43194")


def test_a_record_that_would_leave_fewer_goes_to_the_next_file(log: CommitLog) -> None:
    fill_file(log, left=draft().size + 7)
    end = log.end
    assert log.append(draft(), 0, 1) == FILE_SIZE
    left = FILE_SIZE - end
    assert log.bytes_at(end, left) == (
        left.to_bytes(4) + bytes.fromhex("cbd43194") + bytes(left - 8)
    )
    assert [file.start for file in log.files] == [0, FILE_SIZE]


def test_a_batch_lies_in_one_file(log: CommitLog) -> None:
    fill_file(log, left=3 * draft().size + 7)
    assert (
        log.append(DraftBatch([draft(b"00000"), draft(b"11111"), draft(b"22222")]), 9, 1)
        == FILE_SIZE
    )
    offsets = [record.queue_offset for record in log.scan(FILE_SIZE, log.end)]
    assert offsets == [9, 10, 11]


def test_memory_is_given_back_but_for_the_end_of_the_log(tmp_path: Path) -> None:
    file_size = 64 << 20
    log = CommitLog(SystemDisk(), tmp_path, file_size)
    log.resume()
    body = bytes(1 << 20)
    while log.end < 50 << 20:
        log.append(draft(body), 0, 1)
    path = log.files[0].path
    assert resident_size(path) >= 50 << 20
    log.give_back_memory()
    assert resident_size(path) <= 17 << 20
    # What is given back may be read by those who are late, much of it.
    assert parts_fetched_by_page(path) == [False, True]
    # It was not on disk yet, and is there all the same.
    assert sum(1 for _ in log.scan(0, log.end)) == 50
    assert resident_size(path) >= 50 << 20
    log.close()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_only_what_is_not_written_yet_is_fetched_page_by_page(tmp_path: Path) -> None:
    log = CommitLog(SystemDisk(), tmp_path, 64 << 10)
    log.resume()
    first = log.files[0].path
    assert parts_fetched_by_page(first) == [True]
    log.append(draft(bytes(40 << 10)), 0, 1)
    log.close()
    log.load()
    log.cut(40 << 10)
    log.resume()
    assert parts_fetched_by_page(first) == [False, True]
    log.append(draft(bytes(30 << 10)), 0, 1)
    assert parts_fetched_by_page(first) == [False]
    assert parts_fetched_by_page(log.files[1].path) == [True]
    log.close()


def test_files_that_are_not_read_are_left_alone(log: CommitLog) -> None:
    fill_file(log, left=8)
    log.append(draft(), 0, 1)
    old = log.files[0]
    log.give_back_memory()
    assert not old.is_touched
    log.record_at(0)
    assert old.is_touched


def test_a_record_larger_than_a_file_is_refused_before_anything_is_written(log: CommitLog) -> None:
    largest = FILE_SIZE - 8 - draft(b"").size
    with pytest.raises(TooLarge):
        log.append(draft(b"x" * (largest + 1)), 0, 1)
    assert log.end == 0
    assert log.append(draft(b"x" * largest), 0, 1) == 0


def test_records_are_scanned_over_the_borders_of_files(log: CommitLog) -> None:
    appended = [log.append(draft(b"x" * 700), number, number) for number in range(20)]
    assert [record.physical_offset for record in log.scan(0, log.end)] == appended
    assert [record.physical_offset for record in log.scan(appended[7], log.end)] == appended[7:]
    assert len(log.files) > 3


@pytest.mark.parametrize("offset", [-1, 1, 100, 5000, 2**62])
def test_what_is_no_record_is_never_returned(log: CommitLog, offset: int) -> None:
    log.append(draft(), 0, 1)
    with pytest.raises(BadRecord) as caught:
        log.record_at(offset)
    assert caught.value.physical_offset == offset


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, -1), (0, 143), (1, 142), (5000, 1)])
def test_bytes_that_are_not_there_are_not_returned(log: CommitLog, offset: int, size: int) -> None:
    log.append(draft(b"x" * 25), 0, 1)
    assert log.end == 142
    assert log.bytes_at(offset, size) is None


def test_the_next_good_record_is_found_in_a_later_file(log: CommitLog) -> None:
    fill_file(log, left=8)
    second = log.append(draft(), 0, 1)
    log.files[0].mapping[90] ^= 1
    found = log.find_record(0)
    assert found is not None
    assert found.physical_offset == second


def test_a_reopened_log_continues_where_it_was_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    offsets = [log.append(draft(b"x" * 700), number, number) for number in range(20)]
    log.close()
    log = open_log(tmp_path)
    log.cut(offsets[10])
    log.resume()
    assert log.append(draft(), 10, 10) == offsets[10]
    assert [record.queue_offset for record in log.scan(0, log.end)] == list(range(11))
    log.close()


def test_a_log_that_ends_with_its_file_continues_in_a_new_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill_file(log, left=8)
    log.append(draft(), 0, 1)
    log.cut(FILE_SIZE)
    log.resume()
    assert log.append(draft(), 0, 1) == FILE_SIZE
    log.close()


def test_a_log_of_another_file_size_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    with raises(BadStoreDirectory, path=tmp_path / f"{0:020d}"):
        CommitLog(SystemDisk(), tmp_path, 2048).load()


def test_forgotten_files_are_no_longer_in_the_log(log: CommitLog) -> None:
    for number in range(20):
        log.append(draft(b"x" * 700), number, number)
    gone = log.forget(2)
    assert [file.start for file in gone] == [0, FILE_SIZE]
    assert log.start == 2 * FILE_SIZE
    with pytest.raises(BadRecord):
        log.record_at(0)
    for file in gone:
        file.close()


def test_a_full_disk_refuses_a_record_and_nothing_has_changed(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    log = open_log(tmp_path / "commitlog", disk)
    fill_file(log, left=200)
    end = log.end
    disk.is_full = True
    with pytest.raises(DiskFull):
        log.append(draft(b"x" * 100), 1, 1)
    assert log.end == end
    assert log.files[0].is_zero_from(end)
    # What still fits is still taken, and the rest as soon as there is space again.
    assert log.append(draft(b""), 1, 1) == end
    disk.is_full = False
    assert log.append(draft(b"x" * 100), 2, 1) == FILE_SIZE
    log.close()


def test_a_disk_error_refuses_a_record_in_its_own_words(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    log = open_log(tmp_path / "commitlog", disk)
    fill_file(log, left=100)
    disk.fail_next_sync()
    with pytest.raises(StoreUnavailable, match="Input/output error") as caught:
        log.append(draft(b"x" * 100), 1, 1)
    assert not isinstance(caught.value, DiskFull)
    log.close()


@pytest.mark.parametrize("left_count", range(3))
def test_a_file_that_cannot_be_opened_is_not_part_of_the_log(
    log: CommitLog, left_count: int
) -> None:
    fill_file(log, left=100)
    taken_count = 1
    with few_descriptors_left(left_count):
        for _ in range(3):
            try:
                log.append(draft(b"1"), 1, 1)
                taken_count += 1
            except StoreUnavailable:
                assert len(log.files) == 1
    assert left_count or taken_count == 1
    log.append(draft(b"2"), 2, 1)
    assert [file.start for file in log.files] == [0, FILE_SIZE]
    assert sum(1 for _ in log.scan(0, log.end)) == taken_count + 1


def test_the_next_file_is_made_in_the_second_half_of_a_file_only(tmp_path: Path) -> None:
    log = open_log(tmp_path / "commitlog")
    next_path = tmp_path / "commitlog" / f"{FILE_SIZE:020d}"
    log.append(draft(b"x" * 1000), 0, 1)
    log.make_next_file()
    assert not next_path.exists()
    log.append(draft(b"x" * 1000), 1, 1)
    log.make_next_file()
    assert next_path.stat().st_size == FILE_SIZE
    log.make_next_file()
    for number in range(2, 4):
        log.append(draft(b"x" * 1000), number, 1)
    assert len(log.files) == 2
    log.close()
    assert next_path.exists()


class _NextInLine:
    """A lock with a waiter that makes the next file as soon as it is free."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._lock = log._making

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._log._making = self._lock
        self._log.make_next_file()


def test_the_file_that_is_written_to_is_not_made_again_by_the_other_thread(log: CommitLog) -> None:
    fill_file(log, left=100)
    log._making = _NextInLine(log)  # type: ignore[assignment]
    log.append(draft(b"x" * 100), 1, 1)
    file = log.files[1]
    assert file.path.read_bytes() == file.mapping[:]


def test_an_unused_next_file_goes_when_the_log_is_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "commitlog")
    fill_file(log, left=100)
    log.make_next_file()
    log.close()
    assert [each.name for each in (tmp_path / "commitlog").iterdir()] == [f"{0:020d}"]


def test_making_the_next_file_on_a_full_disk_is_left_for_later(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    log = open_log(tmp_path / "commitlog", disk)
    fill_file(log, left=100)
    disk.is_full = True
    log.make_next_file()
    disk.is_full = False
    log.make_next_file()
    assert (tmp_path / "commitlog" / f"{FILE_SIZE:020d}").exists()
    log.close()


def test_a_next_file_that_cannot_be_made_safe_is_made_again(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    log = open_log(tmp_path / "commitlog", disk)
    fill_file(log, left=100)
    disk.fail_next_sync()
    log.make_next_file()
    assert [each.name for each in (tmp_path / "commitlog").iterdir()] == [f"{0:020d}"]
    log.make_next_file()
    assert (tmp_path / "commitlog" / f"{FILE_SIZE:020d}").exists()
    log.close()


def test_a_sync_covers_all_files_written_since_the_last_one(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    log = open_log(tmp_path / "commitlog", disk)
    fill_file(log, left=100)
    log.append(draft(b"x" * 100), 1, 1)
    before = disk.syncs
    assert log.sync() == log.end == log.synced_end
    assert disk.syncs == before + 2
    log.sync()
    assert disk.syncs == before + 2
    log.close()


def test_a_failed_sync_moves_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    log = open_log(tmp_path / "commitlog", disk)
    log.append(draft(), 0, 1)
    disk.fail_next_sync()
    with raises(OSError, errno=errno.EIO):
        log.sync()
    assert log.synced_end == 0
    log.close()
