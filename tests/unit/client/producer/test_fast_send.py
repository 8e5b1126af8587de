"""Sends over connections that are open: stored at once, or judged and tried again as any other."""

import asyncio
from typing import Any

import pytest

from roquet import AsyncProducer, Message
from roquet.client.errors import NotYetSafe, SendRefused, SendUnknown
from roquet.client.names import wrapped
from roquet.client.producer.fast_send import FastSends
from roquet.protocol.codes import ResponseCode
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.scripted_cluster import (
    ScriptedCluster,
    accept,
    answer_late,
    hang_up,
    in_turn,
    refuse,
    stay_silent,
)

TOPIC = "orders"
PATIENT_S = 30.0


def producer(cluster: LiveCluster | ScriptedCluster, **options: Any) -> AsyncProducer:
    return AsyncProducer(cluster.name_server, "shop", **options)


async def connect(sending: AsyncProducer, topic: str = TOPIC) -> None:
    """To all brokers: what follows finds open connections."""
    for queue in await sending.queues(topic):
        await sending.send(Message(topic, b"hello"), queue=queue)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each send could start at once."""
    seen: list[bool] = []
    start = FastSends.start

    def watched(self: FastSends, *arguments: Any) -> Any:
        attempt = start(self, *arguments)
        seen.append(attempt is not None)
        return attempt

    monkeypatch.setattr(FastSends, "start", watched)
    return seen


async def test_a_message_is_stored_by_its_first_attempt(
    cluster: LiveCluster, started: list[bool]
) -> None:
    async with producer(cluster) as sending:
        await connect(sending)
        for message in (Message(TOPIC, b"a"), Message(TOPIC, b"b", "new", ("k",), {"x": "y"}, 7)):
            receipt = await sending.send(message)
            stored = cluster.stored(TOPIC, receipt.queue.queue_id)[receipt.queue_offset]
            assert (stored.body, stored.tags, stored.flag) == (
                message.body,
                message.tags,
                message.flag,
            )
            assert (stored.message_id, stored.offset_id) == (receipt.message_id, receipt.offset_id)
        assert (sending.statistics().stored_count, sending.statistics().in_flight_count) == (6, 0)
    assert started == [True, True]


async def test_what_has_to_be_compressed_is_left_to_the_sender(
    cluster: LiveCluster, started: list[bool]
) -> None:
    async with producer(cluster) as sending:
        await connect(sending)
        receipt = await sending.send(Message(TOPIC, b"x" * 5000))
    stored = cluster.stored(TOPIC, receipt.queue.queue_id)[receipt.queue_offset]
    assert len(stored.body) < 5000 == len(stored.decompressed_body())
    assert started == [False]


async def test_a_namespace_does_no_harm(cluster: LiveCluster, started: list[bool]) -> None:
    async with producer(cluster, namespace="ns") as sending:
        await sending.send(Message(TOPIC, b"makes the topic"))
        receipt = await sending.send(Message(TOPIC, b"x"))
    assert receipt.queue.topic == TOPIC
    assert len(cluster.all_stored(wrapped("ns", TOPIC))) == 2
    assert started == [False, True]


async def test_a_refused_first_attempt_is_followed_by_one_elsewhere(
    scripted: ScriptedCluster, started: list[bool]
) -> None:
    async with producer(scripted) as sending:
        await connect(sending)
        for broker in scripted.brokers:
            broker.script = in_turn(refuse(ResponseCode.SYSTEM_BUSY), accept)
        await sending.send(Message(TOPIC, b"x"), timeout_s=PATIENT_S)
        assert sending.statistics().retry_count in {1, 2}
    assert started == [True]


async def test_a_first_attempt_counts_as_one_of_all(scripted: ScriptedCluster) -> None:
    async with producer(scripted, retry_count=1) as sending:
        await connect(sending)
        before = sum(len(broker.sends) for broker in scripted.brokers)
        for broker in scripted.brokers:
            broker.script = refuse(ResponseCode.SYSTEM_BUSY)
        with pytest.raises(SendRefused):
            await sending.send(Message(TOPIC, b"x"), timeout_s=PATIENT_S)
        assert sum(len(broker.sends) for broker in scripted.brokers) == before + 2
        assert sending.statistics().failed_count == 1


async def test_what_is_not_worth_trying_again_is_tried_once(scripted: ScriptedCluster) -> None:
    async with producer(scripted) as sending:
        await connect(sending)
        before = sum(len(broker.sends) for broker in scripted.brokers)
        for broker in scripted.brokers:
            broker.script = refuse(ResponseCode.MESSAGE_ILLEGAL)
        with pytest.raises(SendRefused):
            await sending.send(Message(TOPIC, b"x"))
        assert sum(len(broker.sends) for broker in scripted.brokers) == before + 1


async def test_a_connection_that_is_lost_leaves_the_message_unknown(
    scripted: ScriptedCluster,
) -> None:
    async with producer(scripted, retry_count=0) as sending:
        await connect(sending)
        for broker in scripted.brokers:
            broker.script = hang_up
        with pytest.raises(SendUnknown):
            await sending.send(Message(TOPIC, b"x"))
        assert (sending.statistics().unknown_count, sending.statistics().in_flight_count) == (1, 0)


async def test_a_reply_of_not_yet_safe_is_an_error_with_its_receipt(
    scripted: ScriptedCluster,
) -> None:
    async with producer(scripted) as sending:
        await connect(sending)
        for broker in scripted.brokers:
            broker.script = answer_late(ResponseCode.FLUSH_DISK_TIMEOUT)
        with pytest.raises(NotYetSafe) as caught:
            await sending.send(Message(TOPIC, b"x"), timeout_s=PATIENT_S)
        assert len(caught.value.receipts) == 1


async def test_a_cancelled_send_leaves_the_window(scripted: ScriptedCluster) -> None:
    async with producer(scripted) as sending:
        await connect(sending)
        for broker in scripted.brokers:
            broker.script = stay_silent
        task = asyncio.create_task(sending.send(Message(TOPIC, b"x"), timeout_s=PATIENT_S))
        await eventually(lambda: sending.statistics().in_flight_count == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sending.statistics().in_flight_count == 0
