import errno
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from mmap import mmap
from pathlib import Path

import pytest

from roquet.disk import Disk, SystemDisk
from roquet.store.consume_queue import (
    BLANK_SIZE,
    ENTRY_SIZE,
    RESERVE_STEP,
    RESERVE_STEP_MAX,
    ConsumeQueue,
    QueueEntry,
    pack_entry,
    unpack_entries,
)
from tests.support.faulty_disk import FaultyDisk
from tests.support.mapped_memory import parts_fetched_by_page, resident_size
from tests.support.raising import raises

FILE_SIZE = 200  # ten entries
BLANK = (0, BLANK_SIZE, 0)


def open_queue(root: Path, disk: Disk | None = None) -> ConsumeQueue:
    return ConsumeQueue(disk or SystemDisk(), root / "TopicA" / "0", FILE_SIZE, b"TopicA", 0)


def append(queue: ConsumeQueue, *physical_offsets: int) -> None:
    for offset in physical_offsets:
        if queue.position == queue.reserved_position:
            queue.reserve()
        queue.append(offset, 100, offset + 7)


def all_entries(queue: ConsumeQueue) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    offset = queue.min_offset
    while offset < queue.max_offset:
        entries = list(unpack_entries(queue.entries(offset, 1000)))
        found += entries
        offset += len(entries)
    return found


def entries_of(*physical_offsets: int) -> list[tuple[int, int, int]]:
    return [(offset, 100, offset + 7) for offset in physical_offsets]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[ConsumeQueue]:
    queue = open_queue(tmp_path)
    yield queue
    queue.close()


@pytest.fixture
def reopened(tmp_path: Path) -> Iterator[Callable[[ConsumeQueue], tuple[ConsumeQueue, int | None]]]:
    opened: list[ConsumeQueue] = []

    def reopen(queue: ConsumeQueue) -> tuple[ConsumeQueue, int | None]:
        queue.close()
        opened.append(open_queue(tmp_path))
        return opened[-1], opened[-1].load()

    yield reopen
    for each in opened:
        each.close()


Reopen = Callable[[ConsumeQueue], tuple[ConsumeQueue, int | None]]


def test_the_bytes_of_an_entry_are_as_specified(tmp_path: Path, queue: ConsumeQueue) -> None:
    queue.reserve()
    queue.append(0x1000, 0x73, 0x27A807)
    queue.close()
    content = (tmp_path / "TopicA" / "0" / f"{0:020d}").read_bytes()
    assert content == bytes.fromhex("0000000000001000 00000073 000000000027a807") + bytes(180)


def test_a_busy_queue_takes_more_and_more_space_at_once(tmp_path: Path) -> None:
    queue = ConsumeQueue(SystemDisk(), tmp_path / "TopicA" / "0", 400_000 * ENTRY_SIZE, b"A", 0)
    reserved: list[int] = []
    while len(reserved) < 8:
        queue.reserve()
        reserved.append(queue.reserved_position)
        queue.append_many(bytes(queue.reserved_position - queue.position))
    queue.close()
    steps = [after - before for before, after in pairwise(reserved)]
    assert steps == sorted(steps)
    assert steps[0] < 2 * RESERVE_STEP
    assert RESERVE_STEP_MAX - 2 * ENTRY_SIZE < steps[-1] < RESERVE_STEP_MAX + 2 * ENTRY_SIZE


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_only_the_file_that_is_written_to_is_fetched_page_by_page(
    tmp_path: Path, queue: ConsumeQueue
) -> None:
    append(queue, *range(100, 2600, 100))
    paths = sorted((tmp_path / "TopicA" / "0").iterdir())
    assert [parts_fetched_by_page(path) for path in paths] == [[False], [False], [True]]


def test_entries_are_read_back_file_by_file(queue: ConsumeQueue) -> None:
    append(queue, *range(100, 2600, 100))
    assert (queue.min_offset, queue.max_offset) == (0, 25)
    assert all_entries(queue) == entries_of(*range(100, 2600, 100))
    assert len(queue.entries(7, 100)) == 3 * ENTRY_SIZE
    assert len(queue.entries(7, 2)) == 2 * ENTRY_SIZE
    assert queue.entry(24) == (2500, 100, 2507)


