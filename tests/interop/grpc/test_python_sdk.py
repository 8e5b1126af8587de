"""The official Python SDK of 5.x at our endpoint, each story in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roquet import Admin, PullConsumer, StartFrom, TopicSettings
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer
from tests.support.our_cluster import OurCluster

pytestmark = pytest.mark.xdist_group("python-sdk")

PROGRAM = Path(__file__).with_name("python_sdk.py")
TIMEOUT_S = 120.0
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurCluster]:
    directory = tmp_path_factory.mktemp("grpc")
    with OurCluster(directory, "--grpc", "127.0.0.1:0") as cluster:
        with Admin(cluster.name_server) as admin:
            for kind in TYPES:
                settings = TopicSettings(attributes={"message.type": kind})
                admin.create_topic(kind.lower(), settings)
        with BlockingPeer(cluster.broker) as peer:
            for group in (
                GroupConfig(group_name="ordered", consume_message_orderly=True),
                GroupConfig(group_name="failing", retry_max_times=1),
            ):
                code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
                peer.call(code, body=write_body(group))
        yield cluster


def told(cluster: OurCluster, story: str) -> Any:
    endpoint = cluster.ready_line.partition("grpc=")[2]
    done = subprocess.run(
        [sys.executable, PROGRAM, endpoint, story],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={"HOME": str(cluster.directory)},
    )
    assert done.returncode == 0, done.stderr[-3000:] + cluster.log_tail()
    return json.loads(done.stdout.splitlines()[-1])


def test_a_simple_consumer_gets_what_has_its_tag(cluster: OurCluster) -> None:
    assert told(cluster, "simple_consumer") == [
        [f"body {index}", "odd", f"key-{index}", "Rome"] for index in (1, 3, 5, 7, 9)
    ]


def test_a_push_consumer_gets_again_what_failed(cluster: OurCluster) -> None:
    assert told(cluster, "push_consumer") == [
        ["push 0", 1],
        ["push 1", 1],
        ["push 2", 1],
        ["push 3", 1],
        ["push 3", 2],
        ["push 4", 1],
    ]


def test_a_message_group_comes_in_order(cluster: OurCluster) -> None:
    assert told(cluster, "fifo") == [str(index) for index in range(10)]


def test_a_delayed_message_comes_at_its_time(cluster: OurCluster) -> None:
    assert told(cluster, "delay") == [["later"], True]


@pytest.mark.full("a minute: the broker asks about transactions every half minute")
def test_transactions_end_as_their_producer_says(cluster: OurCluster) -> None:
    assert told(cluster, "transactions") == ["None", "commit"]


@pytest.mark.full("retries take seconds; a unit test has the same without an SDK")
def test_what_fails_too_often_is_with_the_dead_letters(cluster: OurCluster) -> None:
    with Admin(cluster.name_server) as admin:
        settings = TopicSettings(read_queue_count=1, write_queue_count=1)
        admin.create_topic("%DLQ%failing", settings)
    assert told(cluster, "dead_letters") == [1, 2]


def test_both_worlds_read_each_other(cluster: OurCluster) -> None:
    told(cluster, "sent")
    with PullConsumer(cluster.name_server, "remoting", start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe("normal")
        while not (found := [each for each in consumer.poll() if each.body == b"by gRPC"]):
            pass
    assert (found[0].tags, found[0].keys) == ("new", ("k1",))
