"""First attempts in the thread that waits: on a socket of their own, with the same outcomes."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from roquet import AsyncProducer, Message, Producer
from roquet.client.blocking import direct_send
from roquet.client.config import ProducerOptions
from roquet.client.errors import BadArgument, SendError, SendUnknown
from roquet.client.hooks import SendHook
from roquet.net.blocking_connection import BlockingConnection
from roquet.net.router import Answer, Request
from roquet.protocol.codes import ResponseCode
from roquet.protocol.headers.messages import SendMessageHeaderV2
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import eventually
from tests.support.scripted_cluster import (
    Script,
    ScriptedBroker,
    ScriptedCluster,
    accept,
    answer_late,
    hang_up,
    in_turn,
    refuse,
    scripted_cluster,
    stay_silent,
)

TOPIC = "orders"
MESSAGE = Message(TOPIC, b"one coffee")
BUSY = refuse(ResponseCode.SYSTEM_BUSY)
ILLEGAL = refuse(ResponseCode.MESSAGE_ILLEGAL)
LATE = answer_late(ResponseCode.FLUSH_DISK_TIMEOUT)


class Outcome(NamedTuple):
    """Of one send: its error, the requests at the broker, and the counts of the producer."""

    error: type[SendError] | None
    code: int | None
    has_id: bool
    request_count: int
    stored_count: int
    failed_count: int
    unknown_count: int
    retry_count: int


@dataclass(frozen=True)
class Noted:
    """A script that notes on which connections it was asked."""

    script: Script
    ports: list[int]

    def __call__(self, broker: ScriptedBroker, request: Request[SendMessageHeaderV2]) -> Answer:
        self.ports.append(request.connection.peer_address.port)
        return self.script(broker, request)


async def outcome_of(
    cluster: ScriptedCluster, send: Callable[[], Any], statistics: Callable[[], Any]
) -> Outcome:
    broker = cluster.brokers[0]
    before, counted = len(broker.sends), statistics()
    error: SendError | None = None
    try:
        await send()
    except SendError as raised:
        error = raised
    after = statistics()
    return Outcome(
        None if error is None else type(error),
        getattr(error, "code", None),
        getattr(error, "message_id", None) is not None,
        len(broker.sends) - before,
        after.stored_count - counted.stored_count,
        after.failed_count - counted.failed_count,
        after.unknown_count - counted.unknown_count,
        after.retry_count - counted.retry_count,
    )


@pytest.mark.parametrize(
    ("scripts", "options"),
    [
        ((accept,), {}),
        ((BUSY, accept), {}),
        ((BUSY, BUSY), {"retry_count": 1}),
        ((ILLEGAL,), {}),
        ((LATE,), {}),
        ((LATE, accept), {"retry_not_safe": True}),
        ((hang_up, accept), {}),
        ((hang_up,), {"retry_unknown": False}),
        ((hang_up, hang_up), {"retry_count": 1}),
        ((stay_silent, accept), {"attempt_timeout_s": 0.1}),
        ((stay_silent,), {"attempt_timeout_s": 0.1, "retry_unknown": False}),
    ],
)
async def test_a_blocking_send_ends_as_an_asynchronous_one(
    scripts: tuple[Script, ...], options: ProducerOptions
) -> None:
    async with scripted_cluster("a") as cluster:
        broker = cluster.brokers[0]
        async with AsyncProducer(cluster.name_server, "shop", **options) as producer:
            await producer.send(MESSAGE)
            broker.script = in_turn(*scripts)
            expected = await outcome_of(
                cluster, lambda: producer.send(MESSAGE), producer.statistics
            )
        broker.script = accept
        twin = await asyncio.to_thread(opened, cluster, **options)
        try:
            await asyncio.to_thread(twin.send, MESSAGE)
            noted = Noted(in_turn(*scripts), [])
            broker.script = noted
            found = await outcome_of(
                cluster, lambda: asyncio.to_thread(twin.send, MESSAGE), twin.statistics
            )
        finally:
            await asyncio.to_thread(twin.close)
    assert found == expected
    assert found.request_count == len(scripts)
    # The first attempt was direct, and all others were made by the loop.
    assert len({noted.ports[0], *noted.ports[1:]}) == min(2, len(scripts))


def opened(cluster: ScriptedCluster, **options: Any) -> Producer:
    producer = Producer(cluster.name_server, "shop", **options)
    producer.open()
    return producer


def own_socket(producer: Producer) -> BlockingConnection:
    assert producer._direct is not None
    assert producer._direct._way is not None
    (connection,) = producer._direct._way._connections.values()
    return connection


async def ports_of(cluster: ScriptedCluster, count: int, **options: Any) -> list[int]:
    """Of the connections that sends of one thread use."""
    noted = Noted(accept, [])
    cluster.brokers[0].script = noted

    def send_all() -> None:
        with Producer(cluster.name_server, "shop", **options) as producer:
            for _ in range(count):
                producer.send(MESSAGE)

    await asyncio.to_thread(send_all)
    return noted.ports


async def test_a_thread_has_a_socket_of_its_own_once_the_loop_knows_the_broker() -> None:
    async with scripted_cluster("a") as cluster:
        first, *others = await ports_of(cluster, 4)
    assert len(set(others)) == 1
    assert first not in others


@pytest.mark.parametrize(
    "options", [{"hooks": [SendHook()]}, {"linger_ms": 1.0}, {"avoid_slow_brokers": True}]
)
async def test_a_producer_with_more_to_do_leaves_all_sends_to_the_loop(
    options: dict[str, Any],
) -> None:
    async with scripted_cluster("a") as cluster:
        assert len(set(await ports_of(cluster, 3, **options))) == 1


async def test_a_socket_that_the_broker_closed_is_not_used() -> None:
    async with scripted_cluster("a") as cluster:
        broker = cluster.brokers[0]
        connections = []

        def keep(broker: ScriptedBroker, request: Request[SendMessageHeaderV2]) -> Answer:
            connections.append(request.connection)
            return accept(broker, request)

        broker.script = keep
        producer = await asyncio.to_thread(opened, cluster, retry_unknown=False)
        try:
            for _ in range(2):
                await asyncio.to_thread(producer.send, MESSAGE)
            connections[1].close("idle")
            await eventually(lambda: not own_socket(producer).is_silent)
            await asyncio.to_thread(producer.send, MESSAGE)
        finally:
            await asyncio.to_thread(producer.close)
    assert producer.statistics().retry_count == 0
    assert len({each.peer_address for each in connections}) == 3


async def test_others_do_not_wait_for_the_thread_that_sends() -> None:
    async with scripted_cluster("a") as cluster:
        broker = cluster.brokers[0]
        producer = await asyncio.to_thread(opened, cluster)
        try:
            await asyncio.to_thread(producer.send, MESSAGE)
            broker.script = in_turn(stay_silent, accept)
            waiting = asyncio.create_task(asyncio.to_thread(producer.send, MESSAGE, timeout_s=60))
            await eventually(lambda: bool(broker.parked))
            await asyncio.to_thread(producer.send, MESSAGE)
            assert producer.statistics().in_flight_count == 1
            broker.answer_parked()
            await waiting
        finally:
            await asyncio.to_thread(producer.close)
    assert producer.statistics().stored_count == 3


async def test_a_send_that_waits_when_its_producer_is_closed_may_be_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct_send, "_CLOSING_TIMEOUT_S", 0.05)
    async with scripted_cluster("a") as cluster:
        broker = cluster.brokers[0]
        producer = await asyncio.to_thread(opened, cluster, retry_unknown=False)
        await asyncio.to_thread(producer.send, MESSAGE)
        broker.script = stay_silent
        waiting = asyncio.create_task(asyncio.to_thread(producer.send, MESSAGE, timeout_s=60))
        await eventually(lambda: bool(broker.parked))
        await asyncio.to_thread(producer.close)
        with pytest.raises(SendUnknown) as raised:
            await waiting
        assert raised.value.message_id
        assert raised.value.queue is not None
    assert not [each for each in threading.enumerate() if each.name == "producer"]


async def test_a_message_that_cannot_be_sent_is_refused_in_both_ways() -> None:
    async with scripted_cluster("a") as cluster:
        producer = await asyncio.to_thread(opened, cluster)
        try:
            await asyncio.to_thread(producer.send, MESSAGE)
            with pytest.raises(BadArgument):
                await asyncio.to_thread(producer.send, Message(TOPIC, b""))
            with pytest.raises(BadArgument):
                await asyncio.to_thread(producer.send, MESSAGE, timeout_s=-1.0)
            await asyncio.to_thread(producer.send, MESSAGE)
        finally:
            await asyncio.to_thread(producer.close)
    assert len(cluster.brokers[0].sends) == 2


def test_threads_and_the_loop_take_turns_together() -> None:
    with BlockingCluster(brokers=2) as cluster:
        topic = cluster.new_topic(queues=4)
        with Producer(cluster.name_server, "shop") as producer:
            used = Counter(producer.send(Message(topic, b"x")).queue for _ in range(24))
    assert sorted(used.values()) == [3] * 8