@pytest.mark.parametrize("offset", [-1, 3, 2**40])
def test_entries_that_are_not_there_are_not_returned(queue: ConsumeQueue, offset: int) -> None:
    append(queue, 100, 200, 300)
    assert queue.entries(offset, 5) == b""
    assert queue.entry(offset) is None


def test_an_unused_queue_has_no_files(tmp_path: Path, queue: ConsumeQueue) -> None:
    assert queue.entries(0, 1) == b""
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    assert not (tmp_path / "TopicA").exists()


def test_a_file_size_is_rounded_up_to_whole_entries(tmp_path: Path) -> None:
    queue = ConsumeQueue(SystemDisk(), tmp_path, 190, b"TopicA", 0)
    append(queue, 100)
    queue.close()
    assert (tmp_path / f"{0:020d}").stat().st_size == 200


def test_a_queue_may_start_in_the_middle(tmp_path: Path, queue: ConsumeQueue) -> None:
    queue.append_blanks(13)
    append(queue, 5000, 5100)
    assert (queue.min_offset, queue.max_offset) == (13, 15)
    assert all_entries(queue) == entries_of(5000, 5100)
    queue.close()
    content = (tmp_path / "TopicA" / "0" / f"{200:020d}").read_bytes()
    assert list(unpack_entries(content[:100])) == [BLANK] * 3 + entries_of(5000, 5100)


def test_a_queue_may_start_with_a_file(tmp_path: Path, queue: ConsumeQueue) -> None:
    queue.append_blanks(10)
    append(queue, 5000)
    assert all_entries(queue) == entries_of(5000)
    assert [each.name for each in (tmp_path / "TopicA" / "0").iterdir()] == [f"{200:020d}"]


def test_lost_messages_are_blank_entries(queue: ConsumeQueue) -> None:
    append(queue, 100)
    queue.append_blanks(12)
    append(queue, 5000)
    assert all_entries(queue) == [*entries_of(100), *[BLANK] * 11, *entries_of(5000)]


def test_a_loaded_queue_continues_where_it_ended(queue: ConsumeQueue, reopened: Reopen) -> None:
    append(queue, *range(100, 2600, 100))
    queue, suspect_from = reopened(queue)
    assert suspect_from is None
    assert queue.max_offset == 25
    append(queue, 9000)
    assert all_entries(queue) == entries_of(*range(100, 2600, 100), 9000)


def test_a_loaded_queue_that_ends_with_its_file_continues_in_the_next(
    queue: ConsumeQueue, reopened: Reopen
) -> None:
    append(queue, *range(100, 1100, 100))
    queue, suspect_from = reopened(queue)
    assert (suspect_from, queue.max_offset) == (None, 10)
    append(queue, 9000)
    assert queue.entry(10) == (9000, 100, 9007)


def test_a_queue_that_started_in_the_middle_is_loaded_with_its_blanks(
    queue: ConsumeQueue, reopened: Reopen
) -> None:
    queue.append_blanks(13)
    append(queue, 5000)
    queue, suspect_from = reopened(queue)
    assert suspect_from is None
    assert queue.max_offset == 14
    queue.forget(0)
    assert queue.min_offset == 13


def test_a_long_queue_that_started_in_the_middle_starts_there_again(
    queue: ConsumeQueue, reopened: Reopen
) -> None:
    queue.append_blanks(14)
    append(queue, *range(1000, 6000, 100))
    again, suspect_from = reopened(queue)
    assert suspect_from is None
    assert (again.min_offset, again.max_offset) == (14, 64)
    again.forget(1000)
    assert again.min_offset == 14


