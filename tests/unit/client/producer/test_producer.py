"""The producer against a live cluster of ours, and against brokers that do as they get."""

import asyncio
import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from roquet import AsyncProducer, BatchReceipt, Credentials, Message, QueueRef, SendReceipt
from roquet.client.errors import (
    BadArgument,
    NoTimers,
    NotOpen,
    NotYetSafe,
    SendFailed,
    SendImpossible,
    SendRefused,
    SendUnknown,
    SomeFailed,
    UsedAfterFork,
)
from roquet.client.producer.sender import judged
from roquet.net.errors import BadAddress, CallTimedOut, ConnectFailed
from roquet.protocol.acl import has_valid_signature
from roquet.protocol.codes import ResponseCode
from roquet.protocol.compression import Compression
from roquet.protocol.fields import field_texts
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.message import Keys, Property
from tests.support.eventually import eventually
from tests.support.inner_parts import instance_of
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises
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
KILOBYTE = 1024
PATIENT_S = 10.0


def producer(cluster: LiveCluster | ScriptedCluster, **options: Any) -> AsyncProducer:
    return AsyncProducer(cluster.name_server, "shop", **options)


def broker_counts(cluster: ScriptedCluster) -> list[int]:
    return [len(broker.sends) for broker in cluster.brokers]


# What arrives.


async def test_a_message_arrives_with_all_that_was_set(cluster: LiveCluster) -> None:
    message = Message(
        TOPIC, b"\x00coffee", tags="new", keys=("k1", "k2"), properties={"city": "Köln"}, flag=7
    )
    async with producer(cluster) as sending:
        receipt = await sending.send(message)
    (stored,) = cluster.stored(TOPIC, receipt.queue.queue_id)
    assert (stored.body, stored.flag) == (b"\x00coffee", 7)
    assert (stored.tags, stored.keys, stored.properties["city"]) == ("new", ("k1", "k2"), "Köln")
    assert (stored.message_id, stored.offset_id) == (receipt.message_id, receipt.offset_id)
    assert (stored.queue_offset, receipt.queue.topic) == (receipt.queue_offset, TOPIC)


