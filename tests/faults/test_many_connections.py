"""Thousands of peers that say nothing: they cost little, and those who work do not notice."""

import resource
import socket
import statistics
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.store.checkpoint import load_checkpoint
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import send_common
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker
from tests.support.process_memory import resident_size
from tests.support.topics import create_topic

pytestmark = pytest.mark.xdist_group("chaos")

CONNECTION_COUNT = 10_000
CONNECTION_SIZE_MAX = 16 * 1024
FEW_FILES = 300
# Files of the test itself, and of the broker, which keeps a quarter of all free for more.
OTHER_FILE_COUNT = 500
TOPIC = "busy"
# Closed with a reset: ten thousand ports in TIME_WAIT would be missing elsewhere.
LINGER_NOT = struct.pack("ii", 1, 0)


@pytest.fixture
def file_limit() -> Iterator[int]:
    """As many open files as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def idle_connections(address: str, count: int) -> Iterator[None]:
    host, _, port = address.rpartition(":")
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.create_connection((host, int(port)), timeout=20)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            connections.append(connection)
        yield
    finally:
        for connection in connections:
            connection.close()


def send_time_s(broker: OurBroker) -> float:
    """How long a send takes, in the middle of many."""
    times_s = []
    with BlockingPeer(broker.address) as peer:
        for _ in range(500):
            started_s = time.perf_counter()
            send_common(peer, TOPIC, bytes(128))
            times_s.append(time.perf_counter() - started_s)
    return statistics.median(times_s)


def test_idle_connections_cost_little_and_do_not_slow_others(
    tmp_path: Path, file_limit: int
) -> None:
    count = min(CONNECTION_COUNT, 3 * file_limit // 4 - OTHER_FILE_COUNT)
    # Nobody is refused for coming too fast: this is about those that are in.
    configuration = {"maxAcceptsPerSecond": str(10 * CONNECTION_COUNT)}
    with OurBroker(tmp_path, configuration=configuration) as broker:
        create_topic(broker.address, TOPIC)
        time_alone_s = send_time_s(broker)
        size_alone = resident_size(broker.process_id)
        with idle_connections(broker.address, count):
            # The last one is in when a request behind it is answered.
            time_crowded_s = send_time_s(broker)
            size_crowded = resident_size(broker.process_id)
        time_alone_s = max(time_alone_s, send_time_s(broker))
    assert (size_crowded - size_alone) / count < CONNECTION_SIZE_MAX
    # Machines that do other work are slow in bursts; a crowd that matters costs milliseconds.
    assert time_crowded_s < 2 * time_alone_s + 0.001


def test_idle_connections_leave_the_store_its_files(tmp_path: Path) -> None:
    # The names of new queues are synced each second.
    configuration = {"flushDiskType": "SYNC_FLUSH", "flushConsumeQueueThoroughInterval": "1000"}
    topics = [TOPIC, *(f"new-{number}" for number in range(10))]
    with OurBroker(tmp_path, configuration=configuration) as broker:
        for topic in topics:
            create_topic(broker.address, topic)
        resource.prlimit(broker.process_id, resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
        with BlockingPeer(broker.address) as peer, idle_connections(broker.address, FEW_FILES):
            for topic in topics:
                send_common(peer, topic, b"new")
            stored_ms = int(time.time() * 1000)
            send_common(peer, TOPIC, b"last")
            wait_until(lambda: queues_synced_at(broker) >= stored_ms)
            send_common(peer, TOPIC, b"behind it")


def queues_synced_at(broker: OurBroker) -> int:
    return load_checkpoint(SystemDisk(), broker.store_directory / "checkpoint").queue_timestamp
