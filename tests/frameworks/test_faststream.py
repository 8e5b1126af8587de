"""A FastStream application in a process, against real servers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet import Message, NoReply, Producer
from roquet.testing import BlockingCluster
from tests.support.eventually import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faststream")]

TOPICS = ("shop-orders", "shop-bills", "shop-prices")


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        for topic in TOPICS:
            cluster.new_topic(topic)
        yield cluster


@pytest.fixture(scope="module")
def application(
    cluster: BlockingCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    log = tmp_path_factory.mktemp("faststream") / "app.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.faststream_shop"],
            env=os.environ | {"NAME_SERVER": cluster.name_server},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    wait_until(lambda: b"FastStream app started" in log.read_bytes() or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    yield log
    process.terminate()
    assert process.wait(30) == 0, log.read_text()


@pytest.fixture
def producer(cluster: BlockingCluster) -> Iterator[Producer]:
    with Producer(cluster.name_server, "tests") as producer:
        yield producer


def test_what_a_handler_returns_is_published(
    cluster: BlockingCluster, application: Path, producer: Producer
) -> None:
    producer.send(Message("shop-orders", b'{"number": 1, "what": "tea"}', tags="new"))
    producer.send(Message("shop-orders", b'{"number": 2, "what": "tea"}', tags="old"))
    producer.send(Message("shop-orders", b'{"number": 3, "what": "cake"}', tags="new"))
    bills = cluster.wait_received("shop-bills", 2)
    assert sorted(each.body for each in bills) == [b"1: tea", b"3: cake"]
    assert {each.tags for each in bills} == {"bill"}
    assert {each.properties["contentType"] for each in bills} == {"text/plain"}


def test_a_request_of_any_client_is_answered(application: Path, producer: Producer) -> None:
    try:
        reply = producer.request(Message("shop-prices", b"coffee"), timeout_s=20)
    except NoReply as error:
        error.add_note(application.read_text())
        raise
    assert reply.body == b"6"


def test_a_message_whose_handler_raises_is_retried_and_at_last_a_dead_letter(
    cluster: BlockingCluster, application: Path, producer: Producer
) -> None:
    producer.send(Message("shop-orders", b'{"number": 4, "what": "poison"}', tags="new"))
    cluster.consumed("billing", skip_delays=True, allow_dead_letters=True)
    [dead] = cluster.received("%DLQ%billing")
    assert dead.body == b'{"number": 4, "what": "poison"}'
    assert dead.dlq_reason == ("poison", "ValueError", 3)
