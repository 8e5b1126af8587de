import json
from collections.abc import Iterator
from errno import ENOENT
from pathlib import Path

import pytest

from roquet.protocol.messages.record import read_record
from roquet.store.config import FlushMode
from roquet.store.errors import BadRecord, BadStoreDirectory, DamagedRange
from roquet.store.log_scan import LogRecord
from roquet.store.message_store import MessageStore
from roquet.store.offline.reader import StoreReader
from roquet.store.reading.queue_reading import Boundary, QueueReadLimits, ReadStatus
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.golden_stores import STORES_DIR, unpack_store
from tests.support.inner_parts import log_of
from tests.support.quick_disk import QuickDisk
from tests.support.raising import raises
from tests.support.stores import crash, open_store, opened

COUNT = 150
START_MS = FakeClock().now_ms()


def fill(store: MessageStore, clock: FakeClock) -> list[int]:
    offsets = []
    for number in range(COUNT):
        message = draft(b"%03d" % number, properties={"KEYS": f"all key-{number}"})
        offsets.append(store.append(message).physical_offset)
        clock.advance(1)
    return offsets


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def root(tmp_path: Path, clock: FakeClock) -> Path:
    """A store that was closed."""
    with opened(tmp_path, clock=clock) as store:
        fill(store, clock)
    return tmp_path


def contents(root: Path) -> dict[Path, tuple[bytes, int]]:
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def found(records: Iterator[bytes] | list[bytes]) -> list[bytes]:
    return [bytes(read_record(record).body) for record in records]


def everything() -> list[bytes]:
    return [b"%03d" % number for number in range(COUNT)]


def test_everything_is_found_without_any_configuration(root: Path) -> None:
    with StoreReader.open(root) as reader:
        assert reader.queues() == {"TopicA": [0]}
        assert (reader.min_offset("TopicA", 0), reader.max_offset("TopicA", 0)) == (0, COUNT)
        assert found(reader.messages("TopicA", 0)) == everything()
        assert found(reader.messages("TopicA", 0, 5, 8)) == [b"005", b"006", b"007"]
        assert found(reader.messages("TopicA", 0, -5, 2)) == [b"000", b"001"]
        assert found(reader.messages("TopicA", 0, 140, 900)) == everything()[140:]
        assert found(reader.messages("TopicB", 0)) == []
        assert reader.damages == []


def test_reading_changes_nothing(root: Path) -> None:
    before = contents(root)
    with StoreReader.open(root) as reader:
        assert len(list(reader.messages("TopicA", 0))) == COUNT
        assert len(reader.find_by_key("TopicA", "all", 0, 2**60, 500)) == COUNT
        assert len(list(reader.scan())) == COUNT
    assert contents(root) == before


