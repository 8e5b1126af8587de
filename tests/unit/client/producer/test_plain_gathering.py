"""Gathered messages that take the short way: what they lack there, and what they keep."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from roquet import AsyncProducer, Message, SendHook, SendReceipt
from roquet.client.errors import NotOpen, SendFailed, SendUnknown
from roquet.protocol.messages.message import Property
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.scripted_cluster import ScriptedCluster, stay_silent

TOPIC = "orders"
PATIENT_S = 30.0
# Longer than any test waits.
LONG_MS = 600_000

MIXED = [
    Message(TOPIC, b"plain"),
    Message(TOPIC, b"tagged", tags="new"),
    Message(TOPIC, b"x" * 300),
    Message(TOPIC, b"kept", keys=("k1", "k2"), properties={"city": "Rome"}, flag=7),
    Message(TOPIC, b""),
    Message("no topic", b"bad"),
    Message("others", b"elsewhere"),
    Message(TOPIC, b"y" * 9000),  # compressed, and so alone
    Message("others", b"elsewhere, too"),
    Message(TOPIC, b"text"),
]


class SaysNothing(SendHook):
    """Makes its producer ask before every message."""

    def added_properties(self, _message: Message) -> Mapping[str, str]:
        return {}


def producer(cluster: LiveCluster | ScriptedCluster, **options: Any) -> AsyncProducer:
    return AsyncProducer(cluster.name_server, "shop", **{"linger_ms": 20, **options})


async def outcomes_of(cluster: LiveCluster, group: str, **options: Any) -> list[Any]:
    async with AsyncProducer(cluster.name_server, group, linger_ms=20, **options) as sending:
        sends = [
            sending.send(message, timeout_s=PATIENT_S) for _ in range(300) for message in MIXED
        ]
        return await asyncio.gather(*sends, return_exceptions=True)


async def test_both_ways_store_the_same_and_refuse_the_same(cluster: LiveCluster) -> None:
    plain = await outcomes_of(cluster, "plain")
    ordinary = await outcomes_of(cluster, "ordinary", hooks=[SaysNothing()])
    stored = {
        message.message_id: (
            message.topic,
            message.decompressed_body(),
            {**message.properties, Property.UNIQUE_KEY: "", Property.CHECKSUM: ""},
            message.flag,
            message.sys_flag,
        )
        for topic in (TOPIC, "others")
        for message in cluster.all_stored(topic)
    }
    assert len(stored) == 2 * 300 * 8
    for one, other in zip(plain, ordinary, strict=True):
        if isinstance(one, SendReceipt):
            assert stored[one.message_id] == stored[other.message_id]
        else:
            assert (type(one), str(one)) == (type(other), str(other))


async def test_receipts_say_where_each_message_lies(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        sends = [
            sending.send(Message(TOPIC, b"%d" % number), timeout_s=PATIENT_S)
            for number in range(2500)
        ]
        receipts = await asyncio.gather(*sends)
    stored = {message.message_id: message for message in cluster.all_stored(TOPIC)}
    for number, receipt in enumerate(receipts):
        message = stored[receipt.message_id]
        assert (message.body, message.offset_id) == (b"%d" % number, receipt.offset_id)
        place = (message.queue_id, message.queue_offset)
        assert place == (receipt.queue.queue_id, receipt.queue_offset)


async def test_messages_wait_for_room_and_leave_it_when_they_are_stored(
    cluster: LiveCluster,
) -> None:
    async with producer(cluster, in_flight_max=10) as sending:
        sends = [
            asyncio.create_task(sending.send(Message(TOPIC, b"x"), timeout_s=PATIENT_S))
            for _ in range(35)
        ]
        await eventually(lambda: sending.statistics().waiting_count)
        assert sending.statistics().in_flight_count == 10
        await asyncio.gather(*sends)
        statistics = sending.statistics()
    assert (statistics.in_flight_count, statistics.waiting_count) == (0, 0)
    assert statistics.stored_count == 35


async def test_without_room_in_time_a_message_fails(scripted: ScriptedCluster) -> None:
    async with producer(scripted, linger_ms=LONG_MS, in_flight_max=3) as sending:
        sends = [asyncio.create_task(sending.send(Message(TOPIC, b"x"))) for _ in range(3)]
        await eventually(lambda: sending.statistics().in_flight_count == 3)
        with pytest.raises(SendFailed, match="no room"):
            await sending.send(Message(TOPIC, b"x"), timeout_s=0.01)
        assert sending.statistics().failed_count == 1
        for send in sends:
            send.cancel()


async def test_whoever_gives_up_makes_room(cluster: LiveCluster) -> None:
    async with producer(cluster, linger_ms=LONG_MS) as sending:
        sends = [
            asyncio.create_task(sending.send(Message(TOPIC, b"%d" % number), timeout_s=PATIENT_S))
            for number in range(5)
        ]
        await eventually(lambda: sending.statistics().in_flight_count == 5)
        sends[3].cancel()
        await asyncio.wait([sends[3]])
        assert sending.statistics().in_flight_count == 4
    others = [send for send in sends if send is not sends[3]]
    assert len({(await send).message_id for send in others}) == 4


async def test_the_earliest_deadline_counts_for_all(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = stay_silent
    async with producer(scripted, retry_count=0) as sending:
        sends = [sending.send(Message(TOPIC, b"x"), timeout_s=each) for each in (60, 0.2, 60)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [SendUnknown] * 3


async def test_a_message_that_is_changed_meanwhile_leaves_others_alone(
    cluster: LiveCluster,
) -> None:
    async with producer(cluster) as sending:
        first = Message(TOPIC, b"x")
        sends = [asyncio.create_task(sending.send(each, timeout_s=PATIENT_S)) for each in [first]]
        await eventually(lambda: sending.statistics().in_flight_count)
        first.topic = "others"
        await asyncio.gather(*sends)
        # What waits under the old name must be found nowhere any more.
        receipt = await sending.send(Message(TOPIC, b"x"), timeout_s=PATIENT_S)
    assert receipt.queue.topic == TOPIC


async def test_a_closed_producer_takes_no_more(cluster: LiveCluster) -> None:
    sending = producer(cluster, linger_ms=LONG_MS)
    await sending.open()
    begun = asyncio.create_task(sending.send(Message(TOPIC, b"x"), timeout_s=PATIENT_S))
    await eventually(lambda: sending.statistics().in_flight_count)
    await sending.close()
    assert (await begun).queue_offset == 0
    with pytest.raises(NotOpen):
        await sending.send(Message(TOPIC, b"x"))
