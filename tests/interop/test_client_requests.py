"""Requests of ours to Java repliers and of Java clients to us, through three kinds of brokers."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from roquet import Message, Producer, QueueRef, ReceivedMessage, reply_to
from roquet.client.errors import NoReply
from roquet.client.received import received_messages
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.messages import PullMessageHeader
from tests.support.blocking_peer import BlockingPeer
from tests.support.client_servers import ClientServer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import JavaProducer, JavaPushConsumer, Outgoing, Subscription
from tests.support.java_driver import JavaDriver
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]

TIMEOUT_S = 20.0


@pytest.fixture
def java(server: ClientServer, java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    return java_drivers(server.java_version)


@pytest.fixture
def topic(server: ClientServer, new_name: NewName) -> str:
    topic = new_name("topic")
    create_topic(server.broker, topic)
    return topic


@pytest.fixture
def producer(server: ClientServer, new_name: NewName) -> Iterator[Producer]:
    with Producer(server.name_server, new_name("producers")) as producer:
        yield producer


@pytest.fixture
def java_producer(
    java: JavaDriver, server: ClientServer, new_name: NewName
) -> Iterator[JavaProducer]:
    with JavaProducer(java, server.name_server, new_name("producers")) as started:
        yield started


def test_a_java_client_replies_to_us(
    server: ClientServer,
    java: JavaDriver,
    producer: Producer,
    java_producer: JavaProducer,
    topic: str,
    new_name: NewName,
) -> None:
    with (
        JavaPushConsumer(
            java,
            server.name_server,
            new_name("repliers"),
            Subscription(topic),
            replier=java_producer,
        ),
        ThreadPoolExecutor(4) as pool,
    ):
        requests = [b"stressed", *(b"request %d" % number for number in range(6)), b"0ab" * 9000]
        replies = pool.map(
            lambda body: producer.request(Message(topic, body), timeout_s=TIMEOUT_S), requests
        )
        assert [reply.body for reply in replies] == [body[::-1] for body in requests]


def test_we_reply_to_a_java_client(
    server: ClientServer, producer: Producer, java_producer: JavaProducer, topic: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(java_producer.request, Outgoing(topic, b"stressed"))
        queue = producer.queues(topic)[0]
        wait_until(lambda: pulled(server.broker, queue))
        (request,) = pulled(server.broker, queue)
        producer.send(reply_to(request, request.body[::-1], tags="ok"), timeout_s=TIMEOUT_S)
        reply = asking.result(TIMEOUT_S)
    assert (reply.body, reply.properties["TAGS"]) == (b"desserts", "ok")


def test_a_request_without_a_replier(producer: Producer, topic: str) -> None:
    with pytest.raises(NoReply):
        producer.request(Message(topic, b"x"), timeout_s=1.0)


def pulled(broker: str, queue: QueueRef) -> list[ReceivedMessage]:
    """What is in a queue now."""
    header = PullMessageHeader(
        consumer_group="anybody",
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    with BlockingPeer(broker) as peer:
        reply = peer.call(RequestCode.PULL_MESSAGE, header)
    return received_messages(reply.body, queue)
