"""Topics as tables: the columns that are wanted, of exactly the messages that are there."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from roquet import Message, Producer, TopicReader
from roquet.client.errors import BadArgument
from roquet.client.group.subscriptions import subscription_of
from roquet.client.reader import frames
from roquet.testing.blocking import BlockingCluster
from tests.support.raising import raises

COUNT = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: BlockingCluster) -> str:
    topic = cluster.new_topic()
    messages = [
        Message(topic, b"%d" % number, f"tag-{number % 3}", (), {"price": str(number)})
        for number in range(COUNT)
    ]
    with Producer(cluster.name_server, "senders") as producer:
        producer.send_many(messages)
    return topic


@pytest.fixture(scope="module")
def reader(cluster: BlockingCluster) -> Iterator[TopicReader]:
    with TopicReader(cluster.name_server) as reader:
        yield reader


def test_a_topic_is_a_table_of_all_columns(reader: TopicReader, topic: str) -> None:
    table = reader.to_arrow(topic)
    assert sorted(map(int, table["body"].to_pylist())) == [*range(COUNT)]
    assert set(table["topic"].to_pylist()) == {topic}
    prices = [dict(each)["price"] for each in table["properties"].to_pylist()]
    assert prices == [body.decode() for body in table["body"].to_pylist()]


def test_columns_are_those_that_are_named_in_their_order(reader: TopicReader, topic: str) -> None:
    chosen = subscription_of(topic, "tag-1")
    table = reader.to_arrow(topic, ["tags", "queueOffset"], subscription=chosen)
    assert table.column_names == ["tags", "queueOffset"]
    assert table["tags"].to_pylist() == ["tag-1"] * (COUNT // 3)


def test_an_empty_topic_is_an_empty_table(cluster: BlockingCluster, reader: TopicReader) -> None:
    table = reader.to_arrow(cluster.new_topic())
    assert table.num_rows == 0
    assert "body" in table.column_names


def test_a_namespace_is_not_in_the_names_of_topics(cluster: BlockingCluster) -> None:
    with Producer(cluster.name_server, "senders", namespace="ns") as producer:
        producer.send(Message("spaced", b"1"))
    with TopicReader(cluster.name_server, namespace="ns") as reader:
        assert reader.to_arrow("spaced", ["topic"])["topic"].to_pylist() == ["spaced"]


def test_data_frames_of_pandas_and_polars_have_the_same_rows(
    cluster: BlockingCluster, reader: TopicReader, topic: str
) -> None:
    in_an_hour = cluster.clock.now() + timedelta(hours=1)
    assert len(reader.to_pandas(topic, ["tags"])) == COUNT
    assert len(reader.to_pandas(topic, ["tags"], since=in_an_hour)) == 0
    frame = reader.to_polars(topic)
    assert sorted(frame["tags"].unique()) == ["tag-0", "tag-1", "tag-2"]
    assert frame.height == COUNT


@pytest.mark.parametrize("columns", [["bodies"], []])
def test_columns_that_messages_lack_are_refused(
    reader: TopicReader, topic: str, columns: list[str]
) -> None:
    with raises(BadArgument, argument="columns"):
        reader.to_arrow(topic, columns)


def test_without_the_libraries_the_extra_is_named(
    reader: TopicReader, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install roquet\[sql\]"):
        reader.to_arrow(topic)
