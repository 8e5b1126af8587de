"""Where groups of our consumers begin in queues that are not young, at Apache's brokers and ours.

A queue is old when its first messages are gone; only then a new group may choose where to begin.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roquet import PullConsumer, PushConsumer, QueueRef, ReceivedMessage, StartFrom
from roquet.client.blocking.admin import Admin
from tests.support.apache import ApacheBroker, ApacheNameServer
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import send_common
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
PATIENT_S = 60.0
TOPIC = "old"
EARLY_COUNT = 12
LATE_COUNT = 3
# Seven of the messages below fill a file.
FILES = {"mappedFileSizeCommitLog": "8192"}


class OldQueue(NamedTuple):
    name_server: str
    broker: str
    queue: QueueRef
    min_offset: int
    # Where the messages of this moment begin.
    moment: datetime
    moment_offset: int


def servers(version: ApacheVersion | None, directory: Path, running: ExitStack) -> Any:
    """A broker that is not started yet, and its name server."""
    if version is None:
        names = running.enter_context(OurNameServer(directory / "namesrv"))
        return names, OurBroker(directory / "broker", names.address, configuration=FILES)
    apache_names = running.enter_context(ApacheNameServer(version, directory / "namesrv"))
    return apache_names, ApacheBroker(
        version, directory / "broker", apache_names.address, configuration=FILES
    )


@pytest.fixture(
    scope="module",
    params=[*ApacheVersion, None],
    ids=lambda version: f"server-{version or 'ours'}",
)
def old(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OldQueue]:
    """A queue whose first messages were in a file of the log that is gone."""
    directory = tmp_path_factory.mktemp("old")
    with ExitStack() as running:
        names, broker = servers(request.param, directory, running)
        queue = QueueRef(TOPIC, broker.broker_name, 0)
        with broker:
            create_topic(broker.address, TOPIC)
            with BlockingPeer(broker.address) as peer:
                for _ in range(EARLY_COUNT):
                    send_common(peer, TOPIC, b"early".ljust(1000))
                second = int(time.time()) + 1
                wait_until(lambda: time.time() >= second)
                for _ in range(LATE_COUNT):
                    send_common(peer, TOPIC, b"late".ljust(1000))
            with Admin(names.address) as admin:
                count = EARLY_COUNT + LATE_COUNT
                wait_until(lambda: admin.topic_statistics(TOPIC).message_count == count)
        (broker.store_directory / "commitlog" / f"{0:020d}").unlink()
        running.enter_context(broker)
        with Admin(names.address) as admin:
            (statistics,) = admin.topic_statistics(TOPIC).queues
            min_offset = statistics.min_offset
        assert 0 < min_offset < EARLY_COUNT
        moment = datetime.fromtimestamp(second, UTC)
        yield OldQueue(names.address, broker.address, queue, min_offset, moment, EARLY_COUNT)


def start_of(old: OldQueue, start: str) -> Any:
    return old.moment if start == "MOMENT" else StartFrom[start]


def expected(old: OldQueue, start: str, new_offset: int) -> list[int]:
    begin = {"FIRST": old.min_offset, "MOMENT": old.moment_offset}.get(start, new_offset)
    return [*range(begin, new_offset + 1)]


STARTS = pytest.mark.parametrize("start", ["FIRST", "LAST", "AUTO", "MOMENT"])
MODES = pytest.mark.parametrize("broadcasting", [False, True], ids=["cluster", "broadcast"])


def send_new(old: OldQueue) -> int:
    with BlockingPeer(old.broker) as peer:
        return send_common(peer, TOPIC, b"new").queue_offset


@STARTS
@MODES
def test_a_push_consumer_starts_where_configured(
    old: OldQueue, new_name: NewName, tmp_path: Path, start: str, broadcasting: bool
) -> None:
    received: list[ReceivedMessage] = []
    consumer = PushConsumer(
        old.name_server,
        new_name("group"),
        received.append,
        start_from=start_of(old, start),
        broadcasting=broadcasting,
        offsets_directory=tmp_path,
    )
    consumer.subscribe(TOPIC)
    with consumer:
        wait_until(lambda: old.queue in consumer.statistics().queues, PATIENT_S)
        new_offset = send_new(old)
        wait_until(lambda: any(each.queue_offset == new_offset for each in received), PATIENT_S)
    offsets = sorted(each.queue_offset for each in received)
    assert offsets == expected(old, start, new_offset)


@STARTS
@MODES
def test_a_pull_consumer_starts_where_configured(
    old: OldQueue, new_name: NewName, tmp_path: Path, start: str, broadcasting: bool
) -> None:
    consumer = PullConsumer(
        old.name_server,
        new_name("group"),
        start_from=start_of(old, start),
        broadcasting=broadcasting,
        offsets_directory=tmp_path,
    )
    consumer.subscribe(TOPIC)
    offsets: list[int] = []
    with consumer:
        wait_until(lambda: _has_begun(consumer, old.queue), PATIENT_S)
        new_offset = send_new(old)
        deadline_s = time.monotonic() + PATIENT_S
        while new_offset not in offsets and time.monotonic() < deadline_s:
            offsets += [message.queue_offset for message in consumer.poll(timeout_s=1.0)]
    assert offsets == expected(old, start, new_offset)


def _has_begun(consumer: PullConsumer, queue: QueueRef) -> bool:
    progress = consumer.statistics().queues.get(queue)
    return progress is not None and progress.position is not None


@pytest.mark.parametrize("is_from_first", [True, False])
def test_a_queue_that_is_added_later_begins_as_the_option_says(
    old: OldQueue, new_name: NewName, is_from_first: bool
) -> None:
    topic, group = new_name("topic"), new_name("group")
    create_topic(old.broker, topic, 1)
    assert _received(old, topic, group, 1, is_from_first=is_from_first) == [b"seen"]
    create_topic(old.broker, topic, 2)
    with BlockingPeer(old.broker) as peer:
        send_common(peer, topic, b"unseen", 1)
    with Admin(old.name_server) as admin:
        # Apache enters messages into their queues a little later.
        wait_until(lambda: admin.topic_statistics(topic).message_count == 2)
    received = _received(old, topic, group, 2, is_from_first=is_from_first)
    assert (b"unseen" in received) is is_from_first


def _received(
    old: OldQueue, topic: str, group: str, queue_count: int, *, is_from_first: bool
) -> list[bytes]:
    """What a member of the group gets until it has a new message of each queue."""
    received: list[ReceivedMessage] = []
    consumer = PushConsumer(
        old.name_server,
        group,
        received.append,
        start_from=StartFrom.LAST,
        new_queues_from_first=is_from_first,
    )
    consumer.subscribe(topic)
    with consumer:
        wait_until(lambda: len(_queues_of(consumer, topic)) == queue_count, PATIENT_S)
        with BlockingPeer(old.broker) as peer:
            for queue_id in range(queue_count):
                send_common(peer, topic, b"seen", queue_id)
        seen = [b"seen"] * queue_count
        wait_until(lambda: [m.body for m in received if m.body == b"seen"] == seen, PATIENT_S)
    return [message.body for message in received]


def _queues_of(consumer: PushConsumer, topic: str) -> list[QueueRef]:
    return [queue for queue in consumer.statistics().queues if queue.topic == topic]
