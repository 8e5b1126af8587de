from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roquet.protocol.host import pack_host
from roquet.protocol.java_hash import java_hash
from roquet.protocol.messages.record import read_record
from roquet.store.consume_queue import QueueEntry
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits, ReadResult, ReadStatus
from tests.support.drafts import draft
from tests.support.inner_parts import log_of, queues_of
from tests.support.recording_listener import RecordingListener
from tests.support.stores import EVERYTHING, bodies, crash, open_store, opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with opened(tmp_path) as store:
        yield store


def append(store: MessageStore, count: int, **options: object) -> None:
    for number in range(count):
        store.append(draft(b"%03d" % number, **options))  # type: ignore[arg-type]


def read(
    store: MessageStore, offset: int, count_max: int = 100, size_max: int = 1 << 20
) -> ReadResult:
    return store.read("TopicA", 0, offset, QueueReadLimits(count_max, size_max))


def found(result: ReadResult) -> list[bytes]:
    return [bytes(read_record(record).body) for record in result.records]


def place(result: ReadResult) -> tuple[ReadStatus, int]:
    assert result.records == []
    return result.status, result.next_offset


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, ReadStatus.OFFSET_TOO_SMALL, 0),
        (5, ReadStatus.OFFSET_OVERFLOW_ONE, 5),
        (6, ReadStatus.OFFSET_OVERFLOW_BADLY, 5),
        (2**40, ReadStatus.OFFSET_OVERFLOW_BADLY, 5),
    ],
)
def test_an_offset_outside_the_queue_is_corrected(
    store: MessageStore, offset: int, status: ReadStatus, next_offset: int
) -> None:
    append(store, 5)
    assert place(read(store, offset)) == (status, next_offset)


@pytest.mark.parametrize("offset", [0, 7])
def test_a_queue_without_messages_starts_at_zero(store: MessageStore, offset: int) -> None:
    assert place(read(store, offset)) == (ReadStatus.NO_MESSAGE_IN_QUEUE, 0)


def test_messages_come_in_order_up_to_the_end_of_a_queue_file(store: MessageStore) -> None:
    append(store, 15)
    result = read(store, 3)
    assert result.status is ReadStatus.FOUND
    assert found(result) == [b"%03d" % number for number in range(3, 10)]
    assert (result.next_offset, result.min_offset, result.max_offset) == (10, 0, 15)
    assert found(read(store, 10)) == [b"%03d" % number for number in range(10, 15)]


def test_the_count_is_limited(store: MessageStore) -> None:
    append(store, 9)
    result = read(store, 2, count_max=3)
    assert found(result) == [b"002", b"003", b"004"]
    assert result.next_offset == 5


@pytest.mark.parametrize("count_max", [0, -1])
def test_a_pull_for_no_message_gets_one(store: MessageStore, count_max: int) -> None:
    append(store, 9)
    result = read(store, 2, count_max=count_max)
    assert (found(result), result.next_offset) == ([b"002"], 3)


def test_the_size_is_limited_but_one_message_always_comes(store: MessageStore) -> None:
    append(store, 5)
    size = draft(b"000").size
    assert len(read(store, 0, size_max=2 * size).records) == 2
    assert len(read(store, 0, size_max=2 * size - 1).records) == 1
    assert len(read(store, 0, size_max=1).records) == 1


def test_what_has_to_come_from_disk_comes_in_smaller_portions(tmp_path: Path) -> None:
    with opened(tmp_path, memory_size=1_000, memory_percent=40) as store:
        append(store, 10)
        assert len(read(store, 0).records) == 8
        assert len(read(store, 8).records) == 2


