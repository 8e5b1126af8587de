from collections.abc import Callable
from pathlib import Path
from threading import Event, enumerate as all_threads

import pytest

from roquet.store.checkpoint import Checkpoint, load_checkpoint
from roquet.store.config import FlushMode
from roquet.store.errors import BadRecord, StoreUnavailable, SyncFailed
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import ReadStatus
from tests.support.drafts import draft
from tests.support.eventually import wait_until
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.inner_parts import flusher_of, log_of
from tests.support.quick_disk import QuickDisk
from tests.support.recording_listener import RecordingListener
from tests.support.stores import EVERYTHING, bodies, crash, open_store, opened


@pytest.fixture
def listener() -> RecordingListener:
    return RecordingListener()


def tick(store: MessageStore) -> None:
    flusher_of(store).tick()


def test_with_sync_flush_every_append_is_safe_soon(
    tmp_path: Path, listener: RecordingListener
) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk=disk, listener=listener, flush_mode=FlushMode.SYNC) as store:
        store.start()
        for number in range(50):
            appended = store.append(draft(b"%d" % number))
            listener.wait_until_safe(appended.physical_offset + appended.size)
            assert store.max_offset("TopicA", 0) == number + 1
    assert listener.failures == []


def test_with_sync_flush_nothing_is_readable_before_it_is_safe(
    tmp_path: Path, listener: RecordingListener
) -> None:
    with opened(tmp_path, listener=listener, flush_mode=FlushMode.SYNC) as store:
        store.append(draft(b"1", properties={"KEYS": "a"}))
        tick(store)
        second = store.append(draft(b"2", properties={"KEYS": "b"}))
        assert store.max_offset("TopicA", 0) == 1
        assert bodies(store) == [b"1"]
        assert store.query("TopicA", "b", 9, 0, 2**60).records == []
        with pytest.raises(BadRecord, match="not readable yet"):
            store.record_at(second.physical_offset)
        assert store.store_time("TopicA", 0, 1) is None
        tick(store)
        assert bodies(store) == [b"1", b"2"]
        assert len(store.query("TopicA", "b", 9, 0, 2**60).records) == 1


def test_with_async_flush_everything_is_readable_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"1"))
        assert bodies(store) == [b"1"]
        assert store.synced_end == 0


def test_async_flush_waits_for_enough_pages(tmp_path: Path, listener: RecordingListener) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock=clock, listener=listener, flush_pages_min=2) as store:
        store.append(draft(b"x" * 3000))
        tick(store)
        assert listener.flushes == []
        store.append(draft(b"x" * 3000))
        store.append(draft(b"x" * 3000))
        tick(store)
        assert listener.flushes == [store.log_end]


def test_async_flush_does_not_wait_for_ever(tmp_path: Path, listener: RecordingListener) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock=clock, listener=listener) as store:
        store.append(draft(b"1"))
        clock.advance(9.9)
        tick(store)
        assert listener.flushes == []
        clock.advance(0.1)
        tick(store)
        assert listener.flushes == [store.log_end]


def test_the_checkpoint_is_written_after_the_queues_are_safe(tmp_path: Path) -> None:
    clock = FakeClock()
    disk = FaultyDisk(tmp_path)
    # The first entry is number 1, so one key fills a file of two.
    with opened(tmp_path, clock=clock, disk=disk, index_entry_count=2) as store:
        first_at = store.append(draft(b"1", properties={"KEYS": "a"})).store_timestamp
        clock.advance(1)
        last_at = store.append(draft(b"2", properties={"KEYS": "b"})).store_timestamp
        assert store.file_keys()
        clock.advance(60)
        tick(store)
        assert load_checkpoint(disk, tmp_path / "checkpoint") == Checkpoint(
            last_at, last_at, first_at, store.log_end
        )
        assert disk.unsynced() == []


def test_the_first_failed_sync_ends_all_acknowledgements(
    tmp_path: Path, listener: RecordingListener
) -> None:
    disk = FaultyDisk(tmp_path)
    store = open_store(tmp_path, disk=disk, listener=listener, flush_mode=FlushMode.SYNC)
    store.start()
    first = store.append(draft(b"1"))
    listener.wait_until_safe(first.size)
    disk.fail_next_sync()
    store.append(draft(b"2"))
    listener.wait_until_failed()
    for _ in range(3):
        with pytest.raises(SyncFailed, match="Input/output error"):
            store.append(draft(b"3"))
    assert listener.safe_end == first.size
    assert len(listener.failures) == 1
    assert bodies(store) == [b"1"]
    with pytest.raises(SyncFailed):
        store.close()
    assert (tmp_path / "abort").exists()


