"""The numbers that log and queues share with compiled appends."""

from pathlib import Path

from roquet.store.commit_log import CommitLog
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.write_cursors import LogCursor, QueueCursor
from tests.support.quick_disk import QuickDisk


def test_a_log_is_its_tail(tmp_path: Path) -> None:
    log = CommitLog(QuickDisk(), tmp_path / "log", 4096)
    assert isinstance(log, LogCursor)
    assert (log.end, log.used_end, log.mapping) == (0, 0, None)
    log.resume()
    assert log.mapping is not None
    assert (log.file_start, log.used_end) == (0, 4096 - 8)
    log.close()
    assert log.mapping is None


def test_a_queue_without_a_file_has_no_room(tmp_path: Path) -> None:
    queue = ConsumeQueue(QuickDisk(), tmp_path / "queue", 200, b"TopicA", 0)
    assert isinstance(queue, QueueCursor)
    assert queue.position == queue.reserved_position == 0
    queue.reserve()
    assert queue.reserved_position - queue.position == 200
    queue.close()


def test_a_queue_that_is_gone_has_no_room(tmp_path: Path) -> None:
    queue = ConsumeQueue(QuickDisk(), tmp_path / "queue", 200, b"TopicA", 0)
    queue.reserve()
    for file in queue.detach():
        file.close()
    assert queue.position == queue.reserved_position == 0
