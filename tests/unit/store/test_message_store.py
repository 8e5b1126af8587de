import errno
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from roquet.disk import SystemDisk
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.store.config import FlushMode
from roquet.store.errors import (
    BadRecord,
    BadStoreDirectory,
    DiskFull,
    StoreClosed,
    StoreInUse,
    StoreUnavailable,
)
from roquet.store.keys.key_index import BATCH_COUNT
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import Boundary, ReadStatus
from tests.support.descriptors import open_below
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.few_descriptors import few_descriptors_left
from tests.support.inner_parts import index_of
from tests.support.quick_disk import QuickDisk
from tests.support.raising import raises
from tests.support.stores import (
    EVERYTHING,
    bodies,
    crash,
    messages,
    open_store,
    opened,
    small_config,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[MessageStore]:
    with opened(tmp_path, clock=clock) as store:
        yield store


# Appending


def test_offsets_are_assigned_by_the_append(store: MessageStore, clock: FakeClock) -> None:
    first = store.append(draft(b"1", queue_id=1))
    clock.advance(5)
    second = store.append(draft(b"2", queue_id=1))
    other = store.append(draft(b"3", queue_id=2))
    assert (first.queue_offset, second.queue_offset, other.queue_offset) == (0, 1, 0)
    assert second.physical_offset == first.size
    assert second.store_timestamp == clock.now_ms()
    message = messages(store, queue_id=1)[1]
    assert (message.body, message.queue_offset, message.store_timestamp) == (
        b"2",
        1,
        clock.now_ms(),
    )


def test_a_batch_gets_consecutive_offsets(store: MessageStore) -> None:
    store.append(draft(b"0"))
    batch = store.append_batch(DraftBatch([draft(b"%d" % number) for number in range(1, 26)]))
    assert batch.queue_offset == 1
    assert batch.size == 25 * draft(b"1").size + 16
    assert bodies(store) == [b"%d" % number for number in range(26)]
    stored = [read_record(store.record_at(offset)) for offset in batch.physical_offsets]
    assert [message.queue_offset for message in stored] == list(range(1, 26))
    assert store.append(draft(b"26")).queue_offset == 26


def test_a_batch_that_fits_no_queue_file_is_spread_over_several(store: MessageStore) -> None:
    store.append_batch(DraftBatch([draft(b"")] * 25))
    assert store.max_offset("TopicA", 0) == 25


def test_a_body_over_the_limit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with opened(tmp_path, body_size_max=100) as store:
        for refused in (store.append, lambda each: store.append_batch(DraftBatch([each]))):
            with raises(TooLarge, what="body", size=101, limit=100):
                refused(draft(b"x" * 101))
        with pytest.raises(TooLarge):
            store.append_batch(DraftBatch([draft(b"x" * 50), draft(b"x" * 51)]))
        assert store.log_end == 0
        assert store.append(draft(b"x" * 100)).queue_offset == 0


def test_a_record_over_the_size_of_a_file_is_refused(store: MessageStore) -> None:
    with raises(TooLarge, what="record"):
        store.append(draft(b"x" * 4096))
    with raises(TooLarge, what="record"):
        store.append_batch(DraftBatch([draft(b"x" * 1000)] * 4))
    assert bodies(store) == []
    assert store.append(draft(b"fits")).queue_offset == 0


def test_a_topic_that_cannot_be_a_directory_is_refused(store: MessageStore) -> None:
    with pytest.raises(BadMessage):
        store.append(draft(topic="../evil"))
    assert store.log_end == 0


def test_prepared_messages_of_old_brokers_are_in_the_log_only(store: MessageStore) -> None:
    prepared = store.append(draft(b"1", properties={"KEYS": "k"}, sys_flag=4))
    assert prepared.queue_offset == 0
    assert store.max_offset("TopicA", 0) == 0
    assert store.append(draft(b"2", sys_flag=8)).queue_offset == 0
    assert bodies(store) == [b"2"]
    assert len(store.query("TopicA", "k", 9, 0, 2**60).records) == 1


def test_a_delayed_message_is_entered_with_its_time_of_delivery(
    store: MessageStore, clock: FakeClock
) -> None:
    store.append(draft(b"1", topic="SCHEDULE_TOPIC_XXXX", properties={"DELAY": "3"}))
    (entry,) = store.entries("SCHEDULE_TOPIC_XXXX", 0, 0, 9)
    assert entry.tags_code == clock.now_ms() + 10_000


# A full disk


def test_on_a_full_disk_reading_continues_and_writing_resumes_by_itself(
    tmp_path: Path, clock: FakeClock
) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, clock=clock, disk=disk) as store:
        for number in range(10):
            store.append(draft(b"%d" % number))
        disk.is_full = True
        for _ in range(3):
            with pytest.raises(DiskFull):
                store.append(draft(b"refused"))
        expected = [b"%d" % number for number in range(10)]
        assert bodies(store) == expected
        disk.is_full = False
        # The disk is not asked for every message, but soon.
        with pytest.raises(DiskFull):
            store.append(draft(b"refused"))
        clock.advance(1)
        assert store.append(draft(b"10")).queue_offset == 10
        assert bodies(store) == [*expected, b"10"]