def test_the_files_of_the_log_are_listed(root: Path) -> None:
    with StoreReader.open(root) as reader:
        assert [(each.path.name, each.start, each.end) for each in reader.files] == [
            (f"{start:020d}", start, start + 4096)
            for start in range(0, reader.log_end // 4096 * 4096 + 1, 4096)
        ]
        assert reader.log_start == 0
        assert reader.was_clean
        assert reader.checkpoint.log_timestamp == START_MS + (COUNT - 1) * 1000


def test_a_file_knows_when_it_was_begun(tmp_path: Path, clock: FakeClock) -> None:
    store = open_store(tmp_path, clock=clock)
    offsets = fill(store, clock)
    damage(store, offsets[0])
    while log_of(store)._next_file is None:
        store.append(draft())
        log_of(store).make_next_file()
    crash(store)
    with StoreReader.open(tmp_path) as reader:
        first, second, *_, unused = reader.files
        assert reader.first_store_time(first) == START_MS + 1_000
        first_in_second = sum(offset < second.start for offset in offsets)
        assert reader.first_store_time(second) == START_MS + 1_000 * first_in_second
        assert reader.first_store_time(unused) is None


def test_an_open_store_can_be_read_while_it_is_written(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock) as store:
        offsets = fill(store, clock)
        with StoreReader.open(tmp_path) as reader:
            store.append(draft(b"later"))
            assert not reader.was_clean
            assert reader.log_end == offsets[-1] + len(store.record_at(offsets[-1]))
            assert found(reader.messages("TopicA", 0)) == everything()
        with StoreReader.open(tmp_path) as reader:
            assert found(reader.messages("TopicA", 0)) == [*everything(), b"later"]


def test_a_store_whose_owner_was_killed_can_be_read(tmp_path: Path, clock: FakeClock) -> None:
    store = open_store(tmp_path, clock=clock, flush_mode=FlushMode.SYNC)
    fill(store, clock)
    crash(store)
    with StoreReader.open(tmp_path) as reader:
        assert found(reader.messages("TopicA", 0)) == everything()


def test_a_torn_tail_is_not_read(tmp_path: Path, clock: FakeClock) -> None:
    store = open_store(tmp_path, clock=clock)
    offsets = fill(store, clock)
    damage(store, offsets[-1])
    crash(store)
    with StoreReader.open(tmp_path) as reader:
        assert reader.log_end == offsets[-1]
        assert reader.max_offset("TopicA", 0) == COUNT - 1
        assert found(reader.messages("TopicA", 0)) == everything()[:-1]


def test_what_lies_after_damage_is_read(tmp_path: Path, clock: FakeClock) -> None:
    store = open_store(tmp_path, clock=clock)
    offsets = fill(store, clock)
    damage(store, offsets[140])
    crash(store)
    with StoreReader.open(tmp_path) as reader:
        assert found(reader.messages("TopicA", 0)) == [*everything()[:140], *everything()[141:]]
        (gap,) = [each for each in reader.scan() if isinstance(each, DamagedRange)]
        assert (gap.start, gap.end) == (offsets[140], offsets[141])


def damage(store: MessageStore, physical_offset: int) -> None:
    file = log_of(store).file_at(physical_offset)
    assert file is not None
    file.mapping[physical_offset - file.start + 90] ^= 1


def test_damaged_messages_are_reported_and_not_handed_out(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock) as store:
        offsets = fill(store, clock)
        damage(store, offsets[5])
        damage(store, offsets[60])
    with StoreReader.open(tmp_path) as reader:
        expected = [body for body in everything() if body not in (b"005", b"060")]
        assert found(reader.messages("TopicA", 0)) == expected
        assert [each.physical_offset for each in reader.damages] == [offsets[5], offsets[60]]
        with pytest.raises(BadRecord):
            reader.record_at(offsets[5])
        assert reader.store_time("TopicA", 0, 5) is None


def test_wrong_entries_are_seen_through_but_left_alone(root: Path) -> None:
    path = root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[5 * 20 + 7] ^= 0xFF
    path.write_bytes(content)
    with StoreReader.open(root) as reader:
        assert found(reader.messages("TopicA", 0)) == everything()
    assert path.read_bytes() == content


def test_the_log_is_scanned_between_two_records(root: Path) -> None:
    with StoreReader.open(root) as reader:
        records = list(reader.scan())
        assert len(records) == COUNT
        tenth, twentieth = records[10], records[20]
        assert isinstance(tenth, LogRecord)
        assert isinstance(twentieth, LogRecord)
        part = list(reader.scan(tenth.physical_offset, twentieth.physical_offset))
        assert part == records[10:20]
        assert read_record(reader.record_at(tenth.physical_offset)).body == b"010"
        assert reader.bytes_at(tenth.physical_offset, 4) == tenth.size.to_bytes(4)
        with pytest.raises(BadRecord):
            reader.bytes_at(4090, 10)


def test_a_limited_read_says_where_to_continue(root: Path) -> None:
    with StoreReader.open(root) as reader:
        result = reader.read("TopicA", 0, 3, QueueReadLimits(4, 1 << 20))
        assert result.status is ReadStatus.FOUND
        assert (len(result.records), result.next_offset) == (4, 7)
        assert (
            reader.read("TopicB", 0, 3, QueueReadLimits(4, 1)).status
            is ReadStatus.NO_MESSAGE_IN_QUEUE
        )


def test_offsets_are_found_by_time(root: Path) -> None:
    with StoreReader.open(root) as reader:
        assert reader.offset_by_time("TopicA", 0, START_MS + 7_000) == 7
        assert reader.offset_by_time("TopicA", 0, START_MS + 7_500, Boundary.UPPER) == 7
        assert reader.offset_by_time("TopicB", 0, START_MS) == 0
        assert reader.store_time("TopicA", 0, 7) == START_MS + 7_000
        assert reader.store_time("TopicB", 0, 7) is None


def test_messages_are_found_by_key(root: Path) -> None:
    with StoreReader.open(root) as reader:
        assert found(reader.find_by_key("TopicA", "key-7", 0, 2**60, 9)) == [b"007"]
        assert found(reader.find_by_key("TopicA", "all", 0, 2**60, 3)) == everything()[-3:]
        begin = START_MS + 10_000
        assert found(reader.find_by_key("TopicA", "all", begin, begin + 2_000, 9)) == [
            b"010",
            b"011",
            b"012",
        ]
        assert reader.find_by_key("TopicA", "none", 0, 2**60, 9) == []


@pytest.mark.parametrize("name", ["v49_clean", "v49_crashed", "v55_clean", "v55_crashed"])
def test_stores_of_apache_are_read_as_they_are(tmp_path: Path, name: str) -> None:
    unpack_store(name, tmp_path)
    lines = [
        json.loads(line)
        for line in (STORES_DIR / f"{name}.expected.jsonl").read_text().splitlines()
    ]
    expected = {
        line["offsetMsgId"]
        for line in lines
        if line["kind"] in ("message", "view") and not line.get("afterRestart")
    }
    before = contents(tmp_path)
    with StoreReader.open(tmp_path / name) as reader:
        by_queue = {
            read_record(record).offset_id
            for topic, queue_ids in reader.queues().items()
            for queue_id in queue_ids
            for record in reader.messages(topic, queue_id)
        }
        assert expected <= by_queue
        assert len(list(reader.scan())) == len(by_queue)
        assert reader.damages == []
    assert contents(tmp_path) == before


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with raises(BadStoreDirectory, path=tmp_path):
        StoreReader.open(tmp_path)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "notes.txt").write_text("no record")
    with pytest.raises(BadStoreDirectory):
        StoreReader.open(tmp_path)


