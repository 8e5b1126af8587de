"""The blocking twin: the same methods, from any thread, and never in a fork."""

import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest

from roquet import Message, Producer
from roquet.client.config import ProducerConfig, ProducerOptions
from roquet.client.errors import NotOpen, SendFailed, UsedAfterFork
from tests.support.our_cluster import OurCluster
from tests.support.raising import raises

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurCluster]:
    with OurCluster(tmp_path_factory.mktemp("roquet")) as cluster:
        yield cluster


def test_options_are_all_that_can_be_set_with_the_same_types() -> None:
    settings = {each.name: each.type for each in fields(ProducerConfig)}
    options = inspect.get_annotations(ProducerOptions)
    assert settings == {"name_server": str | None, "group": str} | options


@pytest.mark.slow
def test_messages_are_sent_in_every_way(cluster: OurCluster) -> None:
    with Producer(cluster.name_server, "shop") as producer:
        assert producer.send(Message(TOPIC, b"x"), order_key=0).queue_offset == 0
        assert len(producer.send_batch([Message(TOPIC, b"x")] * 3)) == 3
        assert len(producer.send_many([Message(TOPIC, b"x")] * 3)) == 3
        producer.send_oneway(Message(TOPIC, b"x"))
        assert len(producer.queues(TOPIC)) == 4
        assert producer.statistics().stored_count == 7


def test_many_threads_share_a_producer(cluster: OurCluster) -> None:
    with Producer(cluster.name_server, "shop") as producer, ThreadPoolExecutor(8) as pool:
        sends = [pool.submit(producer.send, Message(TOPIC, b"x")) for _ in range(100)]
        ids = {send.result().message_id for send in sends}
    assert len(ids) == 100


@pytest.mark.slow
def test_a_producer_is_used_between_open_and_close(cluster: OurCluster) -> None:
    producer = Producer(cluster.name_server, "shop")
    with raises(NotOpen, was_open=False):
        producer.send(Message(TOPIC, b"x"))
    producer.close()
    producer.open()
    producer.open()
    producer.send(Message(TOPIC, b"x"))
    producer.close()
    producer.close()
    with raises(NotOpen, was_open=True):
        producer.send(Message(TOPIC, b"x"))
    assert not [each for each in threading.enumerate() if each.name == "producer"]


def test_an_error_reaches_the_thread_that_waits() -> None:
    with (
        Producer("127.0.0.1:1", "shop") as producer,
        pytest.raises(SendFailed, match=r"127\.0\.0\.1:1"),
    ):
        producer.send(Message(TOPIC, b"x"))


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_learns_that_it_needs_a_producer_of_its_own(cluster: OurCluster) -> None:
    with Producer(cluster.name_server, "shop") as producer:
        producer.send(Message(TOPIC, b"x"))
        child = os.fork()
        if child == 0:
            # Whatever happens, nothing of pytest may run here.
            try:
                signal.alarm(10)
                producer.send(Message(TOPIC, b"x"))
            except UsedAfterFork:
                producer.close()
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        producer.send(Message(TOPIC, b"x"))


def test_importing_the_package_loads_no_client() -> None:
    code = "import roquet, sys; print('roquet.client' in sys.modules, roquet.Message.__name__)"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert output.stdout.split() == [b"False", b"Message"]


@pytest.mark.slow
def test_a_program_that_forgets_to_close_can_still_end(cluster: OurCluster, tmp_path: Path) -> None:
    program = tmp_path / "forgetful.py"
    program.write_text(
        "from roquet import Message, Producer\n"
        f"producer = Producer({cluster.name_server!r}, 'shop')\n"
        "producer.open()\n"
        "print(producer.send(Message('orders', b'x')).queue.topic)\n"
    )
    output = subprocess.run([sys.executable, program], check=True, capture_output=True, timeout=30)
    assert output.stdout.split() == [b"orders"]