def test_a_sync_that_finds_no_descriptor_has_not_failed(
    tmp_path: Path, listener: RecordingListener
) -> None:
    clock = FakeClock()
    disk = FaultyDisk(tmp_path)
    store = open_store(
        tmp_path, clock=clock, disk=disk, listener=listener, flush_mode=FlushMode.SYNC
    )
    first = store.append(draft(b"1", properties={"KEYS": "k"}))
    assert store.file_keys()
    clock.advance(60)
    disk.has_no_descriptors = True
    for _ in range(3):
        # Queue and index are new, and so the names of their files.
        tick(store)
    assert listener.failures == []
    assert len(listener.postponed) == 1
    assert listener.safe_end == first.size
    assert disk.unsynced() != []
    with pytest.raises(SyncFailed, match="descriptors"):
        store.flush()
    disk.has_no_descriptors = False
    tick(store)
    assert disk.unsynced() == []
    assert load_checkpoint(disk, tmp_path / "checkpoint").queue_timestamp == first.store_timestamp
    store.append(draft(b"2"))
    store.close()
    assert not (tmp_path / "abort").exists()


def test_after_a_failed_sync_recovery_says_what_is_there(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    store = open_store(tmp_path, disk=disk, flush_mode=FlushMode.SYNC)
    store.append(draft(b"1"))
    store.flush()
    disk.fail_next_sync()
    store.append(draft(b"2"))
    with pytest.raises(SyncFailed):
        store.flush()
    crash(store)
    with opened(tmp_path, flush_mode=FlushMode.SYNC) as store:
        # The message was never acknowledged, so it may be there or not.
        assert bodies(store) in ([b"1"], [b"1", b"2"])


def test_a_failed_sync_of_a_queue_counts_too(tmp_path: Path, listener: RecordingListener) -> None:
    clock = FakeClock()
    disk = FaultyDisk(tmp_path)
    store = open_store(tmp_path, clock=clock, disk=disk, listener=listener)
    store.append(draft(b"1"))
    store.flush()
    store.append(draft(b"2"))
    # The log is safe already, so the next sync is that of the queue.
    log_of(store).sync()
    clock.advance(60)
    disk.fail_next_sync()
    tick(store)
    assert len(listener.failures) == 1
    with pytest.raises(StoreUnavailable):
        store.append(draft(b"3"))
    crash(store)


def test_the_thread_makes_the_next_file_and_ends_with_the_store(tmp_path: Path) -> None:
    listener = RecordingListener()
    store = open_store(tmp_path, listener=listener, flush_mode=FlushMode.SYNC)
    store.start()
    store.append(draft(b"x" * 3000))
    listener.wait_until_safe(store.log_end)
    store.close()
    assert not [thread for thread in all_threads() if thread.name == "roquet-flush"]
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == [f"{0:020d}"]


def test_a_store_opened_near_the_end_of_a_file_has_the_next_one_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"x" * 3000))
    with opened(tmp_path, flush_interval_ms=3_600_000) as store:
        store.start()
        wait_until((tmp_path / "commitlog" / f"{4096:020d}").exists)


def test_files_of_a_deleted_topic_are_closed_by_the_thread(tmp_path: Path) -> None:
    listener = RecordingListener()
    with opened(tmp_path, listener=listener, flush_mode=FlushMode.SYNC) as store:
        store.start()
        for number in range(30):
            store.append(draft(b"%d" % number))
        store.delete_topic("TopicA")
        assert not (tmp_path / "consumequeue" / "TopicA").exists()
        appended = store.append(draft(b"new"))
        assert appended.queue_offset == 0
        listener.wait_until_safe(appended.physical_offset + appended.size)
        result = store.read("TopicA", 0, 0, EVERYTHING)
        assert result.status is ReadStatus.FOUND
        assert len(result.records) == 1


class BrokenDisk(QuickDisk):
    """Does in a sync whatever a test says."""

    def __init__(self) -> None:
        self.during_sync: Callable[[], object] = lambda: None

    def sync(self, descriptor: int) -> None:
        self.during_sync()
        super().sync(descriptor)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_the_thread_ends_all_acknowledgements(
    tmp_path: Path, listener: RecordingListener
) -> None:
    disk = BrokenDisk()
    store = open_store(tmp_path, disk=disk, listener=listener, flush_mode=FlushMode.SYNC)
    store.start()

    def bug() -> None:
        raise ZeroDivisionError

    disk.during_sync = bug
    store.append(draft(b"1"))
    listener.wait_until_failed()
    with pytest.raises(SyncFailed, match="has ended"):
        store.append(draft(b"2"))
    with pytest.raises(SyncFailed):
        store.close()


def test_a_disk_that_does_not_answer_does_not_hold_up_the_end_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.store.flushing._STOP_TIMEOUT_S", 0.05)
    disk = BrokenDisk()
    store = open_store(tmp_path, disk=disk, flush_mode=FlushMode.SYNC)
    store.start()
    answers = Event()
    disk.during_sync = answers.wait
    store.append(draft(b"1"))
    with pytest.raises(SyncFailed, match="did not end"):
        store.close()
    answers.set()
    monkeypatch.undo()
    store.close()
