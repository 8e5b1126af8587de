"""Which messages a job is about, and how that is kept the same while more come."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from roquet import Message, Producer
from roquet.client.errors import ClientError
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.lake.files import MissingRange, in_hours, published_path, topic_of
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.selection import (
    Selection,
    ends_text,
    pinned,
    read_ends,
    tags_in,
)
from roquet.testing.blocking import BlockingCluster
from tests.support.lake_pieces import QUEUE, staged
from tests.support.raising import raises

FIRST, SECOND = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)

HOUR_MS = 3_600_000
PATHS = [f"topic=a/dt=1970-01-01/hour={hour:02}/a-b-0-0-1.parquet" for hour in range(4)]


@pytest.fixture(scope="module")
def shop() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        cluster.new_topic("orders", queues=2)
        with Producer(cluster.name_server, "sellers") as producer:
            for number in range(5):
                producer.send(Message("orders", b"%d" % number), queue=FIRST)
            cluster.clock.advance(timedelta(hours=2))
            producer.send(Message("orders", b"late"), queue=FIRST)
        yield cluster


@pytest.fixture
def orders(shop: BlockingCluster) -> Selection:
    return Selection(source={"nameServer": shop.name_server, "topic": "orders"})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        lake.publish([staged(lake, 0, 7)])
    return tmp_path / "lake"


def test_a_pinned_selection_ends_where_its_queues_end_now(orders: Selection) -> None:
    assert pinned(orders).ends == {FIRST: 6, SECOND: 0}


def test_it_ends_before_a_time(orders: Selection) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert pinned(replace(orders, end=soon)).ends == {FIRST: 5, SECOND: 0}


def test_ends_that_are_given_stay(orders: Selection) -> None:
    assert pinned(replace(orders, ends={FIRST: 3})).ends == {FIRST: 3}


def test_a_queue_that_is_not_there_is_named(orders: Selection) -> None:
    with pytest.raises(BadOption, match=r"no such queue: .*@7"):
        pinned(replace(orders, ends={FIRST._replace(queue_id=7): 3}))


def test_a_topic_that_is_not_there_is_reported(orders: Selection) -> None:
    with pytest.raises(ClientError, match="nobodys"):
        pinned(replace(orders, source={**orders.source, "topic": "nobodys"}))


def test_a_lake_ends_where_its_files_do(lake: Path) -> None:
    assert pinned(Selection(source={}, lake=lake)).ends == {QUEUE: 7}
    assert pinned(Selection(source={"topicPattern": "o.*"}, lake=lake)).ends == {QUEUE: 7}
    assert pinned(Selection(source={"topicPattern": "x.*"}, lake=lake)).ends == {}


def test_a_topic_that_a_lake_does_not_have_is_named(lake: Path) -> None:
    with raises(BadOption, name="topic"):
        pinned(Selection(source={"topic": "bills"}, lake=lake))


def test_a_directory_that_is_no_lake_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadLake, match="no lake in"):
        pinned(Selection(source={}, lake=tmp_path))


def test_what_is_the_same_has_the_same_id(orders: Selection) -> None:
    same = Selection(source={**orders.source, "nameServer": "elsewhere:9876"}, ends={FIRST: 3})
    assert replace(orders, ends={FIRST: 3}).id == same.id
    others = [
        replace(same, ends={FIRST: 4}),
        replace(same, start="1"),
        replace(same, end="1"),
        replace(same, tags="paid"),
        replace(same, keys=("k",)),
        replace(same, where="queueId = 0"),
        replace(same, lake=Path("lake")),
        replace(same, source={"topic": "bills"}),
    ]
    assert len({same.id, *(each.id for each in others)}) == len(others) + 1


def test_ends_are_written_as_they_are_read() -> None:
    ends = {SECOND: 4, FIRST: 3, QueueRef("bills", "b", 0): 0}
    text = ends_text(ends)
    assert read_ends(text) == ends
    assert text.startswith('{"bills":{"b":{"0":0}},"orders"')


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 3}', '{"a": {"b": {"0": -1}}}'])
def test_ends_that_are_none_are_refused_by_name(text: str) -> None:
    with raises(BadOption, name="endingOffsets"):
        read_ends(text)


def test_tags_are_read_as_consumers_write_them() -> None:
    assert tags_in("new || paid") == ("new", "paid")
    assert tags_in("*") == tags_in(None) == ()
    with raises(BadOption, name="tagExpression"):
        tags_in("||")


def test_tags_that_are_none_are_reported_before_anything_is_read(lake: Path) -> None:
    with raises(BadOption, name="tagExpression"):
        pinned(Selection(source={}, lake=lake, tags="||"))


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "hours"),
    [
        (None, None, [0, 1, 2, 3]),
        (HOUR_MS, None, [1, 2, 3]),
        (HOUR_MS - 1, None, [0, 1, 2, 3]),
        (None, HOUR_MS, [0]),
        (None, HOUR_MS + 1, [0, 1]),
        (HOUR_MS, 2 * HOUR_MS, [1]),
        (9 * HOUR_MS, None, []),
    ],
)
def test_files_of_other_hours_are_left_out(
    start_ms: int | None, end_ms: int | None, hours: list[int]
) -> None:
    assert in_hours(PATHS, start_ms, end_ms) == [PATHS[hour] for hour in hours]


def test_a_file_without_an_hour_in_its_path_is_never_left_out() -> None:
    assert in_hours(["part.parquet"], 1, 2) == ["part.parquet"]


def test_the_topic_of_a_file_is_read_as_it_was_written() -> None:
    queue = QueueRef("%DLQ%g", "b", 0)
    path = published_path(
        MissingRange(QueueRange(queue, 0, 1), 0, QueueIncarnation()), 0, 1, 480_000
    )
    assert topic_of(path) == "%DLQ%g"
