from collections.abc import Callable, Sequence
from mmap import mmap
from pathlib import Path
from shutil import rmtree

import pytest

from roquet.store.commit_log import CommitLog
from roquet.store.config import FlushMode
from roquet.store.files.layout import layout_of
from roquet.store.log_scan import LogRecord
from roquet.store.message_store import MessageStore
from roquet.store.recovery import recovery
from roquet.store.recovery.opening import back_up_cut
from roquet.store.recovery.recovery import RecoveryReport, first_file_to_scan, is_lost_in_between
from tests.support.descriptors import open_below
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.inner_parts import flusher_of
from tests.support.quick_disk import QuickDisk
from tests.support.stores import bodies, crash, messages, open_store, opened

BODIES = [b"message %d" % number for number in range(60)]


def fill(store: MessageStore, *, clock: FakeClock | None = None) -> list[int]:
    """Sixty messages, three of four in one queue; their physical offsets."""
    offsets = []
    for number, body in enumerate(BODIES):
        if clock is not None:
            clock.advance(1)
        topic = "TopicB" if number % 4 == 3 else "TopicA"
        offsets.append(
            store.append(
                draft(body, topic=topic, properties={"KEYS": f"key-{number}"})
            ).physical_offset
        )
    return offsets


def expected(topic: str, numbers: range | list[int] | None = None) -> list[bytes]:
    return [
        BODIES[number]
        for number in (range(60) if numbers is None else numbers)
        if (number % 4 == 3) == (topic == "TopicB")
    ]


def report_of(store: MessageStore) -> RecoveryReport:
    assert store.recovery is not None
    return store.recovery


def log_file(root: Path, physical_offset: int) -> Path:
    return root / "commitlog" / f"{physical_offset - physical_offset % 4096:020d}"


def damage_log(root: Path, physical_offset: int, size: int = 1) -> None:
    path = log_file(root, physical_offset)
    content = bytearray(path.read_bytes())
    for position in range(physical_offset % 4096, physical_offset % 4096 + size):
        content[position] ^= 0xFF
    path.write_bytes(content)


