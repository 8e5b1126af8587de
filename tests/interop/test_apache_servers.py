"""The test bed itself: real servers that stop, die and come back on the same directory."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.apache import HOST, ApacheBroker, ApacheCluster, ApacheNameServer
from tests.support.jars import ApacheVersion, JvmNotStarted
from tests.support.java_client import JavaProducer, JavaPullConsumer, Outgoing, Queue
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]


def test_a_broker_comes_back_with_its_messages(
    apache: ApacheCluster,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    new_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    java = java_drivers(apache.version)
    names = apache.name_server.address
    queue = Queue(new_name("topic"), "restarting", 0)

    def send(body: bytes) -> None:
        # A new client each time: an old one would try its dead connection first.
        with JavaProducer(java, names, new_name("producers")) as producer:
            producer.send(Outgoing(queue.topic, body), queue)

    with ApacheBroker(apache.version, tmp_path, names, broker_name="restarting") as broker:
        crash_mark = broker.store_directory / "abort"
        topic = ("-t", queue.topic, "-r", "1", "-w", "1")
        java.mqadmin("updateTopic", "-n", names, "-b", broker.address, *topic)
        send(b"before the kill")
        broker.kill()
        assert crash_mark.exists()
        broker.start()
        send(b"after the kill")
        with JavaPullConsumer(java, names, new_name("group")) as consumer:
            assert consumer.queues(queue.topic) == [queue]
            consumer.pull_or_wait(queue, 1)
            bodies = [message.body for message in consumer.pull(queue, 0).messages]
        broker.stop()
        assert not crash_mark.exists()
    assert bodies == [b"before the kill", b"after the kill"]


@pytest.mark.parametrize("version", ApacheVersion)
def test_a_server_that_cannot_start_shows_its_log(version: ApacheVersion, tmp_path: Path) -> None:
    server = ApacheNameServer(version, tmp_path)
    with (
        socket.create_server((HOST, server.port)),
        pytest.raises(JvmNotStarted, match="Address already in use"),
    ):
        server.start()
