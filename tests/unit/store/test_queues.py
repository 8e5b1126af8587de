import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.protocol.errors import BadMessage
from roquet.store.files.layout import layout_of
from roquet.store.queues import ConsumeQueues


def open_table(root: Path) -> ConsumeQueues:
    return ConsumeQueues(SystemDisk(), layout_of(root), 200)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ConsumeQueues]:
    table = open_table(tmp_path)
    yield table
    table.close()


def append(table: ConsumeQueues, topic: bytes, queue_id: int, *physical_offsets: int) -> None:
    queue = table.find_or_add(topic, queue_id)
    for offset in physical_offsets:
        queue.reserve()
        queue.append(offset, 10, 0)


def test_a_queue_is_found_after_it_was_added(table: ConsumeQueues) -> None:
    assert table.find(b"TopicA", 0) is None
    queue = table.find_or_add(b"TopicA", 0)
    assert table.find(b"TopicA", 0) is queue is table.find_or_add(b"TopicA", 0)


@pytest.mark.parametrize(("topic", "queue_id"), [(b"../etc", 0), (b"", 0), (b"TopicA", -1)])
def test_a_queue_that_could_lie_outside_the_store_is_refused(
    table: ConsumeQueues, topic: bytes, queue_id: int
) -> None:
    with pytest.raises(BadMessage):
        table.find_or_add(topic, queue_id)


def test_all_queues_are_loaded_and_stray_names_passed_over(
    tmp_path: Path, table: ConsumeQueues
) -> None:
    append(table, b"TopicA", 0, 0, 10)
    append(table, b"TopicA", 12, 20)
    append(table, b"%RETRY%g", 0, 30)
    table.close()
    (tmp_path / "consumequeue" / "stray").touch()
    (tmp_path / "consumequeue" / os.fsdecode(b"no \xff text") / "0").mkdir(parents=True)
    (tmp_path / "consumequeue" / "TopicA" / "stray").mkdir()
    (tmp_path / "consumequeue" / "TopicA" / "0.new").touch()
    loaded = open_table(tmp_path)
    assert loaded.load() is None
    assert {(each.topic, each.queue_id, each.max_offset) for each in loaded} == {
        (b"TopicA", 0, 2),
        (b"TopicA", 12, 1),
        (b"%RETRY%g", 0, 1),
    }
    loaded.close()


def test_the_earliest_doubt_of_all_queues_counts(tmp_path: Path, table: ConsumeQueues) -> None:
    append(table, b"TopicA", 0, 0, 10, 20, 30)
    append(table, b"TopicA", 1, 40, 50, 60, 70)
    table.close()
    for queue_id in (0, 1):
        path = tmp_path / "consumequeue" / "TopicA" / str(queue_id) / f"{0:020d}"
        content = bytearray(path.read_bytes())
        content[60 + 8 : 60 + 12] = bytes(4)  # the size of entry 3
        path.write_bytes(content)
    loaded = open_table(tmp_path)
    assert loaded.load() == 20
    loaded.close()


def test_a_removed_queue_leaves_no_names(tmp_path: Path, table: ConsumeQueues) -> None:
    append(table, b"TopicA", 0, *range(0, 200, 10))
    append(table, b"TopicA", 1, 200)
    for queue_id, left in ((0, ["TopicA"]), (1, [])):
        queue = table.find_or_add(b"TopicA", queue_id)
        for file in table.remove(queue):
            file.close()
        assert [each.name for each in (tmp_path / "consumequeue").iterdir()] == left
    assert table.find(b"TopicA", 0) is None


def test_a_queue_without_files_can_be_removed(table: ConsumeQueues) -> None:
    assert table.remove(table.find_or_add(b"TopicA", 0)) == []


def test_the_queues_of_a_topic_are_counted_by_the_greatest_id(table: ConsumeQueues) -> None:
    append(table, b"TopicA", 0, 0)
    append(table, b"TopicA", 12, 20)
    append(table, b"TopicB", 30, 40)
    table.find_or_add(b"TopicA", 20)  # It has no entry.
    counts = [table.count_of(topic) for topic in (b"TopicA", b"TopicB", b"TopicC", b"../etc", b"")]
    assert counts == [13, 31, 0, 0, 0]
