from datetime import UTC, datetime
from pathlib import Path

import pytest

from roquet.disk import Space
from roquet.store.errors import DiskFull, TooManyFiles
from roquet.store.maintenance.cleaning import CleanReport
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import ReadStatus
from tests.support.descriptors import open_below
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.few_descriptors import few_descriptors_left
from tests.support.inner_parts import flusher_of
from tests.support.raising import raises
from tests.support.stores import EVERYTHING, bodies, crash, open_store, opened

HOUR_S = 3600
FOLLOWED_TOPICS = (
    "SCHEDULE_TOPIC_XXXX",
    "rmq_sys_wheel_timer",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def hours_at(clock: FakeClock) -> tuple[int]:
    """The hour in which the clock is now, as the only one for deleting."""
    return (datetime.fromtimestamp(clock.now_ms() / 1000, UTC).astimezone().hour,)


def fill(store: MessageStore, clock: FakeClock, count: int = 120, pause_s: float = HOUR_S) -> None:
    for number in range(count):
        store.append(draft(b"%03d" % number, properties={"KEYS": f"key-{number}"}))
        clock.advance(pause_s)


def test_files_go_when_all_their_messages_are_old(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock, delete_hours=tuple(range(24))) as store:
        fill(store, clock)
        per_file = 4096 // draft(b"000", properties={"KEYS": "key-00"}).size
        report = store.clean()
        assert report.file_count == 1
        assert report.log_start == store.log_start == 4096
        assert store.min_offset("TopicA", 0) in range(per_file - 2, per_file + 1)
        first = store.min_offset("TopicA", 0)
        assert bodies(store) == [b"%03d" % number for number in range(first, 120)]
        result = store.read("TopicA", 0, 0, EVERYTHING)
        assert (result.status, result.next_offset) == (ReadStatus.OFFSET_TOO_SMALL, first)
        assert not (tmp_path / "commitlog" / f"{0:020d}").exists()
        assert not (tmp_path / "consumequeue" / "TopicA" / "0" / f"{0:020d}").exists()
        assert store.query("TopicA", "key-0", 9, 0, 2**60).records == []
        assert store.clean().file_count == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_gone_stays_gone(tmp_path: Path, clock: FakeClock, is_clean: bool) -> None:
    store = open_store(tmp_path, clock=clock, delete_hours=tuple(range(24)))
    fill(store, clock)
    store.clean()
    kept = bodies(store)
    store.close() if is_clean else crash(store)
    with opened(tmp_path, clock=clock) as store:
        assert bodies(store) == kept
        assert store.append(draft(b"new")).queue_offset == 120


@pytest.mark.own_process
def test_what_cannot_be_cleaned_for_lack_of_descriptors_is_cleaned_later(
    tmp_path: Path, clock: FakeClock
) -> None:
    topics = [f"Topic{number:02}" for number in range(20)]
    with opened(tmp_path, clock=clock, delete_hours=tuple(range(24))) as store:
        for number in range(100):
            store.append(draft(b"%03d" % number, topic=topics[number % 20]))
        clock.advance(73 * HOUR_S)
        store.append(draft(b"new"))
    with opened(tmp_path, clock=FakeClock(clock.now_ms()), delete_hours=range(24)) as store:
        # Nothing but the log is open yet.
        with few_descriptors_left(8):
            reports: list[CleanReport] = []
            while not (reports and reports[-1].postponed is None):
                reports.append(store.clean())
                store.flush()
                assert len(reports) < 20
        *postponed, last = reports
        assert postponed
        assert all((each.file_count, each.log_start) == (0, 0) for each in postponed)
        assert last.log_start == store.log_start > 0
        left = [body for topic in topics for body in bodies(store, topic)]
        assert last.message_count == 100 - len(left) > 0
        assert store.clean().message_count == 0


def test_idle_files_are_closed_though_cleaning_lacks_descriptors(
    tmp_path: Path, clock: FakeClock
) -> None:
    with opened(tmp_path, clock=clock) as store:
        fill(store, clock)
    with opened(tmp_path, clock=clock, delete_hours=tuple(range(24))) as store:
        for queue_id in range(1, 5):
            store.append(draft(b"idle", queue_id=queue_id))
        store.flush()
        open_before = open_below(tmp_path / "consumequeue")
        with few_descriptors_left(0):
            # Idle is what was not used from one round to the next.
            assert [store.clean().postponed is None for _ in range(2)] == [False, False]
            flusher_of(store).close_retired()
        assert open_below(tmp_path / "consumequeue") < open_before


def test_files_go_at_their_hour_only(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock, delete_hours=hours_at(clock)) as store:
        fill(store, clock, 200)
        assert store.clean().file_count == 0
        clock.advance(16 * HOUR_S)
        assert hours_at(clock) == store._config.delete_hours
        assert store.clean().file_count > 0


def test_files_are_deleted_on_request(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock, delete_hours=()) as store:
        fill(store, clock)
        assert store.clean().file_count == 0
        assert store.clean(is_requested=True).file_count == 1


def test_a_filling_disk_makes_files_go(tmp_path: Path, clock: FakeClock) -> None:
    disk = FaultyDisk(tmp_path)
    options = {"delete_hours": (), "clean_by_force": True}
    with opened(tmp_path, clock=clock, disk=disk, **options) as store:
        fill(store, clock, pause_s=1)
        disk.free_space = Space(80, 20)
        assert store.clean().file_count == 0
        disk.free_space = Space(86, 14)
        report = store.clean()
        assert (report.file_count, report.young_file_count) == (3, 3)
        assert report.message_count == 120 - len(bodies(store))
        assert len(bodies(store)) > 0


def test_a_full_disk_deletes_nothing_unless_configured(tmp_path: Path, clock: FakeClock) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, clock=clock, disk=disk) as store:
        fill(store, clock, pause_s=1)
        disk.free_space = Space(99, 1)
        assert store.clean().file_count == 0
        assert len(bodies(store)) == 120