async def test_messages_go_round_all_queues(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        receipts = [await sending.send(Message(TOPIC, b"%d" % number)) for number in range(8)]
    assert Counter(receipt.queue.queue_id for receipt in receipts) == dict.fromkeys(range(4), 2)
    assert len({receipt.message_id for receipt in receipts}) == 8


async def test_topics_that_are_sent_to_in_turn_all_use_all_their_queues(
    cluster: LiveCluster,
) -> None:
    async with producer(cluster) as sending:
        for topic in (TOPIC, "bills") * 4:
            await sending.send(Message(topic, b"x"))
    for topic in (TOPIC, "bills"):
        assert [len(cluster.stored(topic, queue_id)) for queue_id in range(4)] == [1] * 4


async def test_a_oneway_message_arrives(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        await sending.send_oneway(Message(TOPIC, b"by the way"))
        await eventually(lambda: cluster.all_stored(TOPIC))
    assert [message.body for message in cluster.all_stored(TOPIC)] == [b"by the way"]


async def test_messages_with_one_key_keep_their_order(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        for number in range(10):
            receipt = await sending.send(Message(TOPIC, b"%d" % number), order_key="order 7")
    stored = cluster.stored(TOPIC, receipt.queue.queue_id)
    assert [message.body for message in stored] == [b"%d" % number for number in range(10)]


async def test_a_message_goes_to_the_queue_its_sender_chose(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        queue = (await sending.queues(TOPIC))[2]
        receipt = await sending.send(Message(TOPIC, b"x"), queue=queue)
    assert receipt.queue == queue == QueueRef(TOPIC, "broker-a", 2)


async def test_to_a_queue_that_is_not_there_sending_again_is_no_use(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        with pytest.raises(SendImpossible, match="99"):
            await sending.send(Message(TOPIC, b"x"), queue=QueueRef(TOPIC, "broker-a", 99))


@pytest.mark.parametrize("compression", Compression)
async def test_a_body_that_would_grow_is_sent_as_it_is(
    cluster: LiveCluster, compression: Compression
) -> None:
    largest = random.Random(1).randbytes(4 * 1024 * KILOBYTE)
    async with producer(cluster, compression=compression) as sending:
        await sending.send(Message(TOPIC, largest), timeout_s=PATIENT_S)
    (stored,) = cluster.all_stored(TOPIC)
    assert (stored.body, stored.sys_flag) == (largest, 0)


@pytest.mark.parametrize("compression", Compression)
async def test_a_large_body_is_compressed_on_the_way(
    cluster: LiveCluster, compression: Compression
) -> None:
    bodies = [b"0123456789abcdef" * count for count in (255, 256, 64 * KILOBYTE)]
    async with producer(cluster, compression=compression) as sending:
        for body in bodies:
            await sending.send(Message(TOPIC, body), order_key=0)
    stored = cluster.stored(TOPIC)
    assert [message.decompressed_body() for message in stored] == bodies
    assert [message.sys_flag for message in stored] == [0, *[compression.sys_flag] * 2]
    assert all(len(message.body) < len(message.decompressed_body()) / 2 for message in stored[1:])


async def test_a_delayed_message_waits_for_its_level_and_for_its_moment(
    cluster: LiveCluster,
) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    async with producer(cluster) as sending:
        await sending.send(Message(TOPIC, b"past"), delay=timedelta(seconds=-1))
        await sending.send(Message(TOPIC, b"level"), delay_level=3)
        await sending.send(Message(TOPIC, b"moment"), delay=moment)
        await sending.send(Message(TOPIC, b"soon"), delay=timedelta(hours=2))
    assert [message.body for message in cluster.all_stored(TOPIC)] == [b"past"]
    (level,) = cluster.stored("SCHEDULE_TOPIC_XXXX", 2)
    assert (level.body, level.properties[Property.DELAY]) == (b"level", "3")
    waiting = cluster.stored("rmq_sys_wheel_timer")
    assert [message.body for message in waiting] == [b"moment", b"soon"]
    due_ms = int(waiting[0].properties[Property.TIMER_OUT_MS])
    assert abs(due_ms - moment.timestamp() * 1000) <= 1000


async def test_a_namespace_goes_in_front_of_topic_and_group(scripted: ScriptedCluster) -> None:
    async with producer(scripted, namespace="ns") as sending:
        receipt = await sending.send(Message(TOPIC, b"x"))
        assert receipt.queue.topic == TOPIC
        assert {queue.topic for queue in await sending.queues(TOPIC)} == {TOPIC}
    (header,) = [header for broker in scripted.brokers for header in broker.headers]
    assert (header.topic, header.producer_group) == ("ns%orders", "ns%shop")
    assert "INSTANCE_ID\x01ns" in (header.properties or "")


# Many at once.


async def test_each_message_of_a_batch_gets_its_own_receipt(cluster: LiveCluster) -> None:
    batch = [Message(TOPIC, b"%d" % number, tags=f"t{number}") for number in range(50)]
    async with producer(cluster) as sending:
        receipts = await sending.send_batch(batch)
    stored = cluster.stored(TOPIC, receipts[0].queue.queue_id)
    assert [(message.body, message.tags) for message in stored] == [
        (message.body, message.tags) for message in batch
    ]
    assert [message.message_id for message in stored] == [each.message_id for each in receipts]
    assert [message.offset_id for message in stored] == [each.offset_id for each in receipts]
    assert [message.queue_offset for message in stored] == [each.queue_offset for each in receipts]


def encoded(*items: tuple[bytes, str]) -> bytes:
    return encode_batch([(0, body, properties.encode()) for body, properties in items])


async def test_a_batch_that_is_encoded_already_is_sent_as_it_is(cluster: LiveCluster) -> None:
    body = encoded((b"a", "UNIQ_KEY\x01id-1\x02TAGS\x01x"), (b"b", "UNIQ_KEY\x01id-2"))
    queue = QueueRef(TOPIC, "broker-a", 1)
    async with producer(cluster) as sender:
        await sender.send(Message(TOPIC, b"before"), queue=queue)
        receipt = await sender.send_encoded(TOPIC, body, 2, queue=queue)
        assert sender.statistics().stored_count == 3
    assert receipt == BatchReceipt(queue, 1, 2)
    stored = cluster.stored(TOPIC, 1)[1:]
    assert [(each.message_id, each.body, each.tags) for each in stored] == [
        ("id-1", b"a", "x"),
        ("id-2", b"b", None),
    ]


async def test_an_encoded_batch_is_tried_again_elsewhere(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = in_turn(refuse(ResponseCode.SYSTEM_BUSY), accept)
    async with producer(scripted) as sender:
        await sender.send_encoded(TOPIC, encoded((b"a", "")), 1, timeout_s=PATIENT_S)
        assert sender.statistics().retry_count == 2
    sent = [header for broker in scripted.brokers for header in broker.headers]
    assert all(header.batch for header in sent)


@pytest.mark.parametrize(
    ("topic", "body", "count", "argument"),
    [
        (TOPIC, b"", 1, "body"),
        (TOPIC, encoded((b"a", "")), 0, "count"),
        ("%RETRY%group", encoded((b"a", "")), 1, "topic"),
        (TOPIC, b"DELAY\x01", 1, "body"),
    ],
)
async def test_an_encoded_batch_that_cannot_be_is_refused(
    scripted: ScriptedCluster, topic: str, body: bytes, count: int, argument: str
) -> None:
    async with producer(scripted) as sender:
        with raises(BadArgument, argument=argument):
            await sender.send_encoded(topic, body, count)
    assert broker_counts(scripted) == [0, 0]


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ("x\x01y\x02DELAY\x013", "DELAY"),
        ("TRAN_MSG\x01true", "TRAN_MSG"),
        ("TIMER_DELIVER_MS\x017", "TIMER_DELIVER_MS"),
    ],
)
async def test_a_property_that_no_batch_can_have_is_named(
    scripted: ScriptedCluster, properties: str, name: str
) -> None:
    async with producer(scripted) as sender:
        with pytest.raises(BadArgument, match=name):
            await sender.send_encoded(TOPIC, encoded((b"a", properties)), 1)
    assert broker_counts(scripted) == [0, 0]


async def test_a_body_may_look_like_a_property(scripted: ScriptedCluster) -> None:
    async with producer(scripted) as sender:
        await sender.send_encoded(TOPIC, encoded((b"DELAY\x013", "")), 1)
    assert sum(broker_counts(scripted)) == 1


async def test_a_batch_that_is_too_large_is_cut(scripted: ScriptedCluster) -> None:
    batch = [Message(TOPIC, bytes([number]) * KILOBYTE) for number in range(10)]
    async with producer(scripted, message_size_max=5 * KILOBYTE, compress_over=None) as sending:
        receipts = await sending.send_batch(batch)
    commands = [command for broker in scripted.brokers for command in broker.sends]
    assert len(receipts) == 10
    assert len(commands) > 2
    assert all(len(command.body) <= 5 * KILOBYTE for command in commands)


async def test_what_follows_a_failure_in_a_batch_is_not_tried(scripted: ScriptedCluster) -> None:
    batch = [Message(TOPIC, bytes(KILOBYTE)) for _ in range(10)]
    async with producer(scripted, message_size_max=3 * KILOBYTE, retry_count=0) as sending:
        queue = QueueRef(TOPIC, "a", 0)
        scripted.brokers[0].script = in_turn(accept, refuse(ResponseCode.MESSAGE_ILLEGAL))
        with pytest.raises(SomeFailed) as failure:
            await sending.send_batch(batch, queue=queue)
    outcomes = [type(outcome).__name__ for outcome in failure.value.outcomes]
    stored_count = outcomes.count("SendReceipt")
    refused_count = outcomes.count("SendRefused")
    assert outcomes == [
        *["SendReceipt"] * stored_count,
        *["SendRefused"] * refused_count,
        *["SendFailed"] * (10 - stored_count - refused_count),
    ]
    assert stored_count
    assert broker_counts(scripted) == [2, 0]


async def test_many_messages_are_sent_with_a_receipt_for_each_in_order(
    cluster: LiveCluster,
) -> None:
    async with producer(cluster) as sending:
        receipts = await sending.send_many(
            (Message(TOPIC, b"%d" % number) for number in range(200)), in_flight=16
        )
    bodies = {message.message_id: message.body for message in cluster.all_stored(TOPIC)}
    assert [bodies[receipt.message_id] for receipt in receipts] == [b"%d" % n for n in range(200)]


async def test_of_many_messages_the_bad_one_is_named_and_the_others_arrive(
    cluster: LiveCluster,
) -> None:
    messages = [Message(TOPIC, b"1"), Message("no topic", b"2"), Message(TOPIC, b"3")]
    async with producer(cluster) as sending:
        with pytest.raises(SomeFailed) as failure:
            await sending.send_many(messages)
    assert isinstance(failure.value.outcomes[1], BadArgument)
    assert failure.value.errors == [failure.value.outcomes[1]]
    assert {message.body for message in cluster.all_stored(TOPIC)} == {b"1", b"3"}


async def test_many_messages_share_requests_when_they_may(cluster: LiveCluster) -> None:
    messages = [Message(TOPIC, b"%d" % number) for number in range(2500)]
    messages[7] = Message("no topic", b"bad")
    messages[8] = Message(TOPIC, b"8" * 5000)  # compressed, and so alone
    messages[9] = Message("others", b"9")
    async with producer(cluster, linger_ms=1) as sending:
        with pytest.raises(SomeFailed) as failure:
            await sending.send_many(messages, timeout_s=PATIENT_S)
    outcomes = failure.value.outcomes
    assert isinstance(outcomes[7], BadArgument)
    stored = [*cluster.all_stored(TOPIC), *cluster.all_stored("others")]
    bodies = {message.message_id: message.decompressed_body() for message in stored}
    assert len(bodies) == 2499
    for message, outcome in zip(messages, outcomes, strict=True):
        if isinstance(outcome, SendReceipt):
            assert bodies[outcome.message_id] == message.body
            assert outcome.queue.topic == message.topic


async def test_of_many_messages_that_share_a_request_each_has_its_error(
    scripted: ScriptedCluster,
) -> None:
    for broker in scripted.brokers:
        broker.script = refuse(ResponseCode.MESSAGE_ILLEGAL)
    async with producer(scripted, linger_ms=5) as sending:
        with pytest.raises(SomeFailed) as failure:
            await sending.send_many([Message(TOPIC, b"x")] * 3)
    assert sum(broker_counts(scripted)) == 1
    assert [type(error) for error in failure.value.errors] == [SendRefused] * 3
    assert len(set(map(id, failure.value.errors))) == 3


async def test_gathered_messages_share_requests_and_keep_their_own_receipts(
    scripted: ScriptedCluster,
) -> None:
    async with producer(scripted, linger_ms=20) as sending:
        sends = [sending.send(Message(TOPIC, b"%d" % number)) for number in range(100)]
        receipts = await asyncio.gather(*sends)
    assert sum(broker_counts(scripted)) == 1
    assert [receipt.queue_offset for receipt in receipts] == list(range(100))
    assert len({receipt.message_id for receipt in receipts}) == 100


@pytest.mark.slow
async def test_gathered_messages_of_one_key_keep_their_order(cluster: LiveCluster) -> None:
    async with producer(cluster, linger_ms=1) as sending:
        sends = [
            sending.send(Message(TOPIC, b"%d" % number), order_key=5, timeout_s=PATIENT_S)
            for number in range(3000)
        ]
        await asyncio.gather(*sends)
    stored = cluster.stored(TOPIC, 5 % 4)
    assert [message.body for message in stored] == [b"%d" % number for number in range(3000)]


async def test_what_was_gathered_is_sent_before_the_producer_closes(cluster: LiveCluster) -> None:
    async with producer(cluster, linger_ms=60_000) as sending:
        waiting = asyncio.create_task(sending.send(Message(TOPIC, b"last"), timeout_s=PATIENT_S))
        await eventually(lambda: sending.statistics().in_flight_count)
    assert (await waiting).queue_offset == 0


async def test_a_gathered_failure_reaches_every_sender(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = refuse(ResponseCode.MESSAGE_ILLEGAL)
    async with producer(scripted, linger_ms=5) as sending:
        sends = [sending.send(Message(TOPIC, b"x")) for _ in range(3)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [SendRefused] * 3
    assert len(set(map(id, outcomes))) == 3


# What goes wrong.


async def test_a_refusal_that_no_retry_can_help_is_reported_at_once(
    scripted: ScriptedCluster,
) -> None:
    for broker in scripted.brokers:
        broker.script = refuse(ResponseCode.MESSAGE_ILLEGAL, "too ugly")
    async with producer(scripted) as sending:
        with raises(SendRefused, code=ResponseCode.MESSAGE_ILLEGAL, may_pass=False) as failure:
            await sending.send(Message(TOPIC, b"x"))
    assert "too ugly" in failure.value.reason
    assert sum(broker_counts(scripted)) == 1


async def test_a_busy_broker_is_avoided_in_favour_of_another(scripted: ScriptedCluster) -> None:
    scripted.brokers[0].script = refuse(ResponseCode.SYSTEM_BUSY)
    async with producer(scripted) as sending:
        receipts = [await sending.send(Message(TOPIC, b"x")) for _ in range(4)]
        statistics = sending.statistics()
    assert {receipt.queue.broker_name for receipt in receipts} == {"b"}
    assert broker_counts(scripted) == [statistics.retry_count, 4]


async def test_a_code_that_the_program_names_is_worth_another_attempt(
    scripted: ScriptedCluster,
) -> None:
    scripted.brokers[0].script = refuse(ResponseCode.MESSAGE_ILLEGAL)
    async with producer(scripted, retry_codes={ResponseCode.MESSAGE_ILLEGAL}) as sending:
        receipts = [await sending.send(Message(TOPIC, b"x")) for _ in range(4)]
    assert {receipt.queue.broker_name for receipt in receipts} == {"b"}


async def test_a_code_that_the_program_leaves_out_is_reported_at_once(
    scripted: ScriptedCluster,
) -> None:
    for broker in scripted.brokers:
        broker.script = refuse(ResponseCode.SYSTEM_BUSY)
    async with producer(scripted, retry_codes=()) as sending:
        with pytest.raises(SendRefused):
            await sending.send(Message(TOPIC, b"x"))
    assert sum(broker_counts(scripted)) == 1


async def test_what_is_not_safe_is_tried_elsewhere_if_wanted(scripted: ScriptedCluster) -> None:
    scripted.brokers[0].script = answer_late(ResponseCode.SLAVE_NOT_AVAILABLE)
    async with producer(scripted, retry_not_safe=True) as sending:
        receipts = [await sending.send(Message(TOPIC, b"x")) for _ in range(4)]
    assert {receipt.queue.broker_name for receipt in receipts} == {"b"}
    tried, stored = broker_counts(scripted)
    assert tried >= 1
    assert stored == 4


async def test_what_is_safe_nowhere_is_reported_with_its_place(scripted: ScriptedCluster) -> None:
    scripted.brokers[0].script = answer_late(ResponseCode.FLUSH_DISK_TIMEOUT)
    scripted.brokers[1].script = refuse(ResponseCode.SYSTEM_ERROR)
    async with producer(scripted, retry_not_safe=True, retry_count=3) as sending:
        with pytest.raises(NotYetSafe) as failure:
            await sending.send(Message(TOPIC, b"x"))
    assert failure.value.receipts[0].queue.broker_name == "a"
    assert sum(broker_counts(scripted)) == 4


async def test_a_new_topic_takes_after_the_template_that_the_program_names(
    scripted: ScriptedCluster,
) -> None:
    scripted.names.unknown = {TOPIC}
    async with producer(scripted, template_topic="pattern", new_topic_queue_count=1) as sending:
        receipt = await sending.send(Message(TOPIC, b"x"))
    assert scripted.names.asked == [TOPIC, "pattern"]
    (header,) = [header for broker in scripted.brokers for header in broker.headers]
    assert (header.default_topic, header.default_topic_queue_nums) == ("pattern", 1)
    assert receipt.queue.queue_id == 0


async def test_with_the_fast_port_messages_go_two_ports_below(cluster: LiveCluster) -> None:
    async with producer(cluster, fast_port=True) as sending:
        for number in range(2):
            await sending.send(Message(TOPIC, b"%d" % number))
        await sending.send_oneway(Message(TOPIC, b"2"))
        await eventually(lambda: len(cluster.all_stored(TOPIC)) == 3)
        peers = instance_of(sending).peers
        port = cluster.brokers["broker-a"].config.listen_port
        assert peers.open_connection(f"127.0.0.1:{port - 2}") is not None


async def test_attempts_are_limited(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = refuse(ResponseCode.SYSTEM_ERROR)
    async with producer(scripted, retry_count=3) as sending:
        with pytest.raises(SendRefused):
            await sending.send(Message(TOPIC, b"x"))
    assert broker_counts(scripted) == [2, 2]


async def test_a_message_with_its_place_is_tried_once(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = refuse(ResponseCode.SYSTEM_ERROR)
    async with producer(scripted) as sending:
        for place in ({"order_key": 1}, {"queue": QueueRef(TOPIC, "a", 1)}):
            with pytest.raises(SendRefused):
                await sending.send(Message(TOPIC, b"x"), **place)
    assert sum(broker_counts(scripted)) == 2


async def test_a_broker_that_says_nothing_leaves_the_outcome_unknown(
    scripted: ScriptedCluster,
) -> None:
    async with producer(scripted) as sending:
        # Who has to connect first may find no time to send anything.
        for queue in await sending.queues(TOPIC):
            await sending.send(Message(TOPIC, b"x"), queue=queue)
        for broker in scripted.brokers:
            broker.script = stay_silent
            broker.sends.clear()
        with raises(SendUnknown, topic=TOPIC):
            await sending.send(Message(TOPIC, b"x"), timeout_s=0.1)
        assert sending.statistics().unknown_count == 1
    assert sum(broker_counts(scripted)) == 1


@pytest.mark.slow
async def test_a_slow_broker_may_take_only_its_share_of_the_time(
    scripted: ScriptedCluster,
) -> None:
    scripted.brokers[0].script = stay_silent
    async with producer(scripted, attempt_timeout_s=0.5) as sending:
        receipts = [await sending.send(Message(TOPIC, b"x"), timeout_s=5) for _ in range(4)]
    assert {receipt.queue.broker_name for receipt in receipts} == {"b"}


async def test_a_lost_connection_is_tried_elsewhere(scripted: ScriptedCluster) -> None:
    scripted.brokers[0].script = hang_up
    async with producer(scripted) as sending:
        receipts = [await sending.send(Message(TOPIC, b"x")) for _ in range(4)]
    assert {receipt.queue.broker_name for receipt in receipts} == {"b"}


async def test_a_slow_broker_is_left_alone_for_a_while(scripted: ScriptedCluster) -> None:
    scripted.brokers[0].script = hang_up
    async with producer(scripted, avoid_slow_brokers=True) as sending:
        for _ in range(20):
            await sending.send(Message(TOPIC, b"x"))
    assert broker_counts(scripted) == [1, 20]


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    ],
)
async def test_stored_but_not_safe_is_no_success_and_says_where_it_is(
    scripted: ScriptedCluster, code: ResponseCode
) -> None:
    for broker in scripted.brokers:
        broker.script = answer_late(code)
    async with producer(scripted) as sending:
        with pytest.raises(NotYetSafe) as failure:
            await sending.send(Message(TOPIC, b"x"))
    assert failure.value.receipts[0].queue_offset == 0
    assert sum(broker_counts(scripted)) == 1


@pytest.mark.slow
async def test_after_a_restart_the_broker_gets_messages_again(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        await sending.send(Message(TOPIC, b"before"))
        await cluster.stop_broker("broker-a")
        with pytest.raises(SendFailed, match=r"127\.0\.0\.1:\d+"):
            await sending.send(Message(TOPIC, b"meanwhile"))
        await cluster.start_broker("broker-a")
        await sending.send(Message(TOPIC, b"after"))
    assert {message.body for message in cluster.all_stored(TOPIC)} == {b"before", b"after"}


async def test_a_message_survives_a_short_restart(cluster: LiveCluster) -> None:
    async with producer(cluster, retry_count=50) as sending:
        await sending.send(Message(TOPIC, b"before"))
        await cluster.stop_broker("broker-a")
        waiting = asyncio.create_task(sending.send(Message(TOPIC, b"during"), timeout_s=PATIENT_S))
        await eventually(lambda: sending.statistics().retry_count)
        await cluster.start_broker("broker-a")
        await waiting
    assert {message.body for message in cluster.all_stored(TOPIC)} == {b"before", b"during"}


@pytest.mark.slow
async def test_a_new_broker_is_found(cluster: LiveCluster) -> None:
    async with producer(cluster, route_interval_s=0.05) as sending:
        await sending.send(Message(TOPIC, b"x"))
        await cluster.start_broker("broker-b")
        cluster.brokers["broker-b"].tables.topics.find_or_create(TOPIC, 4)
        names: set[str] = set()
        async with asyncio.timeout(PATIENT_S):
            while len(names) < 2:
                names.add((await sending.send(Message(TOPIC, b"x"))).queue.broker_name)
    assert names == {"broker-a", "broker-b"}


async def test_known_routes_continue_without_name_servers(cluster: LiveCluster) -> None:
    async with producer(cluster, route_interval_s=0.01) as sending:
        await sending.send(Message(TOPIC, b"x"))
        await cluster.stop_names()
        for _ in range(5):
            await sending.send(Message(TOPIC, b"x"))
        with pytest.raises(SendFailed, match=cluster.name_server):
            await sending.send(Message("unseen", b"x"))
        await cluster.start_names()
    assert len(cluster.all_stored(TOPIC)) == 6


async def test_what_may_be_stored_can_be_looked_for_by_its_error(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        receipt = await sending.send(Message(TOPIC, b"x"))
        stored = SendUnknown(TOPIC, "silence", receipt.message_id, (receipt.queue,))
        assert stored.queue == receipt.queue
        assert await sending.is_stored(stored, timeout_s=PATIENT_S)
        lost = SendUnknown(TOPIC, "silence", "0" * 32, (receipt.queue,))
        assert not await sending.is_stored(lost, timeout_s=PATIENT_S)
        with raises(BadArgument, argument="queue"):
            await sending.is_stored(SendUnknown(TOPIC, "silence"))
        with raises(BadArgument, argument="message_id"):
            await sending.is_stored(receipt.queue)


async def test_an_unknown_outcome_has_the_id_and_the_queues_it_was_sent_to(
    scripted: ScriptedCluster,
) -> None:
    for broker in scripted.brokers:
        broker.script = stay_silent
    async with producer(scripted, attempt_timeout_s=0.05, retry_count=1) as sending:
        with pytest.raises(SendUnknown) as raised:
            await sending.send(Message(TOPIC, b"x", message_id="order-7"))
    assert raised.value.message_id == "order-7"
    assert {queue.broker_name for queue in raised.value.queues} == {"a", "b"}
    sent = {header.properties for broker in scripted.brokers for header in broker.headers}
    assert all("UNIQ_KEY\x01order-7" in (properties or "") for properties in sent)


async def test_each_of_many_has_its_own_id_in_its_error(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = stay_silent
    messages = [Message(TOPIC, b"x", message_id=f"m{number}") for number in range(3)]
    async with producer(scripted, linger_ms=1.0, retry_unknown=False) as sending:
        with pytest.raises(SomeFailed) as raised:
            await sending.send_many(messages, timeout_s=0.2)
    errors = [error for error in raised.value.errors if isinstance(error, SendUnknown)]
    assert [error.message_id for error in errors] == ["m0", "m1", "m2"]


async def test_what_may_be_stored_is_not_repeated_if_so_configured(
    scripted: ScriptedCluster,
) -> None:
    for broker in scripted.brokers:
        broker.script = hang_up
    async with producer(scripted, retry_unknown=False) as sending:
        with pytest.raises(SendUnknown):
            await sending.send(Message(TOPIC, b"x"))
    assert sum(broker_counts(scripted)) == 1


async def test_kinds_that_programs_have_at_hand_are_taken(cluster: LiveCluster) -> None:
    order = UUID(int=7)
    given: list[Keys] = ["one", 7, order, ["two", 8, order]]
    async with producer(cluster) as sending:
        for keys in given:
            message = Message(TOPIC, memoryview(b"body"), keys=keys)
            receipt = await sending.send(message, order_key=order)
        await sending.send_batch(
            (Message(TOPIC, b"%d" % number) for number in range(2)), queue=receipt.queue
        )
    stored = cluster.stored(TOPIC, receipt.queue.queue_id)
    assert [each.keys for each in stored][:4] == [
        ("one",),
        ("7",),
        (str(order),),
        ("two", "8", str(order)),
    ]
    assert [each.body for each in stored] == [*[b"body"] * 4, b"0", b"1"]


async def test_a_topic_that_is_never_created_is_a_failure_that_names_it(
    scripted: ScriptedCluster,
) -> None:
    scripted.names.unknown = {TOPIC, "TBW102"}
    async with producer(scripted) as sending:
        with pytest.raises(SendFailed, match="create it"):
            await sending.send(Message(TOPIC, b"x"))


async def test_too_much_in_flight_waits_and_then_fails(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = stay_silent
    async with producer(scripted, in_flight_max=2) as sending:
        first = [asyncio.create_task(sending.send(Message(TOPIC, b"x"))) for _ in range(2)]
        await eventually(lambda: sum(broker_counts(scripted)) == 2)
        with pytest.raises(SendFailed, match="no room within"):
            await sending.send(Message(TOPIC, b"x"), timeout_s=0.01)
        third = asyncio.create_task(sending.send(Message(TOPIC, b"x")))
        await eventually(lambda: sending.statistics().waiting_count == 1)
        for broker in scripted.brokers:
            broker.answer_parked()
        await asyncio.gather(*first)
        await eventually(lambda: sum(broker_counts(scripted)) == 3)
        for broker in scripted.brokers:
            broker.answer_parked()
        await third


async def test_a_moment_is_not_given_to_a_broker_that_would_ignore_it(
    scripted: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Scripted brokers are ours by their language; as Java of this version they are a 4.9.
    monkeypatch.setattr("roquet.client.cluster.heartbeats.OUR_LANGUAGE", "ESPERANTO")
    async with producer(scripted) as sending:
        with raises(SendFailed, topic=TOPIC, may_pass=False):
            await sending.send(Message(TOPIC, b"x"), delay=timedelta(minutes=1))
        await sending.send(Message(TOPIC, b"x"), delay_level=5)
    assert sum(broker_counts(scripted)) == 1


def test_one_attempt_that_may_have_arrived_makes_the_outcome_unknown() -> None:
    lost = CallTimedOut("a:1", 310, 1.0)
    never_sent = ConnectFailed("b:1", "nobody there")
    assert type(judged(TOPIC, [lost, never_sent])) is SendUnknown
    assert type(judged(TOPIC, [lost, NoTimers("b:1")])) is SendUnknown
    assert type(judged(TOPIC, [never_sent])) is SendFailed
    assert type(judged(TOPIC, [])) is SendFailed


# Arguments.


@pytest.mark.parametrize(
    ("message", "argument"),
    [
        (Message("", b"x"), "topic"),
        (Message("white space", b"x"), "topic"),
        (Message("t" * 128, b"x"), "topic"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "topic"),
        (Message(TOPIC, b""), "body"),
        (Message(TOPIC, bytes(4 * KILOBYTE * KILOBYTE + 1)), "body"),
        (Message(TOPIC, b"x", properties={"DELAY": "3"}), "properties"),
        (Message(TOPIC, b"x", properties={"a": "b\x02c"}), "properties"),
        (Message(TOPIC, b"x", properties={"a": ""}), "properties"),
        (Message(TOPIC, b"x", properties={"a": "ä" * 16_384}), "properties"),
        (Message(TOPIC, b"x", keys=("two words",)), "keys"),
    ],
)
async def test_a_message_that_cannot_be_sent_is_refused_before_it_is(
    scripted: ScriptedCluster, message: Message, argument: str
) -> None:
    async with producer(scripted) as sending:
        for send in (sending.send, sending.send_oneway):
            with raises(BadArgument, argument=argument):
                await send(message)
        with raises(BadArgument, argument=argument):
            await sending.send_batch([message])
    assert not scripted.names.asked


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"queue": QueueRef("bills", "a", 0)}, "queue"),
        ({"queue": QueueRef(TOPIC, "a", 0), "order_key": 1}, "order_key"),
        ({"delay_level": 0}, "delay_level"),
        ({"delay": datetime(2030, 1, 1)}, "delay"),  # noqa: DTZ001  That is the point.
    ],
)
async def test_options_that_cannot_be_are_refused(
    scripted: ScriptedCluster, options: dict[str, Any], argument: str
) -> None:
    async with producer(scripted) as sending:
        with raises(BadArgument, argument=argument):
            await sending.send(Message(TOPIC, b"x"), **options)


@pytest.mark.parametrize(
    ("batch", "argument"),
    [
        ([], "messages"),
        ([Message("a", b"x"), Message("b", b"x")], "messages"),
        ([Message("%RETRY%g", b"x")], "topic"),
    ],
)
async def test_batches_that_cannot_be_are_refused(
    scripted: ScriptedCluster, batch: list[Message], argument: str
) -> None:
    async with producer(scripted) as sending:
        with raises(BadArgument, argument=argument):
            await sending.send_batch(batch)


@pytest.mark.parametrize(
    "options",
    [
        {"group": "white space"},
        {"group": "DEFAULT_PRODUCER"},
        {"group": "g" * 256},
        {"name_server": " ; "},
        {"retry_count": -1},
        {"retry_codes": "12"},
        {"retry_codes": [True]},
        {"template_topic": "white space"},
        {"in_flight_max": 0},
        {"linger_ms": -1},
    ],
)
def test_a_producer_that_cannot_be_is_refused_when_it_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(BadArgument):
        AsyncProducer(**{"name_server": "127.0.0.1:9876", "group": "shop"} | options)


@pytest.mark.parametrize("address", ["127.0.0.1:9876;localhost", "a:1,b:2", "rocketmq://a:9876"])
def test_an_address_of_another_form_is_refused_when_the_producer_is_made(address: str) -> None:
    with pytest.raises(BadAddress):
        AsyncProducer(address, "shop")


# Opening and closing.


async def test_a_producer_is_used_between_open_and_close(cluster: LiveCluster) -> None:
    sending = producer(cluster)
    with raises(NotOpen, what="producer", was_open=False):
        await sending.send(Message(TOPIC, b"x"))
    await sending.open()
    await sending.open()
    await sending.send(Message(TOPIC, b"x"))
    await sending.close()
    await sending.close()
    with raises(NotOpen, what="producer", was_open=True):
        await sending.send(Message(TOPIC, b"x"))
    with raises(NotOpen, what="producer", was_open=True):
        await sending.open()


async def test_a_fork_learns_that_it_needs_a_producer_of_its_own(cluster: LiveCluster) -> None:
    async with producer(cluster) as sending:
        child = os.fork()
        if child == 0:
            # Whatever happens, nothing of pytest may run here, and no loop either.
            try:
                sending.send(Message(TOPIC, b"x")).send(None)
            except UsedAfterFork:
                os._exit(7)
            finally:
                os._exit(1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        await sending.send(Message(TOPIC, b"x"))


async def test_closing_waits_for_what_is_on_its_way(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = stay_silent
    sending = producer(scripted)
    await sending.open()
    waiting = asyncio.create_task(sending.send(Message(TOPIC, b"x")))
    await eventually(lambda: sum(broker_counts(scripted)))
    closing = asyncio.create_task(sending.close())
    await asyncio.sleep(0)
    for broker in scripted.brokers:
        broker.answer_parked()
    await closing
    assert (await waiting).queue_offset == 0


async def test_brokers_hear_of_the_producer_and_of_its_end(scripted: ScriptedCluster) -> None:
    async with producer(scripted, heartbeat_interval_s=0.02) as sending:
        await sending.send(Message(TOPIC, b"x"))
        await eventually(lambda: all(len(broker.beats) > 2 for broker in scripted.brokers))
    for broker in scripted.brokers:
        beat = broker.beats[0]
        assert [each.group_name for each in beat.producer_data_set] == ["shop"]
        (leaver,) = broker.leavers
        assert (leaver.client_id, leaver.producer_group) == (beat.client_id, "shop")
    assert len({broker.beats[0].client_id for broker in scripted.brokers}) == 1


async def test_two_producers_of_a_process_have_ids_of_their_own(scripted: ScriptedCluster) -> None:
    for _ in range(2):
        async with producer(scripted) as sending:
            await sending.send(Message(TOPIC, b"x"))
            await eventually(lambda: all(broker.beats for broker in scripted.brokers))
    assert len({leaver.client_id for leaver in scripted.brokers[0].leavers}) == 2


async def test_every_request_is_signed(scripted: ScriptedCluster) -> None:
    credentials = Credentials("key", "secret", "token")
    async with producer(scripted, credentials=credentials) as sending:
        await sending.send(Message(TOPIC, b"x"))
        await eventually(lambda: all(broker.beats for broker in scripted.brokers))
    (command,) = [command for broker in scripted.brokers for command in broker.sends]
    fields = field_texts(command.fields)
    assert (fields["AccessKey"], fields["SecurityToken"]) == ("key", "token")
    assert has_valid_signature(fields, command.body, command.version, "secret")
    assert scripted.brokers[0].beat_fields[0]["AccessKey"] == "key"
    assert "secret" not in repr(credentials)


async def test_statistics_show_what_was_done(scripted: ScriptedCluster) -> None:
    async with producer(scripted) as sending:
        await sending.send(Message(TOPIC, b"123"))
        await sending.send_oneway(Message(TOPIC, b"x"))
        for broker in scripted.brokers:
            broker.script = refuse(ResponseCode.MESSAGE_ILLEGAL, "ugly")
        with pytest.raises(SendRefused):
            await sending.send(Message(TOPIC, b"x"))
        statistics = sending.statistics()
    assert (statistics.stored_count, statistics.stored_size) == (1, 3)
    assert (statistics.oneway_count, statistics.failed_count) == (1, 1)
    assert (statistics.unknown_count, statistics.in_flight_count) == (0, 0)
    assert "ugly" in (statistics.last_error or "")
