"""Format `rocketmq-store` without a session, against the queues read one message at a time."""

from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from roquet.errors import RoquetError
from roquet.pipeline.data_sources import RocketmqStoreDataSource
from roquet.pipeline.errors import BadOption, DamagedStore, NotShared
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.record_columns import PropertiesForm
from roquet.store.errors import BadStoreDirectory, FileGone, SeveralStores
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.golden_stores import STORE_NAMES, unpack_store
from tests.support.raising import raises
from tests.support.spark_store import (
    TOPICS,
    fill_with_everything,
    flip,
    scalar_rows,
    store_batches,
    store_rows,
)
from tests.support.stores import crash, open_store, opened

FILE_SIZE = 1 << 18
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
        write_checksums=False,
    ) as it:
        yield it


def bodies(root: Path, **options: str) -> list[object]:
    return [row["body"] for row in store_rows(root, **options)]


# Rows are those of the queues


@pytest.mark.parametrize("form", list(PropertiesForm))
def test_rows_are_those_of_the_scalar_reader(
    tmp_path: Path, store: MessageStore, clock: FakeClock, form: PropertiesForm
) -> None:
    fill_with_everything(store, clock, 1500, seed=1)
    expected = scalar_rows(tmp_path, TOPICS, form)
    assert len(expected) > 1000
    assert store_rows(tmp_path, topics=",".join(TOPICS), properties=form) == expected


@pytest.mark.parametrize("split_size", ["64k", str(300 << 10), "1g"])
def test_rows_do_not_depend_on_the_size_of_splits(
    tmp_path: Path, store: MessageStore, clock: FakeClock, split_size: str
) -> None:
    fill_with_everything(store, clock, 1500, seed=2)
    expected = scalar_rows(tmp_path, ["TopicA"])
    assert store_rows(tmp_path, topic="TopicA", splitSize=split_size) == expected


@pytest.mark.parametrize("name", STORE_NAMES)
def test_stores_of_apache_are_read_as_their_queues_are(tmp_path: Path, name: str) -> None:
    root = unpack_store(name, tmp_path)
    expected = scalar_rows(root, topics_of(root))
    assert expected
    assert store_rows(root, topics=",".join(topics_of(root)), splitSize="64k") == expected


def topics_of(root: Path) -> list[str]:
    return sorted(each.name for each in (root / "consumequeue").iterdir() if any(each.iterdir()))


def test_columns_that_are_not_asked_for_are_not_there(tmp_path: Path, store: MessageStore) -> None:
    store.append(draft(b"one", properties={"TAGS": "Aa"}))
    (batch,) = store_batches(tmp_path, topic="TopicA", properties="none", brokerName="b")
    assert "properties" not in batch.schema.names
    assert batch.column("brokerName").to_pylist() == ["b"]


# Which records are rows


def test_a_deleted_topic_leaves_no_ghosts_unless_all_is_asked_for(
    tmp_path: Path, store: MessageStore
) -> None:
    for number in range(10):
        store.append(draft(b"ghost %d" % number))
    store.delete_topic("TopicA")
    for number in range(5):
        store.append(draft(b"today %d" % number))
    store.append(draft(b"in no queue", sys_flag=SysFlag.TRANSACTION_PREPARED))
    assert bodies(tmp_path, topic="TopicA") == [b"today %d" % number for number in range(5)]
    assert len(bodies(tmp_path, topic="TopicA", include="all")) == 16


def test_a_pattern_means_topics_of_programs(tmp_path: Path, store: MessageStore) -> None:
    for topic in ("TopicA", "TopicB", "Other", "%RETRY%group", "RMQ_SYS_TRANS_HALF_TOPIC"):
        store.append(draft(topic.encode(), topic=topic))
    assert bodies(tmp_path, topicPattern=".*") == [b"TopicA", b"TopicB", b"Other"]
    assert bodies(tmp_path, topicPattern="Topic.") == [b"TopicA", b"TopicB"]
    assert bodies(tmp_path, topic="%RETRY%group") == [b"%RETRY%group"]
    assert bodies(tmp_path, topicPattern="none") == []