def set_entry(tmp_path: Path, offset: int, entry: bytes) -> None:
    start = offset * ENTRY_SIZE - offset * ENTRY_SIZE % FILE_SIZE
    path = tmp_path / "TopicA" / "0" / f"{start:020d}"
    content = bytearray(path.read_bytes())
    position = offset * ENTRY_SIZE - start
    content[position : position + ENTRY_SIZE] = entry
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("offset", "entry", "kept", "suspect_from"),
    [
        (14, bytes(20), 13, 1400),
        (14, (-5).to_bytes(8, signed=True) + (100).to_bytes(4) + bytes(8), 13, 1400),
        (14, (1500).to_bytes(8) + bytes(4) + bytes(8), 13, 1400),
        (14, (99_999).to_bytes(8) + (100).to_bytes(4) + bytes(8), 14, 1500),
        (14, (1).to_bytes(8) + (100).to_bytes(4) + bytes(8), 13, 1400),
        (24, (2500).to_bytes(8) + bytes(4) + bytes(8), 23, 2400),
    ],
    ids=["hole", "negative", "no size", "too high", "too low", "last"],
)
def test_a_loaded_queue_ends_before_the_first_entry_that_cannot_be_right(
    tmp_path: Path,
    queue: ConsumeQueue,
    reopened: Reopen,
    offset: int,
    entry: bytes,
    kept: int,
    suspect_from: int,
) -> None:
    append(queue, *range(100, 2600, 100))
    set_entry(tmp_path, offset, entry)
    queue, found = reopened(queue)
    assert (queue.max_offset, found) == (kept, suspect_from)
    assert all_entries(queue) == entries_of(*range(100, 100 + kept * 100, 100))


@pytest.mark.parametrize("damage", ["size", "name", "gap"])
def test_a_queue_with_strange_files_starts_from_nothing(
    tmp_path: Path, queue: ConsumeQueue, reopened: Reopen, damage: str
) -> None:
    append(queue, *range(100, 2600, 100))
    directory = tmp_path / "TopicA" / "0"
    if damage == "size":
        (directory / f"{200:020d}").write_bytes(bytes(199))
    elif damage == "name":
        (directory / "notes.txt").touch()
        (directory / "z").write_bytes(b"z")
    else:
        (directory / f"{200:020d}").unlink()
    queue, suspect_from = reopened(queue)
    assert (suspect_from, queue.max_offset) == (0, 0)
    queue.cut(0)
    append(queue, 100)
    assert [each.name for each in directory.iterdir()] == [f"{0:020d}"]


@pytest.mark.parametrize("limit", [0, 100, 101, 1099, 1100, 1101, 2500, 2501])
def test_a_cut_drops_the_entries_of_records_from_the_limit_on(
    queue: ConsumeQueue, reopened: Reopen, limit: int
) -> None:
    append(queue, *range(100, 2600, 100))
    queue.cut(limit)
    queue.wipe_dropped(is_rest_synced=False)
    kept = [offset for offset in range(100, 2600, 100) if offset < limit]
    assert all_entries(queue) == entries_of(*kept)
    queue, suspect_from = reopened(queue)
    assert suspect_from is None
    assert all_entries(queue) == entries_of(*kept)
    append(queue, 9000)
    assert all_entries(queue) == entries_of(*kept, 9000)


def test_entries_that_come_again_as_they_were_are_not_written(
    queue: ConsumeQueue, reopened: Reopen
) -> None:
    append(queue, *range(100, 2600, 100))
    queue, _ = reopened(queue)
    dropped = b"".join(queue.entries(offset, 10) for offset in (5, 10, 20))
    queue.cut(600)
    assert queue.max_offset == 5
    queue.append_many(dropped)
    assert not queue.is_written
    assert all_entries(queue) == entries_of(*range(100, 2600, 100))
    append(queue, 2600)
    assert queue.entry(25) == (2600, 100, 2607)


