from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.store.consume_queue import BLANK_SIZE
from roquet.store.dispatch import (
    SCHEDULE_TOPIC,
    Dispatcher,
    EntriesMissing,
    delivery_time_of,
)
from roquet.store.files.layout import layout_of
from roquet.store.log_scan import LogRecord
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.queues import ConsumeQueues

LEVELS_MS = (1_000, 5_000, 10_000)


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (b"DELAY\x011", 101_000),
        (b"DELAY\x013\x02TAGS\x01TagA", 110_000),
        (b"DELAY\x0199", 110_000),
        (b"DELAY\x01" + b"9" * 5000, 0),
        (b"DELAY\x010\x02TAGS\x01TagA", 2598919),
        (b"DELAY\x01-1", 0),
        (b"DELAY\x01soon", 0),
        (b"TAGS\x01TagA", 2598919),
    ],
)
def test_a_delayed_message_has_its_time_of_delivery_instead(properties: bytes, code: int) -> None:
    assert delivery_time_of(properties, 100_000, LEVELS_MS) == code


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[ConsumeQueues]:
    table = ConsumeQueues(SystemDisk(), layout_of(tmp_path), 200)
    yield table
    table.close()


def dispatcher(
    queues: ConsumeQueues,
    log_start: int = 0,
    dispatched_from: int = 0,
    deletions: DeletedQueues | None = None,
) -> Dispatcher:
    return Dispatcher(
        queues,
        deletions or DeletedQueues(SystemDisk(), Path("unused")),
        LEVELS_MS,
        log_start=log_start,
        dispatched_from=dispatched_from,
    )


def record(
    physical_offset: int,
    queue_offset: int,
    *,
    topic: bytes = b"TopicA",
    sys_flag: int = 0,
    properties: bytes = b"TAGS\x01TagA",
) -> LogRecord:
    return LogRecord(physical_offset, 100, topic, 0, queue_offset, sys_flag, 5_000, properties)


def offsets(queues: ConsumeQueues, topic: bytes = b"TopicA") -> list[int]:
    queue = queues.find(topic, 0)
    assert queue is not None
    found = (queue.entry(offset) for offset in range(queue.min_offset, queue.max_offset))
    return [-1 if entry.size == BLANK_SIZE else entry.physical_offset for entry in found if entry]


def test_records_become_entries(queues: ConsumeQueues) -> None:
    make = dispatcher(queues)
    make.dispatch(record(0, 0))
    make.dispatch(record(100, 1))
    queue = queues.find(b"TopicA", 0)
    assert queue is not None
    assert queue.entry(1) == (100, 100, 2598919)
    assert queue.max_offset == 2


def test_a_delayed_record_has_its_time_in_the_entry(queues: ConsumeQueues) -> None:
    dispatcher(queues).dispatch(record(0, 0, topic=SCHEDULE_TOPIC, properties=b"DELAY\x012"))
    queue = queues.find(SCHEDULE_TOPIC, 0)
    assert queue is not None
    assert queue.entry(0) == (0, 100, 10_000)


@pytest.mark.parametrize(("sys_flag", "is_queued"), [(0, True), (4, False), (8, True), (12, False)])
def test_prepared_and_rolled_back_records_are_in_no_queue(
    queues: ConsumeQueues, sys_flag: int, is_queued: bool
) -> None:
    dispatcher(queues).dispatch(record(0, 0, sys_flag=sys_flag | 1))
    assert (queues.find(b"TopicA", 0) is not None) == is_queued


def test_a_queue_whose_first_messages_are_forgotten_starts_later(queues: ConsumeQueues) -> None:
    dispatcher(queues, log_start=4_096, dispatched_from=4_096).dispatch(record(4_096, 13))
    queue = queues.find(b"TopicA", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset) == (13, 14)


def test_lost_records_become_blank_entries(queues: ConsumeQueues) -> None:
    make = dispatcher(queues)
    make.dispatch(record(0, 0))
    make.dispatch(record(400, 3))
    assert offsets(queues) == [0, -1, -1, 400]


def test_an_offset_that_more_messages_than_fit_would_need_is_a_lie(queues: ConsumeQueues) -> None:
    make = dispatcher(queues)
    make.dispatch(record(0, 0))
    make.dispatch(record(400, 5))
    make.dispatch(record(500, 1))
    assert offsets(queues) == [0, 500]
    assert make.misfits == [400]


@pytest.mark.parametrize("queue_offset", [1, 2, -1, -(2**63), 2**63 - 1])
def test_an_offset_that_is_taken_or_impossible_is_a_lie(
    queues: ConsumeQueues, queue_offset: int
) -> None:
    make = dispatcher(queues)
    for number in range(3):
        make.dispatch(record(number * 100, number))
    make.dispatch(record(300, queue_offset))
    assert offsets(queues) == [0, 100, 200]
    assert make.misfits == [300]


def test_a_queue_that_starts_again_at_zero_was_made_again(queues: ConsumeQueues) -> None:
    make = dispatcher(queues)
    for number in range(15):
        make.dispatch(record(number * 100, number))
    make.dispatch(record(1_500, 0))
    make.dispatch(record(1_600, 1))
    assert offsets(queues) == [1_500, 1_600]


def test_a_topic_that_is_no_name_is_passed_over(tmp_path: Path, queues: ConsumeQueues) -> None:
    make = dispatcher(queues)
    make.dispatch(record(0, 0, topic=b"../../etc"))
    assert make.misfits == [0]
    assert list(queues) == []


def test_entries_missing_before_the_dispatched_part_are_asked_for(queues: ConsumeQueues) -> None:
    dispatcher(queues).dispatch(record(0, 0))
    with pytest.raises(EntriesMissing) as caught:
        dispatcher(queues, dispatched_from=4_096).dispatch(record(4_096, 2))
    assert caught.value.physical_offset == 100
    with pytest.raises(EntriesMissing) as caught:
        dispatcher(queues, dispatched_from=4_096).dispatch(record(4_096, 2, topic=b"TopicB"))
    assert caught.value.physical_offset == 0


def test_entries_of_forgotten_records_are_not_asked_for(queues: ConsumeQueues) -> None:
    dispatcher(queues).dispatch(record(0, 0))
    dispatcher(queues, log_start=4_096, dispatched_from=4_096).dispatch(record(4_096, 2))
    assert offsets(queues) == [0, -1, 4_096]


def test_records_of_a_deleted_queue_are_passed_over(tmp_path: Path, queues: ConsumeQueues) -> None:
    deletions = DeletedQueues(SystemDisk(), tmp_path / "deleted.json")
    deletions.load()
    deletions.add([(b"TopicA", 0)], log_start=0, log_end=200)
    make = dispatcher(queues, deletions=deletions)
    for offset, queue_offset in ((0, 0), (100, 1), (200, 0), (300, 1)):
        make.dispatch(record(offset, queue_offset))
    assert offsets(queues) == [200, 300]
    assert make.misfits == []
