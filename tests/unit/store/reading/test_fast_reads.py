from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.store.consume_queue import QueueEntry
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits
from tests.support.drafts import draft
from tests.support.few_descriptors import few_descriptors_left
from tests.support.inner_parts import log_of, queues_of
from tests.support.recording_listener import RecordingListener
from tests.support.stores import EVERYTHING, opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with opened(tmp_path) as store:
        yield store


def append(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.append(draft(b"%03d" % number))


def test_a_usual_read_finds_what_any_read_finds(store: MessageStore) -> None:
    append(store, 8)
    limits = QueueReadLimits(3, 1 << 20)
    usual = store.fast_reads.read(b"TopicA", 0, 2, limits)
    assert usual is not None
    gathering, min_offset, max_offset = usual
    result = store.read("TopicA", 0, 2, limits)
    assert (gathering.body(), gathering.count) == (result.body, result.count)
    assert (gathering.offset, min_offset, max_offset) == (5, 0, 8)


@pytest.mark.parametrize("offset", [-1, 5, 6])
def test_there_is_nothing_usual_where_no_message_is(store: MessageStore, offset: int) -> None:
    append(store, 5)
    assert store.fast_reads.read(b"TopicA", 0, offset, EVERYTHING) is None
    assert store.fast_reads.read(b"TopicA", 1, 0, EVERYTHING) is None


def test_a_read_in_two_files_of_the_log_is_not_usual(store: MessageStore) -> None:
    for _ in range(4):
        store.append(draft(bytes(1_500)))
    assert len(log_of(store).files) > 1
    assert store.fast_reads.read(b"TopicA", 0, 0, EVERYTHING) is None
    assert store.read("TopicA", 0, 0, EVERYTHING).count == 4


def test_a_read_of_a_file_that_cannot_be_opened_now_is_not_usual(store: MessageStore) -> None:
    while len(log_of(store).files) < 2:
        append(store, 1)
    log_of(store).files[0].close()
    first = QueueReadLimits(1, 1 << 20)
    with few_descriptors_left(0):
        assert store.fast_reads.read(b"TopicA", 0, 0, first) is None
    assert store.fast_reads.read(b"TopicA", 0, 0, first) is not None


def test_a_read_that_finds_damage_is_not_usual_and_repairs_nothing(tmp_path: Path) -> None:
    listener = RecordingListener()
    with opened(tmp_path, listener=listener) as store:
        append(store, 3)
        queue = queues_of(store).find(b"TopicA", 0)
        assert queue is not None
        wrong = QueueEntry(7, 100, 0)
        queue.replace(1, wrong)
        assert store.fast_reads.read(b"TopicA", 0, 0, EVERYTHING) is None
        assert queue.entry(1) == wrong
        assert not listener.damages


def test_every_offset_is_read_alike_whichever_file_of_the_queue_has_it(tmp_path: Path) -> None:
    with opened(tmp_path, queue_file_size=5 * 20) as store:
        append(store, 18)
        limits = QueueReadLimits(3, 1 << 20)
        for offset in range(18):
            usual = store.fast_reads.read(b"TopicA", 0, offset, limits)
            result = store.read("TopicA", 0, offset, limits)
            assert usual is not None
            assert (usual[0].body(), usual[0].offset) == (result.body, result.next_offset)


def test_every_message_is_read_alike_whichever_files_of_the_log_are_left(tmp_path: Path) -> None:
    one = QueueReadLimits(1, 1 << 20)
    with opened(tmp_path) as store:
        while len(log_of(store).files) < 5:
            append(store, 1)
        count = store.read("TopicA", 0, 0, EVERYTHING).max_offset
        # The first one has expired, and one in the middle is lost.
        for file in (log_of(store).files.pop(0), log_of(store).files.pop(1)):
            file.close()
        usual = [store.fast_reads.read(b"TopicA", 0, offset, one) for offset in range(count)]
        for offset, found in enumerate(usual):
            if found is not None:
                assert found[0].body() == store.read("TopicA", 0, offset, one).body
        missing = sum(found is None for found in usual)
        # What lies behind the gap is left to others, but for the file that is written to.
        assert count // 5 < missing < count
        assert usual[-1] is not None