def test_a_disk_that_is_nearly_full_refuses_messages_until_it_is_not(
    tmp_path: Path, clock: FakeClock
) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, clock=clock, disk=disk) as store:
        store.append(draft(b"1"))
        disk.free_space = Space(91, 9)
        assert store.clean().is_disk_full
        clock.advance(HOUR_S)
        with raises(DiskFull, used_percent=91):
            store.append(draft(b"2"))
        assert bodies(store) == [b"1"]
        disk.free_space = Space(89, 11)
        assert store.clean().is_disk_full
        disk.free_space = Space(88, 12)
        assert not store.clean().is_disk_full
        assert store.append(draft(b"2")).queue_offset == 1


def test_a_clock_set_forward_makes_nothing_old(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock, delete_hours=tuple(range(24))) as store:
        fill(store, clock, pause_s=1)
        clock._now_ms += 1000 * HOUR_S * 1000
        assert store.clean().file_count == 0


def test_queues_whose_messages_are_all_gone_can_be_deleted(
    tmp_path: Path, clock: FakeClock
) -> None:
    with opened(tmp_path, clock=clock, delete_hours=tuple(range(24))) as store:
        store.append(draft(b"old", topic="Idle", queue_id=7))
        for topic in FOLLOWED_TOPICS:
            store.append(draft(b"old", topic=topic))
        fill(store, clock)
        assert store.delete_expired_queues() == []
        store.clean()
        # The queue remembers where it was, until its deletion is requested.
        assert store.min_offset("Idle", 7) == store.max_offset("Idle", 7) == 1
        assert store.delete_expired_queues() == [("Idle", 7)]
        assert store.max_offset("Idle", 7) == 0
        assert not (tmp_path / "consumequeue" / "Idle").exists()
        assert store.queues().keys() == {"TopicA", *FOLLOWED_TOPICS}


def test_unused_queues_hold_no_descriptors(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock) as store:
        for queue_id in range(50):
            for number in range(25):
                store.append(draft(b"%d" % number, queue_id=queue_id))
        assert open_below(tmp_path / "consumequeue") >= 150
        # Twice: what was used since the last round is left alone.
        for _ in range(2):
            store.flush()
            store.clean()
        store.flush()
        assert open_below(tmp_path / "consumequeue") == 0
        assert bodies(store, queue_id=49) == [b"%d" % number for number in range(25)]
        assert store.append(draft(b"more", queue_id=7)).queue_offset == 25
        assert bodies(store, queue_id=7)[-1] == b"more"


@pytest.mark.own_process
def test_a_burst_that_was_refused_is_taken_when_files_were_closed_early(
    tmp_path: Path, clock: FakeClock
) -> None:
    with opened(tmp_path, clock=clock) as store, few_descriptors_left(24):
        left = list(range(60))
        for _ in range(60):
            left = [each for each in left if not is_taken(store, each)]
            if not left:
                break
            # What the broker does every second, and the thread that flushes.
            store.relieve()
            store.flush()
            store.relieve()
            store.flush()
        assert left == []


def is_taken(store: MessageStore, queue_id: int) -> bool:
    try:
        store.append(draft(b"x", queue_id=queue_id))
    except TooManyFiles:
        return False
    return True


def test_files_that_are_few_are_left_open(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock) as store:
        store.append(draft(b"x"))
        for _ in range(3):
            store.flush()
            store.relieve()
        assert open_below(tmp_path / "consumequeue") > 0


@pytest.mark.own_process
def test_old_messages_go_from_more_queues_than_files_can_be_open(
    tmp_path: Path, clock: FakeClock
) -> None:
    with opened(tmp_path, clock=clock) as store:
        for queue_id in range(60):
            store.append(draft(b"old", queue_id=queue_id))
        for number in range(60):
            store.append(draft(b"new %d" % number, topic="TopicB"))
    with opened(tmp_path, clock=clock, delete_hours=tuple(range(24))) as store:
        clock.advance(100 * HOUR_S)
        store.append(draft(b"newest", topic="TopicB"))
        with few_descriptors_left(24):
            for _ in range(10):
                store.clean()
                store.flush()
        assert store.log_start > 0
        assert {store.min_offset("TopicA", each) for each in range(60)} == {1}