def test_tags_are_filtered_by_the_code_in_the_entry(store: MessageStore) -> None:
    for number in range(9):
        store.append(draft(b"%d" % number, properties={"TAGS": "ab"[number % 2]}))
    code = java_hash("b")
    result = store.read(
        "TopicA", 0, 1, QueueReadLimits(2, 1 << 20, matches_code=lambda each: each == code)
    )
    assert found(result) == [b"1", b"3"]
    assert result.next_offset == 4
    result = store.read(
        "TopicA", 0, 2, QueueReadLimits(9, 1 << 20, matches_code=lambda each: each == 7)
    )
    assert place(result) == (ReadStatus.NO_MATCHED_MESSAGE, 9)


def test_a_code_that_is_no_hash_passes_every_filter(store: MessageStore) -> None:
    append(store, 2)
    queue = queues_of(store).find(b"TopicA", 0)
    assert queue is not None
    entry = queue.entry(1)
    assert entry is not None
    queue.replace(1, entry._replace(tags_code=-(2**31) - 1))
    result = store.read("TopicA", 0, 0, QueueReadLimits(9, 1 << 20, matches_code=lambda _: False))
    assert found(result) == [b"001"]


def test_records_are_filtered_by_their_bytes(store: MessageStore) -> None:
    append(store, 9)
    limits = QueueReadLimits(
        2, 1 << 20, matches_record=lambda record: read_record(record).body >= b"004"
    )
    result = store.read("TopicA", 0, 0, limits)
    assert found(result) == [b"004", b"005"]
    assert result.next_offset == 6


def test_a_filter_looks_at_many_entries_for_one_read(tmp_path: Path) -> None:
    with opened(tmp_path, queue_file_size=200_000) as store:
        append(store, 900)
        result = store.read(
            "TopicA", 0, 0, QueueReadLimits(9, 1 << 20, matches_code=lambda _: False)
        )
        assert place(result) == (ReadStatus.NO_MATCHED_MESSAGE, 800)


def test_uncommon_records_are_read_too(store: MessageStore) -> None:
    store.append(draft(b"v6", born_host=pack_host("::1", 9)))
    assert bodies(store) == [b"v6"]


def damage_entry(store: MessageStore, offset: int, position: int) -> None:
    queue = queues_of(store).find(b"TopicA", 0)
    assert queue is not None
    file = queue._run.file_at(offset * 20)
    assert file is not None
    file.mapping[offset * 20 - file.start + position] ^= 0xFF


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 19])
@pytest.mark.parametrize("position", range(12))
def test_a_damaged_entry_is_repaired_when_it_is_read(
    tmp_path: Path, offset: int, position: int
) -> None:
    listener = RecordingListener()
    with opened(tmp_path, listener=listener) as store:
        append(store, 20)
        damage_entry(store, offset, position)
        expected = [b"%03d" % number for number in range(20)]
        assert bodies(store) == expected
        assert len(listener.damages) == 1
        assert bodies(store) == expected
        assert len(listener.damages) == 1


def test_an_entry_that_was_wiped_out_is_repaired_when_it_is_read(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 5)
        queue = queues_of(store).find(b"TopicA", 0)
        assert queue is not None
        queue.replace(3, QueueEntry(0, 0, 0))
        assert bodies(store) == [b"%03d" % number for number in range(5)]


def test_an_entry_that_points_to_another_message_never_yields_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        # Two queues whose messages are alike but for the topic.
        for number in range(8):
            store.append(draft(b"%03d" % number, topic="TopicA"))
            store.append(draft(b"%03d" % number, topic="TopicB"))
        queue, other = (queues_of(store).find(topic, 0) for topic in (b"TopicA", b"TopicB"))
        assert queue is not None
        assert other is not None
        wrong = other.entry(3)
        assert wrong is not None
        queue.replace(3, wrong)
        assert [message.topic for message in map(read_record, read(store, 3).records)] == (
            ["TopicA"] * 5
        )