def test_a_batch_on_a_full_disk_leaves_nothing(tmp_path: Path, clock: FakeClock) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, clock=clock, disk=disk) as store:
        store.append(draft(b"0"))
        log_end = store.log_end
        disk.is_full = True
        with pytest.raises(DiskFull):
            store.append_batch(DraftBatch([draft(b"1")] * 15))
        disk.is_full = False
        clock.advance(1)
        assert store.log_end == log_end
        assert store.append_batch(DraftBatch([draft(b"1")] * 15)).queue_offset == 1
        assert len(bodies(store)) == 16


def test_a_disk_that_is_full_when_the_store_is_opened_says_so(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    (tmp_path / "store").mkdir()
    disk.is_full = True
    with pytest.raises(DiskFull):
        open_store(tmp_path / "store", disk=disk)
    disk.is_full = False
    with opened(tmp_path / "store", disk=disk) as store:
        assert store.append(draft(b"1")).queue_offset == 0


# Looking up


def test_offsets_of_an_unknown_queue_are_zero(store: MessageStore) -> None:
    assert store.min_offset("TopicA", 0) == store.max_offset("TopicA", 0) == 0
    assert store.offset_by_time("TopicA", 0, 5) == 0
    assert store.store_time("TopicA", 0, 0) is None
    assert store.entries("TopicA", 0, 0, 5) == []


def test_an_offset_is_found_by_time(store: MessageStore, clock: FakeClock) -> None:
    start = clock.now_ms()
    for number in range(25):
        store.append(draft(b"%d" % number))
        clock.advance(10)
    assert store.offset_by_time("TopicA", 0, start) == 0
    assert store.offset_by_time("TopicA", 0, start + 70_000) == 7
    assert store.offset_by_time("TopicA", 0, start + 70_001) == 8
    assert store.offset_by_time("TopicA", 0, start + 70_001, Boundary.UPPER) == 7
    assert store.offset_by_time("TopicA", 0, start + 10**9) == 25
    assert store.store_time("TopicA", 0, 7) == start + 70_000
    assert store.store_time("TopicA", 0, 25) is None
    assert store.store_time("TopicA", 0, -1) is None


def test_a_record_is_found_by_its_physical_offset_only(store: MessageStore) -> None:
    appended = [store.append(draft(b"%d" % number)) for number in range(3)]
    record = store.record_at(appended[1].physical_offset)
    assert read_record(record).body == b"1"
    for offset in (-1, 1, appended[1].physical_offset + 1, store.log_end, 2**62):
        with pytest.raises(BadRecord):
            store.record_at(offset)


def test_messages_are_found_by_key(store: MessageStore, clock: FakeClock) -> None:
    start = clock.now_ms()
    for number in range(10):
        store.append(
            draft(
                b"%d" % number,
                topic="TopicA" if number % 2 else "TopicB",
                properties={"KEYS": f"all number-{number}", "UNIQ_KEY": f"id-{number}"},
            )
        )
        clock.advance(10)

    def query(key: str, count: int = 64, begin: int = 0, end: int = 2**60) -> list[bytes]:
        result = store.query("TopicA", key, count, begin, end)
        assert result.last_timestamp == start + 90_000
        return [bytes(read_record(record).body) for record in result.records]

    assert query("all") == [b"1", b"3", b"5", b"7", b"9"]
    assert query("number-3") == [b"3"]
    assert query("id-3") == [b"3"]
    assert query("number-4") == []
    assert query("all", count=2) == [b"7", b"9"]
    assert query("all", begin=start + 30_000, end=start + 70_000) == [b"3", b"5", b"7"]


def test_keys_are_filed_by_the_way_when_there_are_many(store: MessageStore) -> None:
    for number in range(BATCH_COUNT):
        store.append(draft(b"", properties={"KEYS": f"key-{number}"}))
    assert index_of(store).unfiled == []
    assert index_of(store).find("TopicA", "key-5", 0, 2**60, 9) != []


@pytest.mark.slow
def test_after_a_crash_every_key_is_found_at_once(tmp_path: Path) -> None:
    count = 30_000
    large: dict[str, Any] = {
        "commit_log_file_size": 1 << 24,
        "queue_file_size": 600_000,
        "index_slot_count": 10_000,
        "index_entry_count": 40_000,
    }
    store = open_store(tmp_path, **large)
    for number in range(count):
        store.append(draft(b"", properties={"KEYS": f"key-{number}"}))
    crash(store)
    store = open_store(tmp_path, **large)
    assert all(
        len(store.query("TopicA", f"key-{number}", 9, 0, 2**60).records) == 1
        for number in (count - 1, count // 2, 0)
    )
    assert all(
        index_of(store).find("TopicA", f"key-{number}", 0, 2**60, 9) for number in range(count)
    )
    store.close()


def test_without_an_index_nothing_is_found_by_key(tmp_path: Path) -> None:
    with opened(tmp_path, index_keys=False) as store:
        store.append(draft(b"1", properties={"KEYS": "k"}))
        assert store.query("TopicA", "k", 9, 0, 2**60) == ([], 0, 0)
    assert not (tmp_path / "index").exists()


def test_keys_survive_a_clean_end(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"1", properties={"KEYS": "k"}))
    with opened(tmp_path) as store:
        assert index_of(store).find("TopicA", "k", 0, 2**60, 9) == [0]


def test_the_queues_of_each_topic_are_listed(store: MessageStore) -> None:
    store.append(draft(topic="TopicA", queue_id=0))
    store.append(draft(topic="TopicA", queue_id=3))
    store.append(draft(topic="TopicB", queue_id=1))
    assert store.queues() == {"TopicA": [0, 3], "TopicB": [1]}


# Deleting


def test_a_deleted_topic_starts_again_at_zero(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(15):
            store.append(draft(b"%d" % number))
        store.append(draft(b"kept", topic="TopicB"))
        store.delete_topic("TopicA")
        assert store.read("TopicA", 0, 0, EVERYTHING).status is ReadStatus.NO_MESSAGE_IN_QUEUE
        assert store.append(draft(b"new")).queue_offset == 0
        assert bodies(store) == [b"new"]
        assert bodies(store, "TopicB") == [b"kept"]
    with opened(tmp_path) as store:
        assert bodies(store) == [b"new"]


@pytest.mark.parametrize("end", [MessageStore.close, crash], ids=["clean", "crash"])
def test_a_deleted_topic_does_not_return(
    tmp_path: Path, end: Callable[[MessageStore], None]
) -> None:
    store = open_store(tmp_path)
    for topic in ("TopicA", "TopicB"):
        for number in range(5):
            store.append(draft(b"%d" % number, topic=topic))
        store.delete_topic(topic)
    store.append(draft(b"new"))
    end(store)
    rmtree(tmp_path / "consumequeue")
    with opened(tmp_path) as store:
        assert store.queues() == {"TopicA": [0]}
        assert bodies(store) == [b"new"]


def test_a_deletion_ends_where_the_log_lost_its_tail(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append(draft(b"deleted"))
    store.delete_topic("TopicA")
    crash(store)
    for path in (tmp_path / "commitlog").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    with opened(tmp_path) as store:
        store.append(draft(b"new"))
    rmtree(tmp_path / "consumequeue")
    with opened(tmp_path) as store:
        assert bodies(store) == [b"new"]


# Opening and closing


def test_a_store_has_one_owner(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreInUse):
        open_store(tmp_path)


def test_a_store_of_other_file_sizes_is_refused_and_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"1"))
    with pytest.raises(BadStoreDirectory):
        open_store(tmp_path, commit_log_file_size=8192)
    with opened(tmp_path) as store:
        assert bodies(store) == [b"1"]


def test_queues_of_another_file_size_are_made_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(150):
            store.append(draft(b"%d" % number))
    with opened(tmp_path, queue_file_size=400) as store:
        assert bodies(store) == [b"%d" % number for number in range(150)]
    names = [path.name for path in (tmp_path / "consumequeue" / "TopicA" / "0").iterdir()]
    assert len(names) == 8


def test_a_closed_store_refuses_and_can_be_closed_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    with pytest.raises(StoreClosed):
        store.append(draft())
    store.close()
    assert issubclass(StoreClosed, StoreUnavailable)


def test_the_directory_looks_as_apache_wants_it(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = MessageStore.open(small_config(root), FakeClock(), SystemDisk())
    for number in range(30):
        store.append(draft(b"%d" % number, properties={"KEYS": "k"}))
    store.close()
    sizes = {
        str(path.relative_to(root)): path.stat().st_size
        for path in root.rglob("*")
        if path.is_file() and path.parent.name != "index"
    }
    # Ours, which Apache does not look at.
    assert sizes.pop("checksummed.json") == sizes.pop("checksummed.json.bak")
    assert sizes == {
        "checkpoint": 4096,
        "lock": 4,
        f"commitlog/{0:020d}": 4096,
        f"consumequeue/TopicA/0/{0:020d}": 200,
        f"consumequeue/TopicA/0/{200:020d}": 200,
        f"consumequeue/TopicA/0/{400:020d}": 200,
    }
    assert [path.stat().st_size for path in (root / "index").iterdir()] == [2640]


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(100):
        store.append(draft(b"%d" % number, properties={"KEYS": "k"}))
    assert open_below(tmp_path) > 0
    store.delete_topic("TopicA")
    store.append(draft())
    store.close()
    crash(open_store(tmp_path))
    assert open_below(tmp_path) == 0


# Whatever is just being opened when there is no descriptor left: a queue, or the next file of the
# log, by its first descriptor or by the one of its mapping.
@pytest.mark.own_process
@pytest.mark.parametrize("left_count", range(8, 16))
def test_what_a_burst_was_refused_for_lack_of_descriptors_is_taken_later(
    tmp_path: Path, left_count: int
) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"first", topic="First"))
        store.flush()
        with few_descriptors_left(left_count):
            refused = refused_of(store, range(40))
            assert 0 < len(refused) < 40
            # What the flushing thread and upkeep do every now and then: files that were not used
            # since the last round are closed, and there are descriptors for others.
            for _ in range(2 * 40):
                if not refused:
                    break
                store.flush()
                store.clean()
                refused = refused_of(store, refused)
            assert refused == []
        for queue_id in range(40):
            assert bodies(store, queue_id=queue_id) == [b"%d" % queue_id]
    with opened(tmp_path) as store:
        assert sorted(store.queues()["TopicA"]) == [*range(40)]