def test_a_new_store_is_empty_and_clean(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert report_of(store).was_clean
        assert report_of(store).record_count == 0
        assert (store.log_start, store.log_end) == (0, 0)
        assert (tmp_path / "abort").exists()
    assert not (tmp_path / "abort").exists()


@pytest.mark.parametrize("end", [MessageStore.close, crash], ids=["clean", "crash"])
def test_a_reopened_store_has_everything_and_continues(
    tmp_path: Path, end: Callable[[MessageStore], None]
) -> None:
    store = open_store(tmp_path)
    offsets = fill(store)
    log_end = store.log_end
    end(store)
    with opened(tmp_path) as store:
        assert report_of(store).was_clean == (end is MessageStore.close)
        assert report_of(store).cut_size == 0
        assert report_of(store).damages == ()
        assert store.log_end == log_end
        assert bodies(store) == expected("TopicA")
        assert bodies(store, "TopicB") == expected("TopicB")
        appended = store.append(draft(b"new"))
        assert (appended.queue_offset, appended.physical_offset >= log_end) == (45, True)
        assert bodies(store) == [*expected("TopicA"), b"new"]
        assert len(store.query("TopicA", "key-0", 9, 0, 2**60).records) == 1
        assert store.query("TopicA", "key-0", 9, 0, 2**60).records == [store.record_at(offsets[0])]


@pytest.mark.parametrize("end", [MessageStore.close, crash], ids=["clean", "crash"])
@pytest.mark.parametrize("gone", ["consumequeue", "index", "checkpoint", "consumequeue/TopicA/0"])
def test_whatever_is_made_from_the_log_can_be_lost(
    tmp_path: Path, gone: str, end: Callable[[MessageStore], None]
) -> None:
    clock = FakeClock()
    store = open_store(tmp_path, clock=clock)
    fill(store, clock=clock)
    store.flush()
    end(store)
    path = tmp_path / gone
    rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    with opened(tmp_path) as store:
        assert bodies(store) == expected("TopicA")
        assert bodies(store, "TopicB") == expected("TopicB")
        assert store.file_keys()
        assert len(store.query("TopicB", "key-3", 9, 0, 2**60).records) == 1


def test_a_crash_is_recovered_from_the_checkpoint_on(tmp_path: Path) -> None:
    clock = FakeClock()
    store = open_store(tmp_path, clock=clock)
    fill(store, clock=clock)
    store.flush()
    fill(store, clock=clock)
    crash(store)
    with opened(tmp_path) as store:
        assert 0 < report_of(store).scanned_from < store.log_end // 2 + 4096
        assert bodies(store) == expected("TopicA") * 2


def test_a_torn_last_record_is_cut_off_and_zeroed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = fill(store)
    crash(store)
    damage_log(tmp_path, offsets[-1] + 100)
    with opened(tmp_path) as store:
        report = report_of(store)
        assert store.log_end == report.log_end == offsets[-1]
        assert report.cut_size > 0
        assert "checksum" in report.cut_reason
        assert bodies(store, "TopicB") == expected("TopicB")[:-1]
        content = log_file(tmp_path, offsets[-1]).read_bytes()
        assert not any(content[offsets[-1] % 4096 :])
        assert store.append(draft(b"new", topic="TopicB")).queue_offset == 14


def test_what_lies_after_a_torn_record_does_not_return(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = fill(store)
    crash(store)
    damage_log(tmp_path, offsets[30] + 100)
    for _ in range(2):
        store = open_store(tmp_path)
        assert store.log_end == offsets[30]
        assert bodies(store) == expected("TopicA", range(30))
        crash(store)
    with opened(tmp_path) as store:
        # A record of the very size of the torn one, so that the old ones behind it line up.
        assert (
            store.append(draft(BODIES[30], properties={"KEYS": "key-30"})).physical_offset
            == (offsets[30])
        )
        crash(store)
    with opened(tmp_path) as store:
        assert bodies(store) == expected("TopicA", range(31))


def test_a_record_damaged_after_it_was_safe_costs_only_itself(tmp_path: Path) -> None:
    store = open_store(tmp_path, commit_log_file_size=1 << 14)
    offsets = fill(store)
    store.close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[offsets[40] + 100] ^= 0xFF
    path.write_bytes(content)
    with opened(tmp_path, commit_log_file_size=1 << 14) as store:
        (damage,) = report_of(store).damages
        assert (damage.start, damage.end) == (offsets[40], offsets[41])
        assert bodies(store) == expected("TopicA", [*range(40), *range(41, 60)])
        assert [message.queue_offset for message in messages(store)] == [
            *range(30),
            *range(31, 45),
            # Offset 30 names the lost message for ever.
        ]
        assert store.append(draft(b"new")).queue_offset == 45


def test_after_a_crash_a_bad_record_among_synced_ones_costs_only_itself(tmp_path: Path) -> None:
    # All in one millisecond, and long before the first checkpoint.
    store = open_store(tmp_path, flush_mode=FlushMode.SYNC)
    offsets = fill(store)
    flusher_of(store).tick()
    crash(store)
    damage_log(tmp_path, offsets[20] + 100)
    kept = [number for number in range(60) if number != 20]
    for _ in range(2):
        store = open_store(tmp_path, flush_mode=FlushMode.SYNC)
        (damage,) = report_of(store).damages
        assert (damage.start, damage.end) == (offsets[20], offsets[21])
        assert report_of(store).cut_size == 0
        assert bodies(store) == expected("TopicA", kept)
        crash(store)


def test_after_a_crash_a_bad_record_that_was_synced_last_takes_no_place_of_others(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path, flush_mode=FlushMode.SYNC)
    offsets = fill(store)
    flusher_of(store).tick()
    end = store.log_end
    crash(store)
    damage_log(tmp_path, offsets[-1] + 100)
    with opened(tmp_path) as store:
        assert store.log_end == end
        assert store.append(draft(b"new")).physical_offset == end
        assert bodies(store) == [*expected("TopicA"), b"new"]


def test_what_was_synced_in_files_that_are_gone_makes_nothing_safe(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store)
    store.close()
    rmtree(tmp_path / "commitlog")
    store = open_store(tmp_path)
    offsets = fill(store)
    crash(store)
    damage_log(tmp_path, offsets[20] + 100)
    with opened(tmp_path) as store:
        assert store.log_end == offsets[20]


class WatchedDisk(QuickDisk):
    """Notes where in the log something is written, not through a mapping, and what is synced."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int]] = []
        self.synced: list[str] = []

    def write_parts(self, descriptor: int, position: int, parts: Sequence[memoryview]) -> None:
        self.written += [(self._path(descriptor), position)] if any(parts) else []
        super().write_parts(descriptor, position, parts)

    def sync(self, descriptor: int) -> None:
        self.synced.append(self._path(descriptor))

    def _path(self, descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().parent.name


def test_after_a_crash_only_what_was_not_synced_is_written_again(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_mode=FlushMode.SYNC)
    fill(store)
    flusher_of(store).tick()
    synced_end = store.log_end
    crash(store)
    disk = WatchedDisk()
    store = open_store(tmp_path, disk=disk)
    assert [each for each in disk.written if each[0] == "commitlog"] == []
    store.append(draft(b"in memory only"))
    crash(store)
    disk = WatchedDisk()
    crash(open_store(tmp_path, disk=disk))
    assert [each for each in disk.written if each[0] == "commitlog"] == [
        ("commitlog", synced_end % 4096)
    ]


def test_what_was_synced_is_written_again_if_another_process_had_the_store(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_mode=FlushMode.SYNC)
    fill(store)
    flusher_of(store).tick()
    crash(store)
    # Apache leaves four letters of its own.
    (tmp_path / "lock").write_bytes(b"lock")
    disk = WatchedDisk()
    crash(open_store(tmp_path, disk=disk))
    assert ("commitlog", 0) in disk.written


def test_queues_are_synced_by_the_flush_thread_and_not_before_the_store_serves(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    fill(store)
    crash(store)
    disk = WatchedDisk()
    store = open_store(tmp_path, disk=disk)
    assert "commitlog" in disk.synced
    # The directories of queues are named after their ids.
    assert "0" not in disk.synced
    store.flush()
    assert "0" in disk.synced
    crash(store)


def test_after_a_clean_end_no_queue_is_written_or_synced_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store)
    store.close()
    queue_files = sorted(tmp_path.glob("consumequeue/*/*/*"))
    before = [each.stat() for each in queue_files]
    disk = WatchedDisk()
    store = open_store(tmp_path, disk=disk)
    assert bodies(store) == expected("TopicA")
    store.flush()
    assert "0" not in disk.synced
    after = [each.stat() for each in queue_files]
    assert [(each.st_mtime_ns, each.st_blocks) for each in after] == [
        (each.st_mtime_ns, each.st_blocks) for each in before
    ]
    crash(store)


def test_after_a_crash_entries_since_the_checkpoint_are_written_again_and_no_others(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    store = open_store(tmp_path, clock=clock)
    old_count = 0
    while store.log_end < 3900:  # up to the end of the first file
        store.append(draft(b"old", topic="Idle", queue_id=3))
        old_count += 1
    clock.advance(60)
    store.append(draft(bytes(100), topic="Busy", queue_id=5))
    store.flush()
    for _ in range(20):
        store.append(draft(b"young", topic="Busy", queue_id=5))
    crash(store)
    disk = WatchedDisk()
    store = open_store(tmp_path, clock=clock, disk=disk)
    assert report_of(store).scanned_from == 0
    assert {directory for directory, _ in disk.written} & {"3", "5"} == {"5"}
    store.flush()
    assert set(disk.synced) & {"3", "5"} == {"5"}
    assert bodies(store, "Idle", queue_id=3) == [b"old"] * old_count
    assert bodies(store, "Busy", queue_id=5) == [bytes(100), *[b"young"] * 20]
    crash(store)


@pytest.mark.parametrize("end", [MessageStore.close, crash], ids=["clean", "crash"])
def test_an_idle_queue_is_opened_once_and_not_mapped(
    tmp_path: Path, end: Callable[[MessageStore], None]
) -> None:
    clock = FakeClock()
    store = open_store(tmp_path, clock=clock)
    for queue_id in range(30):
        store.append(draft(b"idle", topic="Idle", queue_id=queue_id))
    clock.advance(60)
    for _ in range(120):
        store.append(draft(b"other"))
    clock.advance(60)
    store.append(draft(b"last"))
    store.flush()
    end(store)
    disk = CountingDisk()
    store = open_store(tmp_path, clock=clock, disk=disk)
    assert report_of(store).scanned_from > 0
    idle = [path for path in disk.opened if path.parent.parent.name == "Idle"]
    assert len(idle) == len(set(idle)) == 30
    assert not any("Idle" in path.parts for path in disk.mapped)
    assert bodies(store, "Idle", queue_id=29) == [b"idle"]
    crash(store)


class CountingDisk(QuickDisk):
    """Notes which files are opened, and which are mapped."""

    def __init__(self) -> None:
        self.opened: list[Path] = []
        self.mapped: list[Path] = []

    def open(self, path: Path, *, writable: bool) -> int:
        self.opened.append(path)
        return super().open(path, writable=writable)

    def map(self, descriptor: int, size: int, *, writable: bool) -> mmap:
        self.mapped.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        return super().map(descriptor, size, writable=writable)


def test_more_queues_than_files_can_be_open_are_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "OPEN_QUEUE_COUNT_MAX", 5)
    store = open_store(tmp_path)
    for number in range(25):
        for queue_id in range(40):
            store.append(draft(b"%d" % number, queue_id=queue_id))
    crash(store)
    for lost in (False, True):
        if lost:
            rmtree(tmp_path / "consumequeue")
        store = open_store(tmp_path)
        assert open_below(tmp_path / "consumequeue") == 0
        for queue_id in range(40):
            assert bodies(store, queue_id=queue_id) == [b"%d" % number for number in range(25)]
        crash(store)


def test_what_is_cut_off_is_kept_aside(tmp_path: Path) -> None:
    for number in (1, 2):
        store = open_store(tmp_path)
        offsets = fill(store)
        end = store.log_end
        crash(store)
        damage_log(tmp_path, offsets[20] + 100)
        files = sorted((tmp_path / "commitlog").iterdir())
        log = b"".join(path.read_bytes() for path in files)[offsets[20] : end]
        with opened(tmp_path) as store:
            report = report_of(store)
            assert report.cut_path is not None
            assert report.cut_path.parent == tmp_path / "cut"
            assert report.cut_path.read_bytes() == log
            assert report.cut_size == len(log)
        assert len(list((tmp_path / "cut").iterdir())) == number


def test_a_full_disk_backs_up_no_cut_and_does_not_stop_the_start(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = fill(store)
    crash(store)
    damage_log(tmp_path, offsets[-1] + 100)
    disk = FaultyDisk(tmp_path)
    disk.is_full = True
    log = CommitLog(disk, tmp_path / "commitlog", 4096)
    log.load()
    layout = layout_of(tmp_path)
    assert back_up_cut(disk, log, layout, offsets[-1], is_divergent=False) is None
    assert list((tmp_path / "cut").iterdir()) == []
    log.close()


def test_a_damaged_blank_costs_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = fill(store)
    store.close()
    last_in_file = max(offset for offset in offsets if offset < 4096)
    blank = last_in_file + store_size(offsets, last_in_file)
    damage_log(tmp_path, blank, 8)
    with opened(tmp_path) as store:
        assert bodies(store) == expected("TopicA")


def store_size(offsets: list[int], offset: int) -> int:
    # All records of a topic have one size, but for the digits of their numbers.
    index = offsets.index(offset)
    return offsets[index - 3] - offsets[index - 4]


@pytest.mark.slow
def test_damage_in_a_queue_is_repaired_from_the_log(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store)
    store.close()
    for path in (tmp_path / "consumequeue" / "TopicA" / "0").iterdir():
        content = path.read_bytes()
        for position in range(0, 200, 7):
            damaged = bytearray(content)
            damaged[position] ^= 0xFF
            path.write_bytes(damaged)
            with opened(tmp_path) as store:
                assert bodies(store) == expected("TopicA")
                assert store.append(draft(b"new", topic="TopicC")).queue_offset >= 0


@pytest.mark.parametrize("position", range(12))
def test_the_last_entry_of_an_idle_queue_is_repaired_though_its_message_is_old(
    tmp_path: Path, position: int
) -> None:
    store = open_store(tmp_path)
    fill(store)
    for _ in range(120):
        store.append(draft(b"other", topic="TopicC"))
    store.close()
    path = tmp_path / "consumequeue" / "TopicA" / "0" / f"{800:020d}"
    content = bytearray(path.read_bytes())
    content[4 * 20 + position] ^= 0xFF
    path.write_bytes(content)
    with opened(tmp_path) as store:
        assert bodies(store) == expected("TopicA")
        assert store.append(draft(b"new")).queue_offset == 45


def test_a_queue_that_was_made_again_and_not_synced_is_whole_after_a_power_cut(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    store = open_store(tmp_path, clock=clock)
    fill(store, clock=clock)
    for _ in range(120):
        clock.advance(1)
        store.append(draft(b"other", topic="TopicC"))
    store.append(draft(b"last"))
    store.close()
    whole = [*expected("TopicA"), b"last"]
    _, second, *later = sorted((tmp_path / "consumequeue" / "TopicA" / "0").iterdir())
    for path in (second, *later):
        path.unlink()
    store = open_store(tmp_path, clock=clock)
    assert bodies(store) == whole
    crash(store)
    # The later ones reached the disk, and are all that is looked at when a queue is loaded.
    second.write_bytes(bytes(200))
    with opened(tmp_path, clock=clock) as store:
        assert bodies(store) == whole


def test_a_message_that_a_crash_lost_does_not_make_the_whole_log_be_read(tmp_path: Path) -> None:
    clock = FakeClock()
    store = open_store(tmp_path, clock=clock)
    store.append(draft(b"first", topic="Idle"))
    for _ in range(120):
        clock.advance(1)
        store.append(draft(b"other"))
    store.flush()
    lost = store.append(draft(b"second", topic="Idle")).physical_offset
    crash(store)
    damage_log(tmp_path, lost + 100)
    with opened(tmp_path, clock=clock) as store:
        assert report_of(store).scanned_from > 0
        assert bodies(store, "Idle") == [b"first"]
        assert store.append(draft(b"third", topic="Idle")).queue_offset == 1


def test_a_lost_log_file_costs_its_messages_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = fill(store)
    store.close()
    log_file(tmp_path, 4096).unlink()
    kept = [number for number in range(60) if not 4096 <= offsets[number] < 8192]
    with opened(tmp_path) as store:
        assert [damage.start for damage in report_of(store).damages] == [4096]
        assert bodies(store) == expected("TopicA", kept)


def test_without_any_log_the_queues_start_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store)
    store.close()
    rmtree(tmp_path / "commitlog")
    with opened(tmp_path) as store:
        assert store.queues() == {}
        appended = store.append(draft(b"new"))
        assert (appended.queue_offset, appended.physical_offset) == (0, 0)


def test_a_queue_starts_at_0_though_a_power_cut_left_only_its_second_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append(draft(b"safe", topic="TopicB"))
    lost, *_ = [store.append(draft(b"lost")).physical_offset for _ in range(11)]
    crash(store)
    damage_log(tmp_path, lost, 4096 - lost)
    first, _ = sorted((tmp_path / "consumequeue" / "TopicA" / "0").iterdir())
    first.unlink()
    with opened(tmp_path) as store:
        assert report_of(store).log_end == lost
        assert store.append(draft(b"new")).queue_offset == 0
        assert bodies(store) == [b"new"]


def test_entries_that_apache_left_behind_a_cut_are_dropped(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = fill(store)
    store.close()
    # An entry behind the last one, which points into the middle of a record.
    path = tmp_path / "consumequeue" / "TopicB" / "0" / f"{200:020d}"
    content = bytearray(path.read_bytes())
    content[100:120] = (offsets[-1] + 10).to_bytes(8) + (100).to_bytes(4) + bytes(8)
    path.write_bytes(content)
    with opened(tmp_path) as store:
        assert store.max_offset("TopicB", 0) == 15
        assert bodies(store, "TopicB") == expected("TopicB")


@pytest.mark.parametrize(
    ("timestamps", "complete", "index"),
    [
        ([10], 100, 0),
        ([10, 20, 30], 25, 1),
        ([10, 20, 30], 30, 2),
        ([10, 20, 30], 5, 0),
        ([10, 20, None], 100, 1),
        ([10, 0, None], 100, 0),
        ([None, None], 100, 0),
        ([10, 20, 30], 0, 0),
    ],
)
def test_a_crash_is_recovered_from_the_last_complete_file(
    timestamps: list[int | None], complete: int, index: int
) -> None:
    assert first_file_to_scan(timestamps, complete) == index


@pytest.mark.parametrize(
    ("after", "last", "durable", "is_damage"),
    [
        (None, 0, None, False),
        (50, 40, None, True),
        (50, 50, None, True),
        (50, 51, None, False),  # older than what lies before: left by an earlier life
        (50, 40, 51, True),
        (50, 40, 50, False),  # maybe newer than what is known to be durable: a torn tail
    ],
)
def test_a_bad_spot_is_damage_only_if_what_follows_belongs_to_the_log(
    after: int | None, last: int, durable: int | None, is_damage: bool
) -> None:
    record = None if after is None else LogRecord(0, 100, b"T", 0, 0, 0, after, b"")
    assert is_lost_in_between(record, last, durable) == is_damage
