"""The official Python SDK of 5.x at the endpoint of our broker and at our proxy.

Each story is a process of its own.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roquet import Admin, PullConsumer, StartFrom, TopicSettings
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import RequestCode
from tests.support.apache import ApacheBroker
from tests.support.blocking_peer import BlockingPeer
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurCluster, OurNameServer, OurProxy

pytestmark = pytest.mark.xdist_group("python-sdk")

PROGRAM = Path(__file__).with_name("python_sdk.py")
TIMEOUT_S = 120.0
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


class Place(NamedTuple):
    """Where the SDK connects to, and what it reaches there."""

    endpoint: str
    name_server: str
    broker: str
    directory: Path
    log_tail: Callable[[], str]
    is_apache: bool


APACHE = pytest.param("5.5.0", marks=pytest.mark.full("a JVM, which is slow to redeliver"))


@pytest.fixture(scope="module", params=["endpoint", "proxy", APACHE])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """The endpoint of our broker; our proxy in front of it; our proxy in front of Apache's."""
    directory = tmp_path_factory.mktemp("grpc")
    with ExitStack() as stack:
        server: OurCluster | ApacheBroker
        if request.param == "5.5.0":
            names = stack.enter_context(OurNameServer(directory / "names"))
            server = stack.enter_context(apache_broker(directory / "broker", names.address))
            name_server, broker = names.address, server.address
        else:
            arguments = ("--grpc", "127.0.0.1:0") if request.param == "endpoint" else ()
            server = stack.enter_context(OurCluster(directory / "cluster", *arguments))
            name_server, broker = server.name_server, server.broker
        make_topics_and_groups(name_server, broker)
        if isinstance(server, OurCluster) and request.param == "endpoint":
            endpoint = server.ready_line.partition("grpc=")[2]
        else:
            proxy = stack.enter_context(OurProxy(directory / "proxy", name_server))
            endpoint = proxy.endpoint
        is_apache = isinstance(server, ApacheBroker)
        yield Place(endpoint, name_server, broker, directory, server.log_tail, is_apache)


def apache_broker(directory: Path, name_server: str) -> ApacheBroker:
    configuration = {"timerWheelEnable": "true"}
    version = ApacheVersion.V5_5_0
    return ApacheBroker(version, directory, name_server, configuration=configuration)


def make_topics_and_groups(name_server: str, broker: str) -> None:
    with Admin(name_server) as admin:
        for kind in TYPES:
            admin.create_topic(kind.lower(), TopicSettings(attributes={"message.type": kind}))
    with BlockingPeer(broker) as peer:
        for group in (
            GroupConfig(group_name="ordered", consume_message_orderly=True),
            GroupConfig(group_name="failing", retry_max_times=1),
        ):
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            peer.call(code, body=write_body(group))


def told(place: Place, story: str) -> Any:
    done = subprocess.run(
        [sys.executable, PROGRAM, place.endpoint, story],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={"HOME": str(place.directory)},
    )
    assert done.returncode == 0, done.stderr[-3000:] + place.log_tail()
    return json.loads(done.stdout.splitlines()[-1])


def test_a_simple_consumer_gets_what_has_its_tag(place: Place) -> None:
    assert told(place, "simple_consumer") == [
        [f"body {index}", "odd", f"key-{index}", "Rome"] for index in (1, 3, 5, 7, 9)
    ]


def test_a_push_consumer_gets_again_what_failed(place: Place) -> None:
    assert told(place, "push_consumer") == [
        ["push 0", 1],
        ["push 1", 1],
        ["push 2", 1],
        ["push 3", 1],
        ["push 3", 2],
        ["push 4", 1],
    ]


def test_a_message_group_comes_in_order(place: Place) -> None:
    found = told(place, "fifo")
    if place.is_apache:
        # Of several pops at once it may hand out a message twice, but in order.
        found = list(dict.fromkeys(found))
    assert found == [str(index) for index in range(10)]


def test_a_delayed_message_comes_at_its_time(place: Place) -> None:
    assert told(place, "delay") == [["later"], True]


@pytest.mark.full("a minute: the broker asks about transactions every half minute")
def test_transactions_end_as_their_producer_says(place: Place) -> None:
    found = told(place, "transactions")
    assert (list(dict.fromkeys(found)) if place.is_apache else found) == ["None", "commit"]


@pytest.mark.full("retries take seconds; a unit test has the same without an SDK")
def test_what_fails_too_often_is_with_the_dead_letters(place: Place) -> None:
    with Admin(place.name_server) as admin:
        settings = TopicSettings(read_queue_count=1, write_queue_count=1)
        admin.create_topic("%DLQ%failing", settings)
    assert told(place, "dead_letters") == [1, 2]


def test_both_worlds_read_each_other(place: Place) -> None:
    told(place, "sent")
    name_server = place.name_server
    with PullConsumer(name_server, "remoting", start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe("normal")
        while not (found := [each for each in consumer.poll() if each.body == b"by gRPC"]):
            pass
    assert (found[0].tags, found[0].keys) == ("new", ("k1",))