def refused_of(store: MessageStore, queue_ids: Iterable[int]) -> list[int]:
    """Send one message to each of these queues; those that took none."""
    refused = []
    for queue_id in queue_ids:
        try:
            store.append(draft(b"%d" % queue_id, queue_id=queue_id))
        except StoreUnavailable:
            refused.append(queue_id)
    return refused


def test_what_is_held_back_is_not_there_yet(store: MessageStore) -> None:
    first = store.append(draft(b"1"))
    second = store.append(draft(b"2"))
    store.hold_back(first.size)
    assert bodies(store) == [b"1"]
    found = store.fast_reads.read(b"TopicA", 0, 0, EVERYTHING)
    assert found is not None
    assert (found[0].count, found[2]) == (1, 1)
    with pytest.raises(BadRecord):
        store.record_at(second.physical_offset)
    store.hold_back(second.physical_offset + second.size)
    assert bodies(store) == [b"1", b"2"]


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 7, 25, 40])
def test_what_is_cut_off_on_purpose_is_kept_aside(
    tmp_path: Path, kept: int, *, is_killed: bool
) -> None:
    """Across several files of the log, with queues and keys that follow."""
    store = open_store(tmp_path)
    ends = [0]
    for number in range(40):
        appended = store.append(draft(b"%02d" % number * 150, queue_id=number % 3))
        ends.append(appended.physical_offset + appended.size)
    log = b"".join(path.read_bytes() for path in sorted((tmp_path / "commitlog").iterdir()))
    if is_killed:
        crash(store)
    else:
        store.close()
    with opened(tmp_path, cut_end=ends[kept]) as cut:
        assert cut.log_end == ends[kept]
        found = sorted(body for queue_id in range(3) for body in bodies(cut, queue_id=queue_id))
        assert found == [b"%02d" % number * 150 for number in range(kept)]
        assert cut.recovery is not None
        path = cut.recovery.cut_path
        assert (path is None) is (kept == 40)
        if path is not None:
            assert path.parent == tmp_path / "divergent"
            aside = path.read_bytes()
            assert aside == log[ends[kept] :][: len(aside)]
            assert b"39" * 150 in aside
        cut.append(draft(b"goes on"))
    with opened(tmp_path) as again:
        assert bodies(again)[-1] == b"goes on"


def test_the_owner_reads_all_records_of_a_queue_also_those_that_others_may_not(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, flush_mode=FlushMode.SYNC) as store:
        stored = [store.append(draft(b"%02d" % number * 100)) for number in range(30)]
        store.append(draft(b"elsewhere", queue_id=1))
        assert bodies(store) == []
        found = list(store.records("TopicA", 0, 5))
        assert [place for place, _ in found] == [each.physical_offset for each in stored[5:]]
        assert read_record(found[-1][1]).body == b"29" * 100
        assert list(store.records("TopicA", 0, 30)) == list(store.records("TopicB", 0, 0)) == []
        assert (store.end_offset("TopicA", 0), store.end_offset("TopicB", 0)) == (30, 0)


def test_nothing_is_cut_off_that_cannot_be_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"1"))
        end = store.log_end

    class NoRoom(QuickDisk):
        def create(self, path: Path, size: int) -> int:
            if path.parent.name == "divergent":
                raise OSError(errno.ENOSPC, "no space")
            return super().create(path, size)

    with pytest.raises(DiskFull, match="divergent"):
        open_store(tmp_path, disk=NoRoom(), cut_end=0)
    with opened(tmp_path) as again:
        assert again.log_end == end
        assert bodies(again) == [b"1"]