@pytest.mark.parametrize("count", [3, 12, 30])
def test_other_entries_take_the_place_of_those_that_were_dropped(
    queue: ConsumeQueue, reopened: Reopen, count: int
) -> None:
    append(queue, *range(100, 2600, 100))
    queue, _ = reopened(queue)
    dropped = queue.entries(5, 2)
    queue.cut(600)
    queue.append_many(dropped)
    others = range(5000, 5000 + count * 100, 100)
    queue.append_many(b"".join(pack_entry(*each) for each in entries_of(*others)))
    queue.wipe_dropped(is_rest_synced=True)
    kept = entries_of(*range(100, 800, 100), *others)
    assert all_entries(queue) == kept
    queue, suspect_from = reopened(queue)
    assert (suspect_from, all_entries(queue)) == (None, kept)


def test_only_what_was_written_is_synced_if_the_rest_is_known_to_be(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    append(queue, *range(100, 2600, 100))
    queue.close()
    disk = FaultyDisk(tmp_path)
    queue = open_queue(tmp_path, disk)
    queue.load()
    queue.wipe_dropped(is_rest_synced=True)
    queue.sync()
    assert disk.syncs == 0
    append(queue, 2600)
    queue.sync()
    assert (disk.syncs, disk.unsynced()) == (1, [])
    queue.close()


def test_a_cut_does_not_bring_back_what_was_dropped(
    tmp_path: Path, queue: ConsumeQueue, reopened: Reopen
) -> None:
    append(queue, *range(100, 1300, 100))
    # The first file lost its end; the second one, which has it all, is to be dropped.
    set_entry(tmp_path, 9, bytes(ENTRY_SIZE))
    queue, _ = reopened(queue)
    kept = queue.max_offset
    assert kept < 9
    queue.cut(2000)
    assert queue.max_offset == kept


def test_a_cut_drops_the_blanks_before_the_first_dropped_entry(queue: ConsumeQueue) -> None:
    append(queue, 100)
    queue.append_blanks(5)
    append(queue, 9000)
    queue.cut(9000)
    assert all_entries(queue) == entries_of(100)


@pytest.mark.parametrize("offset", range(1, 25))
@pytest.mark.parametrize("physical_offset", [-1, 0, 2**62])
def test_a_damaged_entry_hides_no_message(
    queue: ConsumeQueue, offset: int, physical_offset: int
) -> None:
    append(queue, *range(1000, 3500, 100))
    queue.replace(offset, QueueEntry(physical_offset, 100, 0))
    queue.forget(500)
    assert queue.min_offset == 0


@pytest.mark.parametrize(
    ("log_start", "min_offset", "gone"),
    [
        (0, 0, 0),
        (100, 0, 0),
        (101, 1, 0),
        (1000, 9, 0),
        (1001, 10, 1),
        (2500, 24, 2),
        (2501, 25, 2),
    ],
)
def test_entries_of_forgotten_records_are_no_longer_there(
    queue: ConsumeQueue, log_start: int, min_offset: int, gone: int
) -> None:
    append(queue, *range(100, 2600, 100))
    files = queue.forget(log_start)
    assert queue.min_offset == min_offset
    assert [file.start for file in files] == [0, 200][:gone]
    assert (queue.entry(0) is None) == (gone > 0)
    for file in files:
        file.close()


def test_the_next_file_is_where_a_reader_continues_after_a_hole(queue: ConsumeQueue) -> None:
    append(queue, *range(100, 2600, 100))
    assert queue.next_file_offset(3) == 10
    assert queue.next_file_offset(10) == 20
    assert queue.next_file_offset(20) == 25


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (199, 0), (200, 1), (299, 1), (2600, 25)])
def test_the_offset_before_a_limit_counts_whole_records_only(
    queue: ConsumeQueue, limit: int, offset: int
) -> None:
    append(queue, *range(100, 2600, 100))
    assert queue.offset_before(limit) == offset


def test_the_last_physical_end_passes_over_blanks(queue: ConsumeQueue) -> None:
    assert queue.last_physical_end() == 0
    append(queue, 100)
    queue.append_blanks(5)
    assert queue.last_physical_end() == 200


