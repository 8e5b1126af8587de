"""`StoreReader.snapshot` and its ranges, against the queues read one message after the other."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from roquet.protocol.host import pack_host
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.record import read_record
from roquet.store.errors import BadStoreDirectory, DamagedRange, UnreadableTopic
from roquet.store.message_store import MessageStore
from roquet.store.offline import snapshot as snapshot_module
from roquet.store.offline.log_range import LogFile, Segment
from roquet.store.offline.reader import StoreReader
from roquet.store.offline.snapshot import CLOCK_SLACK_MS, QueueBounds, StoreSnapshot
from tests.support.drafts import BORN_HOST, draft
from tests.support.fake_clock import FakeClock
from tests.support.golden_stores import STORE_NAMES, unpack_store
from tests.support.inner_parts import log_of
from tests.support.raising import raises
from tests.support.snapshot_rows import Row, cut_at, found_by, rows_of, rows_of_queues
from tests.support.stores import crash, open_store, opened

FILE_SIZE = 1 << 18
SPLIT_SIZES = (64 << 10, 300 << 10, 1 << 30)
START_MS = FakeClock().now_ms()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[MessageStore]:
    with opened(
        tmp_path,
        clock=clock,
        commit_log_file_size=FILE_SIZE,
        queue_file_size=2000,
        write_checksums=False,  # Only some of them have one.
    ) as it:
        yield it


def fill(store: MessageStore, count: int, chance: Random, clock: FakeClock) -> list[int]:
    """Messages of three topics; some bodies hold a record of before, whole."""
    offsets: list[int] = []
    for number in range(count):
        body = chance.randbytes(chance.choice((0, 10, 300, 300, 3000)))
        if offsets and chance.random() < 0.2:
            body += store.record_at(chance.choice(offsets)) + body
        message = draft(
            body,
            topic=f"Topic{'ABC'[number % 3]}",
            queue_id=chance.randrange(2),
            has_checksum=chance.random() < 0.7,
        )
        offsets.append(store.append(message).physical_offset)
        clock.advance(0.01)
    return offsets


def snapshot_of(root: Path, *topics: str, include_all: bool = False) -> StoreSnapshot:
    with StoreReader.open(root) as reader:
        return reader.snapshot(topics or None, include_all=include_all)


def expected_rows(root: Path, *topics: str) -> list[Row]:
    with StoreReader.open(root) as reader:
        return rows_of_queues(reader, *topics)


# Rows do not depend on cuts


def test_rows_are_those_of_the_queues_whatever_the_split_size(
    tmp_path: Path, store: MessageStore, clock: FakeClock
) -> None:
    fill(store, 1500, Random(1), clock)
    snapshot = snapshot_of(tmp_path)
    expected = expected_rows(tmp_path)
    assert len(expected) == 1500
    counts = []
    for split_size in SPLIT_SIZES:
        splits = snapshot.splits(split_size)
        assert rows_of(snapshot, splits) == expected
        counts.append(len(splits))
    assert counts[0] > counts[1] > counts[2] == 1


@pytest.mark.parametrize("seed", range(5))
def test_rows_do_not_depend_on_where_the_log_is_cut(
    tmp_path: Path, store: MessageStore, clock: FakeClock, seed: int
) -> None:
    chance = Random(seed)
    fill(store, 400, chance, clock)
    snapshot = snapshot_of(tmp_path)
    expected = found_by(snapshot, [(0, snapshot.log_end)])
    assert len(expected) == 400
    places = [chance.randrange(snapshot.log_end) for _ in range(60)]
    assert found_by(snapshot, cut_at(snapshot, places)) == expected
    assert found_by(snapshot, cut_at(snapshot, places), check=False) == expected


def test_every_cut_of_a_small_store_gives_every_record_once(
    tmp_path: Path, clock: FakeClock
) -> None:
    with opened(tmp_path, clock=clock) as small:
        first = small.append(draft(b"first")).physical_offset
        small.append(draft(b"[" + small.record_at(first) + b"]"))
        for number in range(40):
            small.append(draft(b"%d" % number))
    snapshot = snapshot_of(tmp_path)
    expected = found_by(snapshot, [(0, snapshot.log_end)])
    assert len(expected) == 42
    # Inside of records, of a copy and of the blank, and at the first records of the next file.
    for place in (*range(500), *range(3900, 4096 + 200)):
        assert found_by(snapshot, cut_at(snapshot, [place])) == expected


def test_a_record_forged_for_its_place_in_a_body_is_not_taken_for_one(
    tmp_path: Path, store: MessageStore, clock: FakeClock
) -> None:
    fill(store, 300, Random(3), clock)
    # Whoever knows where the next record will lie can make one that fits inside its body.
    place = store.log_end + 88
    forged = bytearray(draft(b"forged").size)
    draft(b"forged").write(forged, 0, 0, place, START_MS)
    store.append(draft(bytes(forged)))
    fill(store, 300, Random(4), clock)
    snapshot = snapshot_of(tmp_path)
    bodies = [
        read_record(each).body
        for each in found_by(snapshot, cut_at(snapshot, [place, place + 1]))
        if isinstance(each, bytes)
    ]
    assert len(bodies) == 601
    assert b"forged" not in bodies


def test_no_range_starts_at_a_forged_record(
    tmp_path: Path, store: MessageStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "SEGMENT_SIZE_MIN", 1 << 10)
    # Of a body that is longer than a segment, no known place lies inside.
    places = []
    body = bytearray(6000)
    start = store.log_end + 88
    for position in range(0, 5000, 500):
        draft(b"forged").write(body, position, 0, start + position, START_MS)
        places.append(start + position)
    store.append(draft(bytes(body)))
    fill(store, 100, Random(5), clock)
    snapshot = snapshot_of(tmp_path)
    starts = {each.start for each in snapshot.segments}
    assert len(starts) > 20
    assert not starts & set(places)
    assert rows_of(snapshot, snapshot.splits(1)) == expected_rows(tmp_path)


def test_records_of_rare_kinds_come_in_their_place(tmp_path: Path, store: MessageStore) -> None:
    v6 = pack_host("::1", 9)
    for number in range(30):
        host = v6 if number % 3 == 0 else BORN_HOST
        store.append(draft(b"%d" % number, born_host=host))
    snapshot = snapshot_of(tmp_path)
    assert [row.body for row in rows_of(snapshot, [(0, snapshot.log_end)])] == [
        b"%d" % number for number in range(30)
    ]


# Which records are messages


def test_messages_of_an_earlier_topic_of_the_same_name_are_no_rows(
    tmp_path: Path, store: MessageStore
) -> None:
    for number in range(10):
        store.append(draft(b"ghost %d" % number))
    store.delete_topic("TopicA")
    assert rows_of(snapshot_of(tmp_path, "TopicA"), [(0, store.log_end)]) == []
    for number in range(5):
        store.append(draft(b"today %d" % number))
    snapshot = snapshot_of(tmp_path, "TopicA")
    rows = rows_of(snapshot, [(0, store.log_end)])
    assert [(row.queue_offset, row.body) for row in rows] == [
        (number, b"today %d" % number) for number in range(5)
    ]
    everything = snapshot_of(tmp_path, "TopicA", include_all=True)
    assert len(found_by(everything, [(0, store.log_end)])) == 15


def test_a_queue_that_should_have_been_removed_has_no_rows(
    tmp_path: Path, store: MessageStore
) -> None:
    store.append(draft())
    # The broker wrote down that the topic is deleted, and was killed before it removed the queue.
    store._deletions.add([(b"TopicA", 0)], store.log_start, store.log_end)
    snapshot = snapshot_of(tmp_path)
    assert (snapshot.queues, snapshot.segments) == ({}, ())
    store.append(draft(b"today"))
    snapshot = snapshot_of(tmp_path)
    assert [row.body for row in rows_of(snapshot, [(0, store.log_end)])] == [b"today"]


def test_prepared_and_rolled_back_messages_are_no_rows(tmp_path: Path, store: MessageStore) -> None:
    store.append(draft(b"plain"))
    for flag in (SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK):
        store.append(draft(b"in no queue", sys_flag=flag))
    store.append(draft(b"half", topic="RMQ_SYS_TRANS_HALF_TOPIC"))
    store.append(draft(b"waiting", topic="SCHEDULE_TOPIC_XXXX", properties={"DELAY": "3"}))
    store.append(draft(b"committed", sys_flag=SysFlag.TRANSACTION_COMMIT))
    snapshot = snapshot_of(tmp_path, "TopicA")
    rows = rows_of(snapshot, [(0, snapshot.log_end)])
    assert [row.body for row in rows] == [b"plain", b"committed"]


def test_only_the_part_of_the_log_with_a_topic_in_it_is_read(
    tmp_path: Path, store: MessageStore, clock: FakeClock
) -> None:
    fill(store, 600, Random(6), clock)
    place = store.append(draft(b"rare", topic="Rare")).physical_offset
    fill(store, 600, Random(7), clock)
    snapshot = snapshot_of(tmp_path, "Rare")
    assert [row.body for row in rows_of(snapshot, snapshot.splits(1 << 30))] == [b"rare"]
    (segment,) = snapshot.segments
    assert segment.start <= place < segment.end
    assert snapshot.size < 2 * snapshot_module.SEGMENT_SIZE_MIN < snapshot.log_end


def test_a_topic_that_is_not_there_has_no_rows_and_reads_nothing(
    tmp_path: Path, store: MessageStore
) -> None:
    store.append(draft())
    snapshot = snapshot_of(tmp_path, "Other")
    assert (snapshot.queues, snapshot.segments, snapshot.splits(1)) == ({}, (), [])
    assert snapshot.bounds("TopicA", 0) is None


def test_the_bounds_of_a_queue_are_its_own(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock) as small:
        for number in range(200):
            small.append(draft(b"%d" % number))
        for file in log_of(small).forget(2):
            file.remove()
    with StoreReader.open(tmp_path) as reader:
        snapshot = reader.snapshot()
        (first,) = reader.entries("TopicA", 0, reader.min_offset("TopicA", 0), 1)
        assert reader.min_offset("TopicA", 0) > 0
        assert snapshot.bounds("TopicA", 0) == QueueBounds(
            reader.min_offset("TopicA", 0), 200, first.physical_offset
        )
        assert snapshot.log_start == first.physical_offset == 8192
        assert rows_of(snapshot, snapshot.splits(1)) == rows_of_queues(reader)


def test_a_damaged_first_entry_hides_no_message(tmp_path: Path) -> None:
    with opened(tmp_path) as small:
        for number in range(150):
            small.append(draft(b"%d" % number))
    with (tmp_path / "consumequeue" / "TopicA" / "0" / f"{0:020d}").open("r+b") as entries:
        entries.write((5000).to_bytes(8))
    snapshot = snapshot_of(tmp_path)
    assert snapshot.broken_queues == ()
    assert snapshot.queues["TopicA", 0].first_physical_offset == 0
    assert len(rows_of(snapshot, [(0, snapshot.log_end)])) == 150


def test_a_queue_that_cannot_be_read_is_reported(tmp_path: Path, store: MessageStore) -> None:
    for _ in range(20):
        store.append(draft())
    with (tmp_path / "consumequeue" / "TopicA" / "0" / f"{0:020d}").open("r+b") as entries:
        entries.write((5000).to_bytes(8))
    snapshot = snapshot_of(tmp_path)
    assert (snapshot.queues, snapshot.broken_queues) == ({}, (("TopicA", 0),))
    assert snapshot_of(tmp_path, "TopicB").broken_queues == ()


def test_messages_behind_a_damaged_entry_come_from_the_log(tmp_path: Path) -> None:
    with opened(tmp_path) as small:
        for number in range(150):
            small.append(draft(b"%d" % number))
    path = max((tmp_path / "consumequeue" / "TopicA" / "0").iterdir())
    content = bytearray(path.read_bytes())
    content[0] ^= 0x80
    path.write_bytes(content)
    snapshot = snapshot_of(tmp_path)
    assert snapshot.broken_queues == (("TopicA", 0),)
    assert len(rows_of(snapshot, snapshot.splits(1))) == 150


# Live, killed and damaged stores


def test_a_snapshot_of_a_live_store_gives_the_same_again(
    tmp_path: Path, store: MessageStore, clock: FakeClock
) -> None:
    fill(store, 200, Random(8), clock)
    snapshot = snapshot_of(tmp_path)
    before = rows_of(snapshot, snapshot.splits(1 << 16))
    fill(store, 600, Random(9), clock)
    assert rows_of(snapshot, snapshot.splits(1 << 16)) == before
    assert len(before) == 200


def test_what_is_written_while_a_store_is_opened_is_there_or_not_for_all_queues(
    tmp_path: Path, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        store.append(draft(b"%d" % number, queue_id=number % 2))
    load = StoreReader._load_queue

    def load_and_write(reader: StoreReader, topic: bytes, queue_id: int) -> None:
        load(reader, topic, queue_id)
        for each in range(2):
            store.append(draft(b"later", queue_id=each))

    monkeypatch.setattr(StoreReader, "_load_queue", load_and_write)
    with StoreReader.open(tmp_path) as reader:
        snapshot = reader.snapshot()
        assert rows_of(snapshot, [(0, snapshot.log_end)]) == rows_of_queues(reader)
    assert [each.max_offset for each in snapshot.queues.values()] == [4, 4]


def test_messages_whose_entries_are_late_are_rows(tmp_path: Path, store: MessageStore) -> None:
    for number in range(10):
        store.append(draft(b"%d" % number))
    # Apache enters messages into their queues a little later; a kill may come in between.
    with (tmp_path / "consumequeue" / "TopicA" / "0" / f"{0:020d}").open("r+b") as entries:
        entries.seek(7 * 20)
        entries.write(bytes(60))
    snapshot = snapshot_of(tmp_path)
    assert snapshot.queues["TopicA", 0].max_offset == 10
    assert len(rows_of(snapshot, snapshot.splits(1 << 16))) == 10


def test_the_torn_tail_of_a_killed_store_is_not_read(tmp_path: Path, clock: FakeClock) -> None:
    killed = open_store(
        tmp_path, clock=clock, commit_log_file_size=FILE_SIZE, write_checksums=False
    )
    offsets = fill(killed, 300, Random(10), clock)
    flip(killed, offsets[-1] + 20)
    crash(killed)
    snapshot = snapshot_of(tmp_path)
    assert snapshot.log_end == offsets[-1]
    for split_size in SPLIT_SIZES:
        splits = snapshot.splits(split_size)
        assert [each for each in found_by(snapshot, splits) if isinstance(each, DamagedRange)] == []
        assert rows_of(snapshot, splits) == expected_rows(tmp_path)


def flip(store: MessageStore, physical_offset: int) -> None:
    file = log_of(store).file_at(physical_offset)
    assert file is not None
    file.mapping[physical_offset - file.start] ^= 1


@pytest.mark.parametrize("place", [0, 4, 16, 30, 60, 86])
def test_a_damaged_record_is_reported_once_wherever_the_log_is_cut(
    tmp_path: Path, store: MessageStore, clock: FakeClock, place: int
) -> None:
    offsets = fill(store, 100, Random(11), clock)
    # One with a checksum, so that every byte counts.
    number = next(
        number for number in range(40, 100) if b"__CRC32#" in store.record_at(offsets[number])
    )
    flip(store, offsets[number] + place)
    begin, end = offsets[number], offsets[number + 1]
    snapshot = snapshot_of(tmp_path)
    for cut in (begin - 1, begin, begin + 1, (begin + end) // 2, end - 1, end, end + 1):
        found = found_by(snapshot, cut_at(snapshot, [cut]))
        damages = [each for each in found if isinstance(each, DamagedRange)]
        assert [(each.start, each.end) for each in damages] == [(begin, end)]
        assert len(found) == 100


def test_without_checksums_a_flipped_byte_of_a_body_goes_unnoticed(
    tmp_path: Path, store: MessageStore
) -> None:
    offsets = [store.append(draft(b"body")).physical_offset for _ in range(3)]
    flip(store, offsets[1] + 88)
    snapshot = snapshot_of(tmp_path)
    cuts = [(0, snapshot.log_end)]
    kinds = [type(each) for each in found_by(snapshot, cuts)]
    assert kinds == [bytes, DamagedRange, bytes]
    assert [type(each) for each in found_by(snapshot, cuts, check=False)] == [bytes] * 3


def test_no_segment_starts_in_a_damaged_part(
    tmp_path: Path, store: MessageStore, clock: FakeClock
) -> None:
    fill(store, 600, Random(12), clock)
    file = log_of(store).files[0]
    file.mapping[70_000:200_000] = bytes(130_000)
    snapshot = snapshot_of(tmp_path)
    (damage,) = [
        each
        for each in found_by(snapshot, snapshot.splits(1 << 16))
        if isinstance(each, DamagedRange)
    ]
    assert damage.start <= 70_000
    assert damage.end >= 200_000
    assert not any(damage.start < each.start < damage.end for each in snapshot.segments)


def test_a_missing_file_is_reported_once(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock) as small:
        for number in range(100):
            small.append(draft(b"%d" % number))
    (tmp_path / "commitlog" / f"{4096:020d}").unlink()
    snapshot = snapshot_of(tmp_path)
    gap = DamagedRange(4096, 8192, "a file is missing")
    for cuts in ([], [4096], [5000], [8192], [4096, 8192]):
        found = found_by(snapshot, cut_at(snapshot, cuts))
        assert [each for each in found if isinstance(each, DamagedRange)] == [gap]
    assert found_by(snapshot, snapshot.splits(1)) == found


@pytest.mark.parametrize("name", STORE_NAMES)
def test_stores_of_apache_give_the_rows_of_their_queues(tmp_path: Path, name: str) -> None:
    root = unpack_store(name, tmp_path)
    snapshot = snapshot_of(root)
    expected = expected_rows(root)
    assert expected
    assert rows_of(snapshot, snapshot.splits(1)) == expected
    chance = Random(name)
    places = [chance.randrange(snapshot.log_start, snapshot.log_end) for _ in range(20)]
    assert rows_of(snapshot, cut_at(snapshot, places)) == expected


# Times


def test_a_time_leaves_out_segments_and_no_message(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock=clock) as small:
        for number in range(200):
            small.append(draft(b"%d" % number))
            clock.advance(60)
    snapshot = snapshot_of(tmp_path)
    begin, end = START_MS + 50 * 60_000, START_MS + 60 * 60_000
    part = snapshot.between(begin, end)
    assert 0 < part.size < snapshot.size
    bodies = {row.body for row in rows_of(part, part.splits(1))}
    assert bodies >= {b"%d" % number for number in range(50, 60)}
    assert snapshot.between(0, START_MS - CLOCK_SLACK_MS).segments == ()
    # The last segment has no end that is known.
    assert snapshot.between(end * 2, end * 3).segments == snapshot.segments[-1:]
    assert snapshot.between(0, end * 3) == snapshot


def test_a_clock_that_was_set_back_hides_nothing() -> None:
    times = [0, 10, None, 4, 20, 30]
    file = LogFile(Path("file"), 0, 600)
    segments = tuple(
        Segment(100 * number, 100 * number + 100, time and time * 1_000_000, file)
        for number, time in enumerate(times)
    )
    snapshot = StoreSnapshot(Path(), (file,), 0, 600, {}, (), segments)

    def kept(begin: int, end: int) -> list[int]:
        part = snapshot.between(begin * 1_000_000, end * 1_000_000)
        return [each.start // 100 for each in part.segments]

    assert kept(5, 6) == [0, 1, 2, 3]
    assert kept(9, 10) == [0, 1, 2, 3]
    assert kept(21, 25) == [4]
    assert kept(40, 50) == [5]


# A plain value


def test_a_snapshot_and_its_ranges_can_be_sent_elsewhere(
    tmp_path: Path, store: MessageStore, clock: FakeClock
) -> None:
    fill(store, 100, Random(13), clock)
    snapshot = snapshot_of(tmp_path)
    again = pickle.loads(pickle.dumps(snapshot))  # noqa: S301 -- what tasks are sent
    assert again == snapshot
    assert again.root == tmp_path
    assert again.files[0].end == FILE_SIZE
    part = snapshot.range(0, snapshot.log_end)
    assert pickle.loads(pickle.dumps(part)) == part  # noqa: S301


def test_a_range_carries_only_its_own_segments(
    tmp_path: Path, store: MessageStore, clock: FakeClock
) -> None:
    fill(store, 2500, Random(14), clock)
    snapshot = snapshot_of(tmp_path)
    for begin, end in snapshot.splits(1 << 16):
        part = snapshot.range(begin, end)
        assert (part.segments[0].start, part.segments[-1].end) == (begin, end)
    assert snapshot.range(5, 5).segments == ()


# What cannot be read


def test_queues_in_a_database_are_refused_by_name(tmp_path: Path, store: MessageStore) -> None:
    store.append(draft(topic="CURRENT"))
    assert len(rows_of(snapshot_of(tmp_path), [(0, store.log_end)])) == 1
    (tmp_path / "consumequeue" / "CURRENT" / "0" / f"{0:020d}").unlink()
    (tmp_path / "consumequeue" / "CURRENT" / "0").rmdir()
    (tmp_path / "consumequeue" / "CURRENT").rmdir()
    (tmp_path / "consumequeue_rocksdb").mkdir()
    with pytest.raises(BadStoreDirectory, match="RocksDB"):
        snapshot_of(tmp_path)
    (tmp_path / "consumequeue_rocksdb").rmdir()
    (tmp_path / "consumequeue" / "CURRENT").touch()
    with pytest.raises(BadStoreDirectory, match="RocksDB"):
        snapshot_of(tmp_path)
    everything = snapshot_of(tmp_path, include_all=True)
    assert len(found_by(everything, [(0, everything.log_end)])) == 1


def test_topics_with_queues_of_another_kind_are_refused_by_name(
    tmp_path: Path, store: MessageStore
) -> None:
    store.append(draft())
    (tmp_path / "batchconsumequeue" / "Batches").mkdir(parents=True)
    for topics in ((), ("Batches",)):
        with raises(UnreadableTopic, topic="Batches"):
            snapshot_of(tmp_path, *topics)
    assert set(snapshot_of(tmp_path, "TopicA").queues) == {("TopicA", 0)}
    with raises(UnreadableTopic, topic="%LMQ%a"):
        snapshot_of(tmp_path, "%LMQ%a")


def test_light_queues_are_no_queues_of_their_own(tmp_path: Path, store: MessageStore) -> None:
    store.append(draft())
    store.append(draft(topic="%LMQ%a"))
    assert set(snapshot_of(tmp_path).queues) == {("TopicA", 0)}
