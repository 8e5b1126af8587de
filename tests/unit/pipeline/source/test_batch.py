"""A batch read at a real broker, without Spark: what it asks for, and who is asked again."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from roquet import Message, Producer
from roquet.client.errors import NoNameServer, RequestRefused, TopicNotFound
from roquet.pipeline.data_sources import RocketmqDataSource
from roquet.pipeline.source.batch import BatchReader
from roquet.testing.blocking import BlockingCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as running:
        yield running


def batch(cluster: BlockingCluster, topic: str, **more: str) -> BatchReader:
    source = RocketmqDataSource({"nameServer": cluster.name_server, "topic": topic} | more)
    reader = source.reader(source.schema())
    assert isinstance(reader, BatchReader)
    return reader


def bodies(reader: BatchReader) -> list[bytes]:
    found: list[pa.RecordBatch] = [
        rows for each in reader.partitions() for rows in reader.read(each)
    ]
    return sorted(body for rows in found for body in rows.column("body").to_pylist())


def send_priced(cluster: BlockingCluster, topic: str) -> None:
    with Producer(cluster.name_server, "senders") as producer:
        for price in range(10):
            properties = {"price": str(price), "city": "Rome" if price % 2 else "Bonn"}
            producer.send(Message(topic, b"%d" % price, properties=properties))
        producer.send(Message(topic, b"without a price"))


def test_messages_are_chosen_by_an_expression_over_their_properties(
    cluster: BlockingCluster,
) -> None:
    topic = cluster.new_topic(queues=2)
    send_priced(cluster, topic)
    found = batch(cluster, topic, sqlExpression="price > 3 AND city = 'Rome'")
    assert bodies(found) == [b"5", b"7", b"9"]


def test_a_broker_that_allows_no_expressions_says_so() -> None:
    with BlockingCluster(settings={"enablePropertyFilter": "false"}) as cluster:
        topic = cluster.new_topic(queues=1)
        send_priced(cluster, topic)
        with pytest.raises(RequestRefused, match="enablePropertyFilter"):
            bodies(batch(cluster, topic, sqlExpression="price > 3"))


def test_a_topic_without_a_broker_is_reported_at_once(cluster: BlockingCluster) -> None:
    with pytest.raises(TopicNotFound):
        batch(cluster, "misspelt").partitions()


def test_a_name_server_that_is_away_is_asked_again_and_not_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with BlockingCluster() as cluster:
        reader = batch(cluster, cluster.new_topic(queues=1), retryTimeout="200ms")
        cluster.stop_name_server()
        with pytest.raises(NoNameServer):
            reader.partitions()
    assert "retrying" in caplog.text
