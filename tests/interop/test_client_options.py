"""Options of our clients at Apache's brokers and at ours: one contract."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from roquet import (
    Attempt,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueRef,
    ReceivedMessage,
    SendHook,
    SendMode,
    StartFrom,
)
from roquet.client.blocking.admin import Admin
from tests.support.client_servers import ClientServer
from tests.support.eventually import wait_until
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
PATIENT_S = 40.0
INHERITED = 7


@pytest.fixture
def topic(server: ClientServer, new_name: NewName) -> str:
    """With one queue."""
    topic = new_name("topic")
    create_topic(server.broker, topic, 1)
    return topic


def send(producer: Producer, topic: str, *bodies: bytes) -> None:
    for body in bodies:
        producer.send(Message(topic, body), timeout_s=PATIENT_S)


class Watcher(SendHook):
    def __init__(self) -> None:
        self.attempts: list[Attempt] = []

    def after_attempt(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)


def test_the_fast_port_takes_messages_and_hooks_see_it(
    server: ClientServer, new_name: NewName, topic: str
) -> None:
    watcher = Watcher()
    with Producer(
        server.name_server, new_name("producers"), fast_port=True, hooks=[watcher]
    ) as producer:
        receipt = producer.send(Message(topic, b"x"), timeout_s=PATIENT_S)
    (attempt,) = watcher.attempts
    host, _, port = server.broker.rpartition(":")
    assert attempt.broker_address == f"{host}:{int(port) - 2}"
    assert (attempt.queue, attempt.mode) == (receipt.queue, SendMode.ANSWERED)
    assert [*attempt.receipts] == [receipt]


def test_submitted_messages_are_all_stored(
    server: ClientServer, new_name: NewName, topic: str
) -> None:
    with Producer(server.name_server, new_name("producers"), in_flight_max=8) as producer:
        futures = [
            producer.submit(Message(topic, b"%d" % number), timeout_s=PATIENT_S)
            for number in range(50)
        ]
        receipts = [future.result(PATIENT_S) for future in futures]
    assert sorted(receipt.queue_offset for receipt in receipts) == [*range(50)]


def test_a_new_topic_takes_after_the_template_that_is_named(
    server: ClientServer, new_name: NewName
) -> None:
    template, topic = new_name("template"), new_name("topic")
    create_topic(server.broker, template, 3, permission=INHERITED)
    with Producer(
        server.name_server,
        new_name("producers"),
        template_topic=template,
        new_topic_queue_count=16,
    ) as producer:
        send(producer, topic, b"x")
    with Admin(server.name_server) as admin:
        wait_until(lambda: topic in admin.topics())
        assert len(admin.topic_statistics(topic).queues) == 3


def test_a_name_server_is_found_in_the_environment(
    server: ClientServer, new_name: NewName, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", server.name_server)
    with Producer(None, new_name("producers")) as producer:
        send(producer, topic, b"x")


def test_clients_of_one_name_are_one_client(
    server: ClientServer, new_name: NewName, topic: str
) -> None:
    name, readers, senders = new_name("instance"), new_name("readers"), new_name("senders")
    received: list[ReceivedMessage] = []
    consumer = PushConsumer(
        server.name_server,
        readers,
        received.append,
        start_from=StartFrom.FIRST,
        instance_name=name,
        unit="north",
    )
    consumer.subscribe(topic)
    with (
        consumer,
        Producer(server.name_server, senders, instance_name=name, unit="north") as producer,
        Admin(server.name_server) as admin,
    ):
        send(producer, topic, b"x")
        wait_until(lambda: received, PATIENT_S)
        (reader,) = admin.members(readers).connections
        wait_until(lambda: _client_ids(admin, senders) == [reader.client_id], PATIENT_S)
        assert reader.client_id.endswith(f"@{name}@north")
        # The same connection, not only the same name.
        assert [each.address for each in admin.producers(senders)] == [reader.address]


def _client_ids(admin: Admin, group: str) -> list[str]:
    return [each.client_id for each in admin.producers(group)]


def test_what_a_filter_drops_is_done(server: ClientServer, new_name: NewName, topic: str) -> None:
    group = new_name("readers")
    received: list[ReceivedMessage] = []
    consumer = PushConsumer(
        server.name_server,
        group,
        received.append,
        start_from=StartFrom.FIRST,
        message_filter=lambda message: message.body == b"wanted",
    )
    consumer.subscribe(topic)
    with Producer(server.name_server, new_name("producers")) as producer:
        send(producer, topic, b"not", b"wanted", b"not")
    with consumer:
        wait_until(lambda: received, PATIENT_S)
        queue = QueueRef(topic, received[0].queue.broker_name, 0)
        wait_until(lambda: consumer.statistics().queues[queue].offset == 3, PATIENT_S)
    assert [message.body for message in received] == [b"wanted"]
    with PullConsumer(server.name_server, group) as reading:
        assert reading.committed(queue) == 3


class Memory:
    """A store of offsets that the program has."""

    def __init__(self) -> None:
        self.offsets: dict[QueueRef, int] = {}

    async def kept(self, queue: QueueRef) -> int | None:
        return self.offsets.get(queue)

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        self.offsets.update(offsets)


def test_offsets_may_be_kept_by_the_program(
    server: ClientServer, new_name: NewName, topic: str
) -> None:
    store = Memory()
    with Producer(server.name_server, new_name("producers")) as producer:
        for bodies in ((b"0", b"1"), (b"2", b"3")):
            send(producer, topic, *bodies)
            received: list[ReceivedMessage] = []
            # Another group each time: brokers know nothing of what was done.
            consumer = PushConsumer(
                server.name_server,
                new_name("readers"),
                received.append,
                start_from=StartFrom.FIRST,
                offset_store=store,
            )
            consumer.subscribe(topic)
            with consumer:
                _wait_for(received, len(bodies))
            assert sorted(message.body for message in received) == [*bodies]


def _wait_for(received: Sequence[ReceivedMessage], count: int) -> None:
    wait_until(lambda: len(received) >= count, PATIENT_S)


def test_the_queues_of_a_topic_are_watched(
    server: ClientServer, new_name: NewName, topic: str
) -> None:
    reported: list[Sequence[QueueRef]] = []
    with PullConsumer(
        server.name_server, new_name("readers"), topic_check_interval_s=0.2
    ) as consumer:
        assert len(consumer.watch_queues(topic, reported.append)) == 1
        create_topic(server.broker, topic, 2)
        wait_until(lambda: reported, PATIENT_S)
    assert [queue.queue_id for queue in reported[0]] == [0, 1]
