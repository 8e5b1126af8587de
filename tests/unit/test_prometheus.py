"""What Prometheus scrapes of a client."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from roquet import (
    AsyncProducer,
    AsyncPushConsumer,
    BadArgument,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    StartFrom,
)
from roquet.prometheus import ClientCollector
from roquet.testing import BlockingCluster
from tests.support.eventually import eventually, wait_until
from tests.support.raising import raises

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        yield cluster


def scraped(collector: ClientCollector) -> dict[tuple[str, ...], float]:
    """Values by the name of a sample and its labels, which come in the order of their names."""
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_producer_has_its_counts(cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    with Producer(cluster.name_server, "shop") as producer:
        collector = ClientCollector({"shop": producer})
        producer.send_many([Message(topic, b"12345") for _ in range(3)])
        found = scraped(collector)
    assert found["rocketmq_producer_messages_total", "shop", "stored"] == 3
    assert found["rocketmq_producer_messages_total", "shop", "failed"] == 0
    assert found["rocketmq_producer_stored_bytes_total", "shop"] == 15
    assert found["rocketmq_producer_in_flight", "shop"] == 0


def test_a_consumer_has_its_counts_and_its_lag(cluster: BlockingCluster) -> None:
    topic = cluster.new_topic(queues=1)
    got: list[ReceivedMessage] = []
    reading = PushConsumer(cluster.name_server, "counted", got.append, start_from=StartFrom.FIRST)
    reading.subscribe(topic)
    with Producer(cluster.name_server, "shop") as producer, reading:
        producer.send_many([Message(topic, b"x") for _ in range(3)])
        collector = ClientCollector({"counted": reading})
        done = ("rocketmq_consumer_messages_total", "counted", "done", topic)
        wait_until(lambda: scraped(collector).get(done) == 3)
        found = scraped(collector)
    assert found["rocketmq_consumer_pulled_total", "counted", topic] == 3
    assert found["rocketmq_consumer_listener_calls_total", "counted", topic] == 3
    assert found["rocketmq_consumer_lag", "broker-a", "counted", "0", topic] == 0


async def test_an_asyncio_client_is_scraped_from_any_thread(cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    got: list[ReceivedMessage] = []

    async def bill(message: ReceivedMessage) -> None:
        got.append(message)

    reading = AsyncPushConsumer(
        cluster.name_server, "async-counted", bill, start_from=StartFrom.FIRST
    )
    reading.subscribe(topic)
    async with AsyncProducer(cluster.name_server, "shop") as producer, reading:
        await producer.send(Message(topic, b"x"))
        collector = ClientCollector({"shop": producer, "async-counted": reading})
        await eventually(lambda: got)
        elsewhere = await asyncio.to_thread(scraped, collector)
        here = scraped(collector)
    stored = ("rocketmq_producer_messages_total", "shop", "stored")
    assert elsewhere[stored] == here[stored] == 1
    assert here["rocketmq_consumer_messages_total", "async-counted", "done", topic] == 1


def test_what_has_no_statistics_is_refused() -> None:
    with raises(BadArgument, argument="clients"):
        ClientCollector({"shop": "shop"})  # type: ignore[dict-item]