def test_an_empty_store_is_a_store(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    with StoreReader.open(tmp_path) as reader:
        assert (reader.log_start, reader.log_end, reader.queues()) == (0, 0, {})
        assert list(reader.scan()) == []
        assert reader.find_by_key("TopicA", "k", 0, 2**60, 9) == []


def test_entries_are_shown_as_they_are(root: Path) -> None:
    with StoreReader.open(root) as reader:
        offsets = [each.physical_offset for each in reader.scan() if isinstance(each, LogRecord)]
        entries = reader.entries("TopicA", 0, 12, 3)
        assert [each.physical_offset for each in entries] == offsets[12:15]
        assert reader.entries("TopicA", 1, 0, 1) == []


def test_bytes_behind_the_last_record_are_counted(root: Path) -> None:
    with StoreReader.open(root) as reader:
        assert reader.tail_size == 0
        end = reader.log_end
        file = reader.files[-1]
    with file.path.open("r+b") as log:
        log.seek(end - file.start + 20)
        log.write(b"\1")
    with StoreReader.open(root) as reader:
        assert reader.log_end == end
        assert reader.tail_size == 21


def test_a_queue_that_ends_too_early_is_reported(root: Path) -> None:
    with StoreReader.open(root) as reader:
        assert reader.broken_queues == []
    path = max((root / "consumequeue" / "TopicA" / "0").iterdir())
    content = bytearray(path.read_bytes())
    content[0] ^= 0x80
    path.write_bytes(content)
    with StoreReader.open(root) as reader:
        assert reader.broken_queues == [("TopicA", 0)]
        assert reader.max_offset("TopicA", 0) < COUNT


def test_stray_files_among_the_queues_are_passed_over(root: Path) -> None:
    (root / "consumequeue" / "stray").touch()
    with StoreReader.open(root) as reader:
        assert reader.queues() == {"TopicA": [0]}


def test_a_queue_with_a_file_of_a_strange_size_is_broken(root: Path) -> None:
    first = root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"
    first.write_bytes(first.read_bytes()[:-7])
    with StoreReader.open(root) as reader:
        assert reader.broken_queues == [("TopicA", 0)]
        assert reader.queues() == {}


def test_keys_that_are_not_filed_are_found_in_the_log(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock) as store:
        fill(store, clock)
        assert store.file_keys()
        store.append(draft(b"late", properties={"KEYS": "all"}))
        with StoreReader.open(tmp_path) as reader:
            assert found(reader.find_by_key("TopicA", "all", 0, 2**60, 2)) == [b"149", b"late"]
    for path in (tmp_path / "index").iterdir():
        path.unlink()
    with StoreReader.open(tmp_path) as reader:
        assert found(reader.find_by_key("TopicA", "key-7", 0, 2**60, 9)) == [b"007"]


def test_times_of_keys_are_exact(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock=clock) as store:
        for number in range(5):
            store.append(draft(b"%d" % number, properties={"KEYS": "k"}))
            clock.advance(0.3)
    with StoreReader.open(tmp_path) as reader:
        begin = START_MS + 900
        assert found(reader.find_by_key("TopicA", "k", begin, 2**60, 9)) == [b"3", b"4"]
        assert found(reader.find_by_key("TopicA", "k", 0, begin, 9)) == [b"0", b"1", b"2", b"3"]


class RacingDisk(QuickDisk):
    """A broker removes files just before they are opened, some times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def open(self, path: Path, *, writable: bool) -> int:
        if self.times and "consumequeue" in path.parts:
            self.times -= 1
            raise FileNotFoundError(ENOENT, "No such file", str(path))
        return super().open(path, writable=writable)


def test_a_file_that_a_broker_removes_meanwhile_is_no_failure(root: Path) -> None:
    with StoreReader.open(root, disk=RacingDisk(2)) as reader:
        assert found(reader.messages("TopicA", 0)) == everything()
    with pytest.raises(FileNotFoundError):
        StoreReader.open(root, disk=RacingDisk(1_000))