def test_times_and_queues_are_kept_to_exactly(
    tmp_path: Path, store: MessageStore, clock: FakeClock
) -> None:
    for number in range(20):
        store.append(draft(b"%d" % number, queue_id=number % 2))
        clock.advance(1)
    options = {
        "startingTimestamp": str(START_MS + 5_000),
        "endingTimestamp": str(START_MS + 9_000),
    }
    assert bodies(tmp_path, topic="TopicA", **options) == [b"5", b"6", b"7", b"8"]
    assert bodies(tmp_path, topic="TopicA", queueIds="1", **options) == [b"5", b"7"]
    assert bodies(tmp_path, topic="TopicA", queueIds="1", include="all", **options) == [b"5", b"7"]


def test_the_torn_tail_of_a_killed_store_is_no_damage(tmp_path: Path, clock: FakeClock) -> None:
    killed = open_store(
        tmp_path, clock=clock, commit_log_file_size=FILE_SIZE, write_checksums=False
    )
    fill_with_everything(killed, clock, 300, seed=3)
    last = killed.append(draft(b"last")).physical_offset
    flip(killed, last + 20)
    crash(killed)
    assert store_rows(tmp_path, topic="TopicA") == scalar_rows(tmp_path, ["TopicA"])


def test_a_snapshot_is_taken_once_and_read_as_it_was(tmp_path: Path, store: MessageStore) -> None:
    store.append(draft(b"before"))
    batches = store_batches(tmp_path, topic="TopicA")
    assert [next(batches).num_rows] == [1]
    store.append(draft(b"later"))
    assert list(batches) == []
    assert len(bodies(tmp_path, topic="TopicA")) == 2


# Damage


def test_damage_fails_with_its_place_and_size(tmp_path: Path, store: MessageStore) -> None:
    places = [store.append(draft(b"%02d" % number)).physical_offset for number in range(50)]
    size = places[1] - places[0]
    flip(store, places[7] + 88)
    flip(store, places[30] + 88)
    with pytest.raises(DamagedStore, match=f"2 damaged, {2 * size} bytes") as caught:
        store_rows(tmp_path, topic="TopicA")
    assert [each.split(" (")[0] for each in caught.value.damages] == [
        f"{places[number]} to {places[number] + size}" for number in (7, 30)
    ]
    # Between processes it goes as a copy.
    assert str(copy(caught.value)) == str(caught.value)


def test_of_many_damages_some_are_spelled_out(tmp_path: Path, store: MessageStore) -> None:
    places = [store.append(draft(b"%02d" % number)).physical_offset for number in range(50)]
    for place in places[1:40:2]:
        flip(store, place + 88)
    with pytest.raises(DamagedStore, match=r"20 damaged, .*; and 10 more\.") as caught:
        store_rows(tmp_path, topic="TopicA")
    assert len(caught.value.damages) == 20


def test_damage_is_skipped_and_reported_if_wanted(
    tmp_path: Path, store: MessageStore, caplog: pytest.LogCaptureFixture
) -> None:
    places = [store.append(draft(b"%d" % number)).physical_offset for number in range(50)]
    flip(store, places[7] + 88)
    found = bodies(tmp_path, topic="TopicA", onDamage="skip")
    assert found == [b"%d" % number for number in range(50) if number != 7]
    assert f"1 damaged, {places[1] - places[0]} bytes of the log: {places[7]} to" in caplog.text


