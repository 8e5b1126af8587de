from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.store.commit_log import CommitLog
from roquet.store.files.layout import layout_of
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.queues import ConsumeQueues
from roquet.store.recovery.queue_ends import QueueEnds
from tests.support.drafts import draft
from tests.support.stores import open_store

SIZES = (4096, 200)


@pytest.fixture
def offsets(tmp_path: Path) -> dict[str, list[int]]:
    """Where the messages of two queues lie, five of each in turns."""
    store = open_store(tmp_path)
    found: dict[str, list[int]] = {"A": [], "B": []}
    for _ in range(5):
        for topic, places in found.items():
            places.append(store.append(draft(topic=topic)).physical_offset)
    store.close()
    return found


class Loaded:
    def __init__(self, root: Path) -> None:
        disk, layout = SystemDisk(), layout_of(root)
        self.log = CommitLog(disk, layout.commit_log, SIZES[0])
        self.log.load()
        self.queues = ConsumeQueues(disk, layout, SIZES[1])
        self.ends = QueueEnds(self.log, self.queues, DeletedQueues(disk, layout.deletions))

    def lengths(self) -> dict[bytes, int]:
        return {queue.topic: queue.max_offset for queue in self.queues}


@pytest.fixture
def loaded(tmp_path: Path, offsets: dict[str, list[int]]) -> Iterator[Loaded]:
    assert offsets
    loaded = Loaded(tmp_path)
    yield loaded
    loaded.queues.close()
    loaded.log.close()


def test_queues_end_before_the_part_of_the_log_that_is_dispatched_again(
    loaded: Loaded, offsets: dict[str, list[int]]
) -> None:
    assert loaded.ends.load(offsets["B"][3]) is None
    loaded.ends.cut(offsets["B"][3])
    assert loaded.lengths() == {b"A": 4, b"B": 3}
    assert {queue.topic for queue in loaded.ends.shorter()} == {b"A", b"B"}


def test_queues_are_cut_again_if_more_has_to_be_dispatched(
    loaded: Loaded, offsets: dict[str, list[int]]
) -> None:
    loaded.ends.load(offsets["B"][3])
    loaded.ends.cut(offsets["A"][1])
    assert loaded.lengths() == {b"A": 1, b"B": 1}


def test_damaged_queues_are_left_alone_until_all_are_cut(
    tmp_path: Path, loaded: Loaded, offsets: dict[str, list[int]]
) -> None:
    strange = tmp_path / "consumequeue" / "A" / "0" / "strange"
    strange.write_bytes(b"?")
    assert loaded.ends.load(offsets["B"][3]) == 0
    assert strange.exists()
    loaded.ends.cut(0)
    assert not strange.exists()
    assert loaded.lengths() == {b"A": 0, b"B": 0}


def test_last_entries_that_lead_to_no_record_of_their_queue_are_dropped(
    tmp_path: Path, loaded: Loaded, offsets: dict[str, list[int]]
) -> None:
    path = tmp_path / "consumequeue" / "A" / "0" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    # The last leads into the middle of a record, the one before to that of another queue.
    content[60:68] = offsets["B"][3].to_bytes(8)
    content[80:88] = (offsets["B"][4] + 7).to_bytes(8)
    path.write_bytes(content)
    assert loaded.ends.load(4096) is None
    loaded.ends.cut(4096)
    assert loaded.lengths() == {b"A": 3, b"B": 5}