def test_a_damaged_record_in_a_file_that_was_not_looked_at_is_not_handed_out(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    append(store, 150)
    store.close()
    first_file = tmp_path / "commitlog" / f"{0:020d}"
    content = bytearray(first_file.read_bytes())
    content[draft(b"000").size + 88] ^= 1  # the body of message 1
    first_file.write_bytes(content)
    listener = RecordingListener()
    with opened(tmp_path, listener=listener) as store:
        assert store.recovery is not None
        assert store.recovery.scanned_from > 0
        expected = [b"%03d" % number for number in range(150) if number != 1]
        assert bodies(store) == expected
        assert [damage.physical_offset for damage in listener.damages] == [draft(b"000").size]


@pytest.mark.parametrize("end", [None, MessageStore.close, crash], ids=["new", "clean", "crash"])
def test_a_record_that_rots_below_a_running_store_is_not_handed_out(
    tmp_path: Path, end: Callable[[MessageStore], None] | None
) -> None:
    listener = RecordingListener()
    large: dict[str, Any] = {"commit_log_file_size": 1 << 25, "listener": listener}
    store = open_store(tmp_path, **large)
    # What was written last is in memory, and is not looked at again.
    sent = [bytes([number]) * (1 << 20) for number in range(20)]
    offsets = [store.append(draft(body)).physical_offset for body in sent]
    if end is not None:
        end(store)
        store = open_store(tmp_path, **large)
    file = log_of(store).file_at(0)
    assert file is not None
    assert file.is_verified
    with file.path.open("r+b") as opened_file:
        opened_file.seek(offsets[1] + 5000)
        opened_file.write(b"\xff")
    assert bodies(store) == [body for body in sent if body != sent[1]]
    assert [damage.physical_offset for damage in listener.damages] == [offsets[1]]
    assert store.fast_reads.read(b"TopicA", 0, 1, QueueReadLimits(1, 1 << 30)) is None
    store.close()


def flip_body(store: MessageStore, physical_offset: int) -> None:
    """On the disk, below a running store."""
    file = log_of(store).file_at(physical_offset)
    assert file is not None
    with file.path.open("r+b") as opened_file:
        opened_file.seek(physical_offset - file.start + 88)
        opened_file.write(b"\xff")


@pytest.mark.parametrize("end", [MessageStore.close, crash], ids=["clean", "crash"])
def test_after_a_start_the_last_records_come_from_disk_too(
    tmp_path: Path, end: Callable[[MessageStore], None]
) -> None:
    store = open_store(tmp_path)
    append(store, 5)
    end(store)
    listener = RecordingListener()
    with opened(tmp_path, listener=listener) as store:
        flip_body(store, 3 * draft(b"000").size)
        assert bodies(store) == [b"000", b"001", b"002", b"004"]
        assert len(listener.damages) == 1


def test_records_are_taken_as_they_are_if_that_is_wanted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 5)
    with opened(tmp_path, check_reads=False) as store:
        flip_body(store, 3 * draft(b"000").size)
        assert store.fast_reads.read(b"TopicA", 0, 0, EVERYTHING) is not None


def test_a_hole_in_the_queue_files_is_stepped_over(store: MessageStore) -> None:
    append(store, 25)
    queue = queues_of(store).find(b"TopicA", 0)
    assert queue is not None
    queue._run.files.pop(1).close()
    assert place(read(store, 12)) == (ReadStatus.OFFSET_FOUND_NULL, 20)


def test_lost_messages_are_passed_over(store: MessageStore) -> None:
    append(store, 3)
    queue = queues_of(store).find(b"TopicA", 0)
    assert queue is not None
    queue.append_blanks(5)
    store.append(draft(b"last"))
    assert bodies(store) == [b"000", b"001", b"002", b"last"]
    assert place(read(store, 3, count_max=2)) == (ReadStatus.NO_MATCHED_MESSAGE, 5)


def test_reading_survives_a_crash_of_the_writer(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    append(store, 30)
    crash(store)
    with opened(tmp_path) as store:
        assert len(read(store, 0, count_max=5).records) == 5
        assert store.read("TopicA", 0, 29, EVERYTHING).next_offset == 30
