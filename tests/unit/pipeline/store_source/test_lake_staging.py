"""Parts of a log become pieces of a lake: what it lacks, without gaps, and nothing else."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import DamagedStore
from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.lake.files import MissingRange
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import StoreOptions
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.store_source.lake_staging import (
    SplitTask,
    StoredQueue,
    described,
    needed_splits,
    replaced_since,
    stage_split,
    stored_queues,
)
from roquet.pipeline.store_source.splits import splits_of
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.lake_rows import found_by_arrow
from tests.support.spark_store import flip
from tests.support.stores import opened

FILE_ROWS_MAX = 20
COUNT = 60
TOPIC = "orders"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.open(tmp_path / "lake", LakeSettings(file_rows_max=FILE_ROWS_MAX)) as opened:
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with two queues of the topic, and another topic in between."""
    return tmp_path / "store"


def fill(store: MessageStore, clock: FakeClock, count: int = COUNT) -> list[int]:
    """Where the messages lie."""
    places = []
    for number in range(count):
        clock.advance(60)
        body = b"x" * 500
        places.append(store.append(draft(body, topic=TOPIC, queue_id=number % 2)).physical_offset)
        store.append(draft(body, topic="other", queue_id=0))
    return places


def options_of(root: Path, **more: str) -> StoreOptions:
    given = {"path": str(root), "topic": TOPIC, "brokerName": "broker-a", "splitSize": "8k"}
    return read_options(StoreOptions, given | more)


def wanted_of(lake: Lake, queues: Sequence[StoredQueue]) -> Sequence[MissingRange]:
    return lake.state.missing([each.range for each in queues], described(queues)).wanted


def backfilled(lake: Lake, root: Path, **more: str) -> int:
    """As the job does it, without Spark; in how many parts."""
    options = options_of(root, **more)
    splits = splits_of(options)
    wanted = wanted_of(lake, stored_queues(options, splits, "broker-a"))
    needed = needed_splits(options, splits, wanted)
    for split in needed:
        task = SplitTask(
            split=split,
            wanted=wanted,
            staging=lake.staging,
            file_rows_max=FILE_ROWS_MAX,
            body_schema=None,
        )
        lake.publish(stage_split(options, task))
    return len(needed)


def all_offsets(count: int = COUNT) -> Counter[tuple[int, int]]:
    return Counter((number % 2, number // 2) for number in range(count))


def test_every_message_of_the_topic_is_there_once_in_files_that_keep_to_file_ranges(
    lake: Lake, root: Path
) -> None:
    clock = FakeClock()
    with opened(root, clock=clock) as store:
        fill(store, clock)
        parts = backfilled(lake, root)
    assert parts > 2
    assert found_by_arrow(lake.path) == all_offsets()
    for path in lake.state.files:
        first, last = map(int, Path(path).stem.split("-")[-2:])
        assert first // FILE_ROWS_MAX == (last - 1) // FILE_ROWS_MAX


def test_only_what_the_lake_lacks_is_read_and_added(lake: Lake, root: Path) -> None:
    clock = FakeClock()
    with opened(root, clock=clock) as store:
        fill(store, clock)
        parts = backfilled(lake, root)
        assert backfilled(lake, root) == 0
        for number in range(COUNT, COUNT + 4):
            store.append(draft(b"late", topic=TOPIC, queue_id=number % 2))
        assert 0 < backfilled(lake, root) < parts
    assert found_by_arrow(lake.path) == all_offsets(COUNT + 4)


def test_what_is_damaged_fails_or_is_left_for_later(lake: Lake, root: Path) -> None:
    clock = FakeClock()
    with opened(root, clock=clock) as store:
        places = fill(store, clock)
        flip(store, places[21] + 100)
        with pytest.raises(DamagedStore):
            backfilled(lake, root)
        backfilled(lake, root, onDamage="skip")
        assert found_by_arrow(lake.path) == all_offsets() - Counter([(1, 10)])
        # Another copy of the files may have it.
        flip(store, places[21] + 100)
        backfilled(lake, root)
    assert found_by_arrow(lake.path) == all_offsets()


def test_a_store_of_before_a_topic_was_created_again_is_noticed() -> None:
    queue = QueueRef(TOPIC, "broker-a", 0)
    old = StoredQueue(QueueRange(queue, 0, 9), QueueIncarnation(0, 1000))
    assert replaced_since([old], {queue: QueueIncarnation(0, 2000)})
    assert not replaced_since([old], {queue: QueueIncarnation(0, 1000)})
    assert not replaced_since([old], {queue: QueueIncarnation()})


def test_pieces_say_what_the_queue_was_like(lake: Lake, root: Path) -> None:
    clock = FakeClock()
    with opened(root, clock=clock) as store:
        fill(store, clock, 4)
        [first, second] = stored_queues(options_of(root), splits_of(options_of(root)), "broker-a")
        assert first.range == QueueRange(QueueRef(TOPIC, "broker-a", 0), 0, 2)
        assert second.incarnation.first_offset == 0
        assert second.incarnation.born_ms == clock.now_ms() - 2 * 60_000
