"""A store directory goes from our hands into those of a real Apache broker, back, and back again.

Ours is closed, or killed; the broker is stopped, or killed. Whoever comes next finds every
message, every key and every offset, and goes on where the other ended.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from roquet.protocol.messages.message_id import parse_offset_id
from tests.support.apache import ApacheBroker, ApacheCluster
from tests.support.jars import ApacheVersion
from tests.support.java_client import JavaProducer, JavaPullConsumer, Outgoing, Queue, Received
from tests.support.java_driver import JavaDriver
from tests.support.shared_directory import (
    APACHE_SETTINGS,
    COMMITTED_OFFSET,
    GROUP,
    QUEUE_COUNT,
    TOPIC,
    SharedDirectory,
    Written,
)

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]

OURS = 200
THEIRS = 40


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_a_store_changes_hands(
    apache: ApacheCluster,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    new_name: NewName,
    tmp_path: Path,
    is_killed: bool,
) -> None:
    java = java_drivers(apache.version)
    names = apache.name_server.address
    broker = ApacheBroker(
        apache.version,
        tmp_path,
        names,
        broker_name=new_name("heir"),
        configuration=APACHE_SETTINGS,
    )
    directory = SharedDirectory(broker.store_directory, broker.port)
    directory.make_settings()
    with directory.opened(is_killed=is_killed) as store:
        directory.write(store, OURS)
    with broker:
        assert_java_finds_all(java, names, broker, directory)
        write_by_java(java, names, broker, directory, new_name("producers"))
        broker.kill() if is_killed else broker.stop()
        with directory.opened(is_killed=is_killed) as store:
            assert directory.wrong_with(store) == []
            directory.write(store, OURS)
        broker.start()
        assert_java_finds_all(java, names, broker, directory)
    with directory.opened(is_killed=False) as store:
        assert directory.wrong_with(store) == []


def assert_java_finds_all(
    java: JavaDriver, names: str, broker: ApacheBroker, directory: SharedDirectory
) -> None:
    # New clients each time: old ones would try their dead connections first.
    with JavaPullConsumer(java, names, GROUP) as consumer:
        for queue_id in range(QUEUE_COUNT):
            queue = Queue(TOPIC, broker.broker_name, queue_id)
            count = directory.count(queue_id)
            assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, count)
            assert consumer.consumer_offset(queue) == COMMITTED_OFFSET
            received = pull_all(consumer, queue)
            written = [each for each in directory.written if each.queue_id == queue_id]
            assert [described(each) for each in received] == [
                described_by_writer(each) for each in written
            ]
            assert all(
                each.properties.items() <= message.properties.items()
                for each, message in zip(written, received, strict=True)
            )
            assert consumer.earliest_store_time(queue) == received[0].store_timestamp
    with JavaProducer(java, names, "lookers") as producer:
        # Recovering from a crash, Apache files some messages twice.
        assert {
            each.key: {message.body for message in producer.query_by_key(TOPIC, each.key)}
            for each in directory.written
        } == {each.key: {each.body} for each in directory.written}
        for each in directory.written[::50]:
            message = producer.view(TOPIC, each.properties["UNIQ_KEY"])
            assert message.body == each.body
            assert message.offset_id is not None
            assert producer.view(TOPIC, message.offset_id).queue_offset == each.queue_offset


def pull_all(consumer: JavaPullConsumer, queue: Queue) -> list[Received]:
    messages: list[Received] = []
    end = consumer.max_offset(queue)
    while len(messages) < end:
        messages += consumer.pull(queue, len(messages)).messages
    return messages


def described(message: Received) -> tuple[int, bytes, int]:
    return message.queue_offset, message.body, message.physical_offset


def described_by_writer(written: Written) -> tuple[int, bytes, int]:
    return written.queue_offset, written.body, written.physical_offset


def write_by_java(
    java: JavaDriver, names: str, broker: ApacheBroker, directory: SharedDirectory, group: str
) -> None:
    with JavaProducer(java, names, group) as producer:
        for number in range(THEIRS):
            queue = Queue(TOPIC, broker.broker_name, number % QUEUE_COUNT)
            properties = {"KEYS": f"their-key-{number}", "TAGS": "green", "a": "b"}
            body = b"theirs %d " % number * (number + 1)
            sent = producer.send(Outgoing(TOPIC, body, properties=properties), queue)
            assert sent.queue_offset == directory.count(queue.queue_id)
            assert sent.offset_id is not None
            directory.written.append(
                Written(
                    queue.queue_id,
                    sent.queue_offset,
                    body,
                    properties | {"UNIQ_KEY": sent.message_id},
                    parse_offset_id(sent.offset_id).physical_offset,
                )
            )