def test_a_body_that_was_compressed_wrongly_costs_only_itself(
    tmp_path: Path, store: MessageStore
) -> None:
    for number in range(100):
        sys_flag = SysFlag.COMPRESSED.value if number == 40 else 0
        store.append(draft(b"%d" % number, sys_flag=sys_flag))
    with pytest.raises(DamagedStore, match="1 damaged"):
        store_rows(tmp_path, topic="TopicA")
    found = bodies(tmp_path, topic="TopicA", onDamage="skip")
    assert found == [b"%d" % number for number in range(100) if number != 40]


def test_a_queue_that_cannot_be_read_is_damage(
    tmp_path: Path, store: MessageStore, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        store.append(draft())
        store.append(draft(b"fine", queue_id=1))
    with (tmp_path / "consumequeue" / "TopicA" / "0" / f"{0:020d}").open("r+b") as entries:
        entries.write((5000).to_bytes(8))
    with pytest.raises(DamagedStore, match="queue 0 of topic 'TopicA' cannot be read"):
        store_rows(tmp_path, topic="TopicA")
    assert bodies(tmp_path, topic="TopicA", onDamage="skip") == [b"fine"] * 20
    assert "not read: queue 0 of topic 'TopicA'" in caplog.text
    assert len(bodies(tmp_path, topic="TopicA", include="all")) == 40


def test_a_queue_that_ends_too_early_is_read_from_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as small:
        for number in range(150):
            small.append(draft(b"%d" % number))
    path = max((tmp_path / "consumequeue" / "TopicA" / "0").iterdir())
    content = bytearray(path.read_bytes())
    content[0] ^= 0x80
    path.write_bytes(content)
    assert len(bodies(tmp_path, topic="TopicA")) == 150
    assert "not read: none" in caplog.text


def test_a_file_that_expired_meanwhile_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path) as small:
        for number in range(100):
            small.append(draft(b"%d" % number))
    batches = store_batches(tmp_path, topic="TopicA", splitSize="1")
    next(batches)
    (tmp_path / "commitlog" / f"{4096:020d}").unlink()
    with pytest.raises(FileGone):
        list(batches)


# What cannot be read


def test_a_topic_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, store: MessageStore
) -> None:
    store.append(draft())
    store.append(draft(topic="%RETRY%group"))
    with raises(BadOption, name="topic"):
        store_rows(tmp_path, topic="Other")
    with raises(BadOption, name="topics"):
        store_rows(tmp_path, topics="TopicA,Other")
    assert store_rows(tmp_path, topic="Other", include="all") == []


def test_a_store_below_the_directory_is_found(tmp_path: Path) -> None:
    with opened(tmp_path / "broker-a") as small:
        small.append(draft(b"found"))
    assert bodies(tmp_path, topic="TopicA") == [b"found"]
    assert bodies(Path(f"file:{tmp_path}"), topic="TopicA") == [b"found"]
    with opened(tmp_path / "broker-b") as small:
        small.append(draft())
    with pytest.raises(SeveralStores):
        store_rows(tmp_path, topic="TopicA")


def test_what_is_no_store_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadStoreDirectory) as caught:
        store_rows(tmp_path / "nowhere", topic="TopicA")
    assert "\n" not in str(caught.value)
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(RoquetError):
        store_rows(tmp_path / "file", topic="TopicA")
    (tmp_path / "commitlog").write_text("no directory")
    with raises(BadOption, name="path"):
        store_rows(tmp_path, topic="TopicA")


def test_an_address_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with raises(BadOption, name="path"):
        list(store_batches(Path("x"), topic="TopicA", path="hdfs://host/store"))


def test_a_task_on_a_machine_without_the_store_says_so(tmp_path: Path, store: MessageStore) -> None:
    store.append(draft())
    source = RocketmqStoreDataSource({"path": str(tmp_path), "topic": "TopicA"})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    (tmp_path / "commitlog").rename(tmp_path / "elsewhere")
    try:
        with raises(NotShared, name="path", path=tmp_path / "commitlog"):
            list(reader.read(partition))
    finally:
        (tmp_path / "elsewhere").rename(tmp_path / "commitlog")
