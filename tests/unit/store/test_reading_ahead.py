import errno
from pathlib import Path
from threading import enumerate as all_threads

import pytest

from roquet.store.config import FlushMode
from roquet.store.message_store import MessageStore
from roquet.store.reading_ahead import AheadReader
from tests.support.drafts import draft
from tests.support.eventually import wait_until
from tests.support.inner_parts import log_of
from tests.support.quick_disk import QuickDisk
from tests.support.stores import bodies, opened

MIB = 1 << 20
PART = 4 * MIB


class NotingDisk(QuickDisk):
    """Notes what is fetched: files, with the start and the end of each stretch."""

    def __init__(self) -> None:
        self.stretches: list[tuple[str, int, int]] = []

    def fetch(self, descriptor: int, position: int, size: int) -> None:
        super().fetch(descriptor, position, size)
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        end = position + size
        if self.stretches and self.stretches[-1][::2] == (name, position):
            position = self.stretches.pop()[1]
        self.stretches.append((name, position, end))


class DamagedDisk(QuickDisk):
    def fetch(self, descriptor: int, position: int, size: int) -> None:
        raise OSError(errno.EIO, f"{size} bytes from {position} on are rotten", str(descriptor))


def append_mibs(store: MessageStore, count: int) -> int:
    """The end of the log."""
    for _ in range(count):
        store.append(draft(bytes(MIB)))
    return store.log_end


def test_it_reads_what_is_written_soon_at_the_same_pace(tmp_path: Path) -> None:
    disk = NotingDisk()
    with opened(tmp_path, disk=disk, commit_log_file_size=64 * MIB) as store:
        reader = AheadReader(log_of(store))
        first = append_mibs(store, 2)
        reader.turn()
        reader.turn()
        (stretch,) = disk.stretches
        second = append_mibs(store, 3)
        reader.turn()
    name, start, end = stretch
    # What is right behind the end is written now.
    assert (name, start) == (f"{0:020}", first + first // 4)
    # In parts: the last one may be more than is wanted.
    assert 0 <= end - 6 * first < PART
    assert [each[:2] for each in disk.stretches] == [(name, start)]
    assert 0 <= disk.stretches[0][2] - (second + 5 * (second - first)) < PART


def test_it_goes_on_in_the_next_file(tmp_path: Path) -> None:
    disk = NotingDisk()
    with opened(tmp_path, disk=disk, commit_log_file_size=8 * MIB) as store:
        reader = AheadReader(log_of(store))
        append_mibs(store, 5)
        log_of(store).make_next_file()
        reader.turn()
    last, following = disk.stretches
    assert last[0] == f"{0:020}"
    assert following[:2] == (f"{8 * MIB:020}", 0)


def test_it_reads_nothing_for_a_few_messages(tmp_path: Path) -> None:
    disk = NotingDisk()
    with opened(tmp_path, disk=disk, commit_log_file_size=16 * MIB) as store:
        reader = AheadReader(log_of(store))
        store.append(draft(bytes(MIB // 2 - 1000)))
        reader.turn()
    assert disk.stretches == []


def test_what_it_cannot_read_it_leaves_to_who_writes_there(tmp_path: Path) -> None:
    with opened(tmp_path, disk=DamagedDisk(), commit_log_file_size=16 * MIB) as store:
        reader = AheadReader(log_of(store))
        append_mibs(store, 2)
        reader.turn()
        append_mibs(store, 1)
        assert len(bodies(store)) == 3


def reader_threads() -> set[int | None]:
    """Brokers of other tests may have some in this process."""
    return {thread.ident for thread in all_threads() if thread.name == "roquet-read-ahead"}


@pytest.mark.parametrize("flush_mode", FlushMode)
def test_a_started_store_reads_ahead_unless_sends_wait_for_the_disk(
    tmp_path: Path, flush_mode: FlushMode
) -> None:
    disk = NotingDisk()
    before = reader_threads()
    with opened(tmp_path, disk=disk, flush_mode=flush_mode, commit_log_file_size=16 * MIB) as store:
        store.start()
        assert len(reader_threads() - before) == (flush_mode is FlushMode.ASYNC)
        append_mibs(store, 2)
        if flush_mode is FlushMode.ASYNC:
            wait_until(lambda: disk.stretches != [])
    assert reader_threads() <= before


def test_a_slave_does_not_read_ahead_until_it_leads(tmp_path: Path) -> None:
    before = reader_threads()
    with opened(tmp_path) as store:
        store.start()
        store.follow()
        assert reader_threads() <= before
        store.lead()
        assert len(reader_threads() - before) == 1
