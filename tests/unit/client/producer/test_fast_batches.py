"""Messages of batches by compiled code: ready, gathered and stored as the general way does it."""

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, strategies as st

from roquet import AsyncProducer, SendHook, SendReceipt
from roquet.client.config import ProducerConfig
from roquet.client.errors import BadArgument, NotOpen, SendFailed, SendUnknown
from roquet.client.producer.batching import size_of
from roquet.client.producer.fast_batches import END, FastMessages
from roquet.client.producer.outgoing import Ready, bare_ready
from roquet.client.producer.request_reply import ReplyMessage
from roquet.protocol.messages.message import Message, Property
from roquet.protocol.messages.message_id import UniqueIdMaker
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster, stay_silent

TOPIC = "orders"
EQUAL_TOPIC = b"orders".decode()  # but another object
COMPRESSED_SIZE = 100
CONFIGS = [
    ProducerConfig(
        name_server="127.0.0.1:9876",
        group="shop",
        compress_over=COMPRESSED_SIZE,
        namespace=namespace,
    )
    for namespace in (None, "inn")
]


def ids() -> UniqueIdMaker:
    return UniqueIdMaker(bytes(4), 1, 1)


def fast_messages(config: ProducerConfig = CONFIGS[0]) -> FastMessages:
    return FastMessages(config, ids(), FakeClock())


def messages() -> st.SearchStrategy[Message]:
    """Most of them are bare, and each member may make one of them something else."""
    return st.builds(
        Message,
        st.sampled_from([TOPIC] * 8 + ["others", "", "no topic", 7, EQUAL_TOPIC]),
        st.sampled_from([b"x"] * 6 + [b"", b"y" * 99, b"y" * 100, bytearray(b"z"), "text", None]),
        st.sampled_from([None] * 8 + ["", "new", 7]),
        st.sampled_from([(), [], ("k",), "k", None]),
        st.sampled_from([{}, {}, {}, {"city": "Rome"}, {"TAGS": "x"}, None]),
        st.sampled_from([0, 0, 0, 0, 7, 2**40, "7"]),
    )


def generally(message: Message, config: ProducerConfig) -> Ready | None:
    """None for what is refused, and for what does not fit the others of a part."""
    try:
        return bare_ready(message, ids().make(FakeClock().now_ms()), config)
    except BadArgument:
        return None


@pytest.mark.parametrize("config", CONFIGS)
@given(message=messages())
def test_a_bare_message_is_ready_as_any_other_would_be(
    config: ProducerConfig, message: Message
) -> None:
    ready = fast_messages(config).ready(message, TOPIC)
    if ready is not None:
        assert ready == generally(message, config)
        assert message.topic == TOPIC
        assert len(message.body) < COMPRESSED_SIZE


def test_a_body_for_a_topic_is_a_bare_message() -> None:
    for config in CONFIGS:
        fast = fast_messages(config)
        assert fast.ready(Message(TOPIC, b"x"), TOPIC) is not None
        assert fast.ready(Message(EQUAL_TOPIC, b"x" * 99), TOPIC) is not None


@pytest.mark.parametrize(
    "message",
    [
        Message("others", b"x"),
        Message(TOPIC, b""),
        Message(TOPIC, b"x" * COMPRESSED_SIZE),
        Message(TOPIC, bytearray(b"x")),
        Message(TOPIC, b"x", tags="new"),
        Message(TOPIC, b"x", keys=("k",)),
        Message(TOPIC, b"x", properties={"city": "Rome"}),
        Message(TOPIC, b"x", flag=1),
        ReplyMessage(TOPIC, b"x"),
        "x",
        None,
    ],
)
def test_everything_else_is_left_to_the_general_way(message: Any) -> None:
    assert fast_messages().ready(message, TOPIC) is None


class Topic(StrEnum):
    ORDERS = "orders"


def test_a_topic_that_is_more_than_a_text_is_left_to_the_general_way() -> None:
    message = Message(Topic.ORDERS, b"x")
    assert fast_messages().ready(message, Topic.ORDERS) is None
    part = [bare_ready(message, "1", CONFIGS[0])]
    assert fast_messages().fill(part, iter([message]), 10_000, 1000) == (message, 0)


def test_a_namespace_beyond_ascii_leaves_no_message_bare() -> None:
    config = ProducerConfig(name_server="127.0.0.1:9876", group="shop")
    object.__setattr__(config, "namespace", "größe")
    assert fast_messages(config).ready(Message(TOPIC, b"x"), TOPIC) is None


def test_a_part_is_filled_up_to_the_first_message_that_is_not_bare() -> None:
    part = [bare_ready(Message(TOPIC, b"first"), "1", CONFIGS[0])]
    other = Message(TOPIC, b"x", tags="new")
    source = iter([Message(TOPIC, b"1"), Message(TOPIC, b"22"), other, Message(TOPIC, b"3")])
    left, size = fast_messages().fill(part, source, 10_000, 1000)
    assert left is other
    assert [ready.message.body for ready in part] == [b"first", b"1", b"22"]
    assert size == sum(map(size_of, part[1:]))
    assert [message.body for message in source] == [b"3"]


@pytest.mark.parametrize(("spare", "count"), [(0, 3), (-1, 2)])
def test_a_part_is_filled_as_far_as_there_is_room(spare: int, count: int) -> None:
    first = bare_ready(Message(TOPIC, b"x"), ids().make(0), CONFIGS[0])
    part = [first]
    source = (Message(TOPIC, b"x") for _ in range(5))
    left, _ = fast_messages().fill(part, source, 2 * size_of(first) + spare, 1000)
    assert left == Message(TOPIC, b"x")
    assert len(part) == count


def test_a_part_is_filled_up_to_its_count() -> None:
    part = [bare_ready(Message(TOPIC, b"x"), "1", CONFIGS[0])]
    source = (Message(TOPIC, b"%d" % number) for number in range(5))
    left, _ = fast_messages().fill(part, source, 10_000, 4)
    assert left == Message(TOPIC, b"3")
    assert len(part) == 4


def test_the_end_of_the_messages_is_reported() -> None:
    part = [bare_ready(Message(TOPIC, b"x"), "1", CONFIGS[0])]
    assert fast_messages().fill(part, iter(()), 10_000, 1000) == (END, 0)


PATIENT_S = 30.0
# Longer than any test waits.
LONG_MS = 600_000

MIXED = [
    Message(TOPIC, b"fast"),
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


class AddsNothing(SendHook):
    """Makes its producer ask the hook for every message."""

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


async def test_fast_and_general_batches_store_and_refuse_the_same(
    cluster: LiveCluster,
) -> None:
    fast = await outcomes_of(cluster, "fast")
    general = await outcomes_of(cluster, "general", hooks=[AddsNothing()])
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
    for one, other in zip(fast, general, strict=True):
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
        with raises(SendFailed, topic=TOPIC, may_pass=True):
            await sending.send(Message(TOPIC, b"x"), timeout_s=0.01)
        assert sending.statistics().failed_count == 1
        for send in sends:
            send.cancel()


async def test_a_cancelled_send_makes_room(cluster: LiveCluster) -> None:
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
