"""Hooks of a producer: what they see, and what they can and cannot do."""

import asyncio

import pytest

from roquet import AsyncProducer, Message
from roquet.client.errors import RequestRefused, SendForbidden, SendRefused, SendUnknown
from roquet.client.hooks import Attempt, MessageKind, SendHook, Sending, SendMode
from roquet.protocol.codes import ResponseCode
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster, answer_late, refuse, stay_silent

TOPIC = "orders"


class Watcher(SendHook):
    def __init__(self) -> None:
        self.begun: list[Sending] = []
        self.ended: list[Sending] = []

    def before_send(self, sending: Sending) -> None:
        assert not sending.receipts
        assert sending.error is None
        self.begun.append(sending)

    def after_send(self, sending: Sending) -> None:
        self.ended.append(sending)


class AttemptWatcher(SendHook):
    def __init__(self) -> None:
        self.begun: list[Attempt] = []
        self.ended: list[Attempt] = []

    def before_attempt(self, attempt: Attempt) -> None:
        assert not attempt.receipts
        assert attempt.error is None
        self.begun.append(attempt)

    def after_attempt(self, attempt: Attempt) -> None:
        self.ended.append(attempt)


class Breaker(SendHook):
    def before_send(self, sending: Sending) -> None:
        raise KeyError("before", sending.topic)

    def after_send(self, sending: Sending) -> None:
        raise KeyError("after", sending.topic)


class Guard(SendHook):
    def before_send(self, sending: Sending) -> None:
        raise SendForbidden(sending.topic, "closed on Sundays")


async def test_a_hook_sees_a_send_and_what_came_of_it(cluster: LiveCluster) -> None:
    watcher = Watcher()
    message = Message(TOPIC, b"coffee", keys=("k",))
    async with AsyncProducer(cluster.name_server, "shop", hooks=[watcher]) as producer:
        receipt = await producer.send(message)
        await producer.send(message, delay_level=1)
        await producer.send_oneway(message)
    assert watcher.begun == watcher.ended
    first, delayed, oneway = watcher.ended
    assert (first.group, first.topic, first.messages) == ("shop", TOPIC, [message])
    assert first.message_ids == [receipt.message_id]
    assert [*first.receipts] == [receipt]
    assert (first.kind, first.body_size) == (MessageKind.NORMAL, 6)
    assert first.duration_s > 0
    port = cluster.brokers["broker-a"].config.listen_port
    assert first.broker_address == f"127.0.0.1:{port}"
    assert delayed.kind is MessageKind.DELAYED
    assert not oneway.receipts
    assert oneway.error is None


async def test_a_hook_sees_every_attempt_before_and_after(scripted: ScriptedCluster) -> None:
    watcher = AttemptWatcher()
    scripted.brokers[0].script = refuse(ResponseCode.SYSTEM_BUSY)
    async with AsyncProducer(
        scripted.name_server, "shop", hooks=[watcher], namespace="eu"
    ) as producer:
        # Once around all queues, wherever it starts.
        for _ in range(4):
            await producer.send(Message(TOPIC, b"x"))
    addresses = {broker.name: broker.address for broker in scripted.brokers}
    assert watcher.begun == watcher.ended
    for attempt in watcher.ended:
        name = attempt.queue.broker_name
        assert attempt.queue.topic == TOPIC
        assert attempt.broker_address == addresses[name]
        assert (attempt.mode, attempt.namespace) == (SendMode.ANSWERED, "eu")
        assert isinstance(attempt.error, RequestRefused) is (name == "a")
        assert len(attempt.receipts) == (name == "b")
    refused = [attempt for attempt in watcher.ended if attempt.error is not None]
    assert len(refused) == len(scripted.brokers[0].sends) >= 1
    first, second = (each for each in watcher.ended if each.sending is refused[0].sending)
    assert (first.number, second.number) == (1, 2)


async def test_a_hook_sees_an_attempt_without_an_answer(scripted: ScriptedCluster) -> None:
    watcher = AttemptWatcher()
    async with AsyncProducer(scripted.name_server, "shop", hooks=[watcher]) as producer:
        await producer.send_oneway(Message(TOPIC, b"x"))
    (attempt,) = watcher.ended
    assert (attempt.mode, attempt.receipts, attempt.error) == (SendMode.ONEWAY, (), None)


async def test_a_hook_can_forbid_an_attempt(scripted: ScriptedCluster) -> None:
    class Picky(SendHook):
        def before_attempt(self, attempt: Attempt) -> None:
            raise SendForbidden(attempt.sending.topic, f"not to {attempt.queue.broker_name}")

    async with AsyncProducer(scripted.name_server, "shop", hooks=[Picky()]) as producer:
        with raises(SendForbidden, topic=TOPIC):
            await producer.send(Message(TOPIC, b"x"))
    assert not any(broker.sends for broker in scripted.brokers)


async def test_messages_that_share_a_request_are_one_send(cluster: LiveCluster) -> None:
    watcher = Watcher()
    async with AsyncProducer(
        cluster.name_server, "shop", hooks=[watcher], linger_ms=20
    ) as producer:
        sends = [producer.send(Message(TOPIC, b"%d" % number)) for number in range(3)]
        receipts = await asyncio.gather(*sends)
    (together,) = watcher.ended
    assert [*together.receipts] == receipts
    assert [message.body for message in together.messages] == [b"0", b"1", b"2"]


async def test_a_hook_sees_errors(scripted: ScriptedCluster) -> None:
    watcher = Watcher()
    async with AsyncProducer(scripted.name_server, "shop", hooks=[watcher]) as producer:
        for script in (
            refuse(ResponseCode.MESSAGE_ILLEGAL),
            answer_late(ResponseCode.FLUSH_DISK_TIMEOUT),
        ):
            for broker in scripted.brokers:
                broker.script = script
            with pytest.raises((SendRefused, SendUnknown)):
                await producer.send(Message(TOPIC, b"x"))
    refused, late = watcher.ended
    assert isinstance(refused.error, SendRefused)
    assert not refused.receipts
    assert isinstance(late.error, SendUnknown)
    assert len(late.receipts) == 1


async def test_a_send_that_is_cancelled_ends_unknown(scripted: ScriptedCluster) -> None:
    watcher = Watcher()
    for broker in scripted.brokers:
        broker.script = stay_silent
    async with AsyncProducer(scripted.name_server, "shop", hooks=[watcher]) as producer:
        sending = asyncio.create_task(producer.send(Message(TOPIC, b"x")))
        await eventually(lambda: any(broker.sends for broker in scripted.brokers))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert isinstance(watcher.ended[0].error, SendUnknown)


async def test_a_broken_hook_is_logged_and_the_message_arrives(
    cluster: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = Watcher()
    async with AsyncProducer(cluster.name_server, "shop", hooks=[Breaker(), watcher]) as producer:
        await producer.send(Message(TOPIC, b"x"))
    assert len(cluster.all_stored(TOPIC)) == len(watcher.ended) == 1
    assert "before" in caplog.text
    assert "after" in caplog.text


async def test_a_hook_can_forbid_a_send(cluster: LiveCluster) -> None:
    async with AsyncProducer(cluster.name_server, "shop", hooks=[Guard()]) as producer:
        with raises(SendForbidden, topic=TOPIC, reason="closed on Sundays"):
            await producer.send(Message(TOPIC, b"x"))
        with pytest.raises(SendForbidden):
            await producer.send_oneway(Message(TOPIC, b"x"))
        assert producer.statistics().in_flight_count == 0
    assert not cluster.all_stored(TOPIC)