def test_a_full_disk_is_reported_before_an_entry_is_needed(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    queue = open_queue(tmp_path, disk)
    append(queue, *range(100, 1100, 100))
    disk.is_full = True
    with raises(OSError, errno=errno.ENOSPC):
        queue.reserve()
    assert queue.max_offset == 10
    disk.is_full = False
    append(queue, 9000)
    assert queue.entry(10) == (9000, 100, 9007)
    queue.close()


def test_a_sync_covers_new_entries_and_the_names_of_new_files(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    queue = open_queue(tmp_path, disk)
    append(queue, *range(100, 1100, 100))
    queue.sync()
    assert disk.unsynced() == []
    calls = disk.calls
    queue.sync()
    assert disk.calls == calls
    append(queue, 9000)
    assert disk.unsynced() == [tmp_path / "TopicA" / "0" / f"{200:020d}"]
    queue.sync()
    assert disk.unsynced() == []
    queue.close()


def test_a_detached_queue_hands_over_its_files(queue: ConsumeQueue) -> None:
    append(queue, *range(100, 2600, 100))
    files = queue.detach()
    assert [file.start for file in files] == [0, 200, 400]
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    for file in files:
        file.close()


def test_only_the_last_file_counts_as_memory_of_this_process(tmp_path: Path) -> None:
    count = 50_000
    queue = ConsumeQueue(SystemDisk(), tmp_path / "TopicA" / "0", count * ENTRY_SIZE, b"TopicA", 0)
    append(queue, *range(count))
    full = queue._run.files[0].path
    assert resident_size(full) > 900_000
    append(queue, count)
    assert resident_size(full) == 0
    assert all_entries(queue) == entries_of(*range(count + 1))
    assert resident_size(full) > 900_000
    queue.give_back_memory()
    assert resident_size(full) == 0
    assert resident_size(queue._run.files[1].path) > 0
    queue.close()


def close_idle(queue: ConsumeQueue) -> int:
    gone = queue.let_go_of_idle()
    for file in gone:
        file.close()
    return len(gone)


def test_unused_files_are_released_once_they_are_synced(queue: ConsumeQueue) -> None:
    append(queue, *range(0, 2500, 100))
    assert (close_idle(queue), close_idle(queue)) == (0, 0)
    queue.sync()
    # The last one is written to: it was used since the last call, and was not since this one.
    assert (close_idle(queue), close_idle(queue)) == (2, 1)
    assert queue.mapping is None
    assert all_entries(queue) == entries_of(*range(0, 2500, 100))
    # They were used since the last call, but not since this one.
    assert (close_idle(queue), close_idle(queue)) == (0, 3)


@pytest.mark.parametrize("count", [19, 20, 21])
def test_a_queue_continues_in_a_file_that_was_let_go_of(queue: ConsumeQueue, count: int) -> None:
    append(queue, *range(0, count * 100, 100))
    queue.sync()
    while not close_idle(queue):
        pass
    append(queue, *range(count * 100, 4000, 100))
    assert all_entries(queue) == entries_of(*range(0, 4000, 100))


def test_what_is_written_to_a_file_that_was_let_go_of_is_synced(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    queue = open_queue(tmp_path, disk)
    append(queue, 0, 100)
    queue.sync()
    while not close_idle(queue):
        pass
    append(queue, 200)
    assert disk.unsynced() != []
    queue.sync()
    assert disk.unsynced() == []
    queue.close()


def test_the_sync_of_a_file_that_was_let_go_of_does_not_want_its_name(queue: ConsumeQueue) -> None:
    append(queue, 0)
    queue.sync()
    while not close_idle(queue):
        pass
    (file,) = queue.detach()
    file.unlink()
    file.sync()


def test_a_file_that_cannot_be_opened_is_not_part_of_the_queue(tmp_path: Path) -> None:
    class NoMapping(FaultyDisk):
        def map(self, *_: object, **_options: object) -> mmap:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    disk = NoMapping(tmp_path)
    queue = open_queue(tmp_path, disk)
    with raises(OSError, errno=errno.EMFILE):
        queue.reserve()
    assert list((tmp_path / "TopicA" / "0").iterdir()) == []
    # Nothing is left that could not be synced, and there are descriptors for others.
    queue.sync()
    queue.close()
