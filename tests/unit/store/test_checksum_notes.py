"""Garbage over a checksum is damage where we wrote the record, and only there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.protocol.messages.record import CHECKSUM_SIZE
from roquet.state_file import BadStateFile
from roquet.store.checksum_notes import ChecksumNotes
from roquet.store.log_scan import NO_END, ChecksummedRanges
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.inner_parts import log_of, queues_of
from tests.support.other_owner import owned_by_another
from tests.support.recording_listener import RecordingListener
from tests.support.stores import bodies, crash, open_store, opened

ENDS = pytest.mark.parametrize("end", [MessageStore.close, crash], ids=["clean", "crash"])
SIZE = draft(b"000").size


def append(store: MessageStore, numbers: range, *, has_checksum: bool = True) -> None:
    for number in numbers:
        store.append(draft(b"%03d" % number, has_checksum=has_checksum))


def append_bare(numbers: range) -> Callable[[MessageStore], None]:
    return lambda store: append(store, numbers, has_checksum=False)


def expected(count: int, *lost: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count) if number not in lost]


def overwrite_checksum(root: Path, physical_end: int) -> None:
    """Put other properties, which look like some, in the place of a checksum and what is before."""
    garbage = b"name\x01some values\x02a\x01b"
    assert len(garbage) == CHECKSUM_SIZE
    path = root / "commitlog" / f"{physical_end // 4096 * 4096:020d}"
    with path.open("r+b") as file:
        file.seek(physical_end % 4096 - CHECKSUM_SIZE)
        file.write(garbage)


def notes(root: Path) -> object:
    content = json.loads((root / "checksummed.json").read_bytes())
    return content["ranges"], content["openFrom"]


@ENDS
def test_garbage_over_a_checksum_is_damage(
    tmp_path: Path, end: Callable[[MessageStore], None]
) -> None:
    store = open_store(tmp_path)
    append(store, range(10))
    store.flush()
    end(store)
    overwrite_checksum(tmp_path, 4 * SIZE)
    with opened(tmp_path) as store:
        assert bodies(store) == expected(10, 3)
        assert store.recovery is not None
        assert [damage.start for damage in store.recovery.damages] == [3 * SIZE]


def test_garbage_over_a_checksum_below_a_running_store_is_not_handed_out(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, range(10))
    listener = RecordingListener()
    with opened(tmp_path, listener=listener) as store:
        overwrite_checksum(tmp_path, 4 * SIZE)
        assert bodies(store) == expected(10, 3)
        assert [each.physical_offset for each in listener.damages] == [3 * SIZE]


def test_a_record_that_leaves_no_room_for_a_checksum_needs_none(tmp_path: Path) -> None:
    longest = {"name": "x" * (32767 - len("name\x01"))}
    for _ in range(2):
        with opened(tmp_path, commit_log_file_size=1 << 20) as store:
            store.append(draft(b"long", properties=longest, has_checksum=False))
    with opened(tmp_path, commit_log_file_size=1 << 20) as store:
        assert bodies(store) == [b"long"] * 2


@ENDS
def test_the_file_is_written_when_a_store_changes_hands_and_not_at_every_start(
    tmp_path: Path, end: Callable[[MessageStore], None]
) -> None:
    store = open_store(tmp_path)
    append(store, range(5))
    end(store)
    written = (tmp_path / "checksummed.json").stat()
    store = open_store(tmp_path)
    append(store, range(5, 9))
    end(store)
    open_store(tmp_path).close()
    assert (tmp_path / "checksummed.json").stat().st_ino == written.st_ino
    assert notes(tmp_path) == ([], 0)


@ENDS
@pytest.mark.parametrize("other_end", [MessageStore.close, crash], ids=["clean", "crash"])
def test_what_another_broker_wrote_needs_no_checksums(
    tmp_path: Path,
    end: Callable[[MessageStore], None],
    other_end: Callable[[MessageStore], None],
) -> None:
    store = open_store(tmp_path)
    append(store, range(50))
    store.flush()
    end(store)
    owned_by_another(tmp_path, append_bare(range(50, 60)), other_end)
    for _ in range(2):
        with opened(tmp_path) as store:
            assert bodies(store) == expected(60)
            assert store.recovery is not None
            assert store.recovery.damages == ()


def test_what_we_wrote_before_and_after_another_broker_is_remembered(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, range(10))
    owned_by_another(tmp_path, append_bare(range(10, 15)))
    with opened(tmp_path) as store:
        theirs_end = store.log_end
        append(store, range(15, 20))
    assert notes(tmp_path) == ([[0, 10 * SIZE]], theirs_end)
    overwrite_checksum(tmp_path, 4 * SIZE)
    overwrite_checksum(tmp_path, theirs_end + 2 * SIZE)
    with opened(tmp_path) as store:
        assert bodies(store) == expected(20, 3, 16)


def test_a_broker_that_cut_our_records_off_and_wrote_its_own_there_is_believed(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as store:
        append(store, range(10))

    def cut_and_append(store: MessageStore) -> None:
        log_of(store).cut(6 * SIZE)
        queue = queues_of(store).find(b"TopicA", 0)
        assert queue is not None
        queue.cut(6 * SIZE)
        log_of(store).resume()
        append(store, range(6, 20), has_checksum=False)

    owned_by_another(tmp_path, cut_and_append)
    with opened(tmp_path) as store:
        assert bodies(store) == expected(20)
        assert log_of(store).checksummed.part_at(5 * SIZE).must_have
        assert not log_of(store).checksummed.part_at(6 * SIZE).must_have


def test_a_crash_before_the_first_sync_loses_no_knowledge(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    append(store, range(10))
    crash(store)
    open_store(tmp_path).close()
    assert notes(tmp_path) == ([], 0)


def test_a_writer_without_checksums_ends_the_range(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, range(5))
    with opened(tmp_path, write_checksums=False) as store:
        append(store, range(5, 9), has_checksum=False)
    assert notes(tmp_path) == ([[0, 5 * SIZE]], None)
    with opened(tmp_path) as store:
        assert bodies(store) == expected(9)


def test_what_expired_is_not_remembered(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, range(50))
    owned_by_another(tmp_path, append_bare(range(50, 60)))
    with opened(tmp_path) as store:
        append(store, range(60, 150))
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    (tmp_path / "commitlog" / f"{4096:020d}").unlink()
    with opened(tmp_path) as store:
        assert store.log_start == 8192
        (start, end) = log_of(store).checksummed.ranges[-1]
    assert notes(tmp_path) == ([], start)
    assert end == NO_END


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"ranges":[[5,3]],"openFrom":9}',
        b'{"ranges":[[0,5],[3,9]],"openFrom":9}',
        b'{"ranges":[[0,5]],"openFrom":4}',
        b'{"ranges":[[-1,5]],"openFrom":9}',
    ],
)
def test_unreadable_notes_do_not_prevent_a_start(tmp_path: Path, content: bytes) -> None:
    with opened(tmp_path) as store:
        append(store, range(5))
    for name in ("checksummed.json", "checksummed.json.bak"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadStateFile):
        ChecksumNotes(SystemDisk(), tmp_path / "checksummed.json").load(5 * SIZE)
    with opened(tmp_path) as store:
        assert bodies(store) == expected(5)
        assert store.recovery is not None
        assert "checksummed.json" in store.recovery.lost_notes
        assert log_of(store).checksummed == ChecksummedRanges(((5 * SIZE, NO_END),))
    assert (tmp_path / "checksummed.json.damaged").read_bytes() == content
