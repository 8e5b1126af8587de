"""Sends and what becomes of them."""

import asyncio
from pathlib import Path

import pytest

from roquet.net.limits import ConnectionLimits
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import CommandFlag, Permission, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts, fields_of, read_header
from roquet.protocol.headers.messages import (
    SendMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.batch import BatchItem
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.message_id import parse_offset_id
from roquet.protocol.messages.record import read_record
from roquet.store.config import FlushMode
from tests.support.broker_bed import VERSION_5_5_0, BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.inner_parts import flusher_of
from tests.support.late_disk import stop_disk, until_late
from tests.support.stores import small_config

V4_9_7 = 407


def header(topic: str = "TopicA", **members: object) -> SendMessageHeaderV2:
    values: dict[str, object] = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": "UNIQ_KEY\x01ID\x02WAIT\x01true\x02TAGS\x01red",
    }
    return SendMessageHeaderV2(**(values | members))  # type: ignore[arg-type]


async def send(
    client: BedClient,
    send_header: SendMessageHeader | None = None,
    body: bytes = b"hello",
    *,
    code: RequestCode = RequestCode.SEND_MESSAGE_V2,
    version: int = V4_9_7,
) -> Command:
    return await client.ask(code, send_header or header(), body, version=version)


def sent(reply: Command) -> SendMessageReplyHeader:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return read_header(SendMessageReplyHeader, reply.fields)


def stored(bed: BrokerBed, reply: Command) -> StoredMessage:
    place = parse_offset_id(sent(reply).msg_id)
    return read_record(bed.broker.store.record_at(place.physical_offset))


def properties_of(message: StoredMessage) -> dict[str, str]:
    """Without the checksum, which depends on the place."""
    return {name: value for name, value in message.properties.items() if name != "__CRC32#"}


async def test_a_message_is_stored_as_it_was_sent(bed: BrokerBed, client: BedClient) -> None:
    reply = await send(
        client, header(queue_id=1, flag=7, sys_flag=0x301, reconsume_times=2), b"body"
    )
    message = stored(bed, reply)
    assert (message.topic, message.queue_id, message.body) == ("TopicA", 1, b"body")
    assert (message.flag, message.sys_flag, message.reconsume_times) == (7, 0x301, 2)
    assert message.born_timestamp == 1_700_000_000_000
    assert message.born_host == client.connection.peer_host
    assert message.store_host == bed.broker.messages.store_host


async def test_the_reply_names_the_place(bed: BrokerBed, client: BedClient) -> None:
    await send(client)
    reply = sent(await send(client))
    assert (reply.queue_id, reply.queue_offset) == (0, 1)
    assert (reply.region_id, reply.is_traced) == ("DefaultRegion", True)


async def test_both_forms_of_a_send_mean_the_same(bed: BrokerBed, client: BedClient) -> None:
    long_form = SendMessageHeader(
        producer_group="producers",
        topic="TopicA",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="UNIQ_KEY\x01ID\x02WAIT\x01true\x02TAGS\x01red",
    )
    first = stored(bed, await send(client, long_form, code=RequestCode.SEND_MESSAGE))
    second = stored(bed, await send(client))
    assert properties_of(first) == properties_of(second)
    assert first.body == second.body


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("UNIQ_KEY\x01A\x02WAIT\x01true\x02TAGS\x01t", {"UNIQ_KEY": "A", "TAGS": "t"}),
        ("UNIQ_KEY\x01A\x02WAIT\x01true", {"UNIQ_KEY": "A"}),
        ("UNIQ_KEY\x01A\x02WAIT\x01true\x02", {"UNIQ_KEY": "A"}),
        ("WAIT\x01true\x02UNIQ_KEY\x01A", {"UNIQ_KEY": "A"}),
        ("WAIT\x01false\x02UNIQ_KEY\x01A", {"UNIQ_KEY": "A"}),
        ("WAITER\x01true\x02NOWAIT\x01true", {"WAITER": "true", "NOWAIT": "true"}),
        ("A\x01b\x02WAIT\x01trueish", {"A": "b"}),
        (None, {}),
    ],
)
async def test_the_cluster_is_added_and_the_wish_to_wait_is_not_kept(
    bed: BrokerBed, client: BedClient, properties: str | None, expected: dict[str, str]
) -> None:
    message = stored(bed, await send(client, header(properties=properties)))
    assert properties_of(message) == expected | {"CLUSTER": "DefaultCluster"}


async def test_an_unknown_topic_is_made_like_its_template_and_registered(
    bed: BrokerBed, client: BedClient
) -> None:
    await send(client, header("Fresh", queue_id=3))
    topic = bed.broker.tables.topics.find("Fresh")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (4, 4, 6)
    assert bed.wants_to_register
    assert "topics.json" in bed.unsaved_files


async def test_without_permission_to_make_topics_an_unknown_one_is_refused(
    tmp_path: Path,
) -> None:
    async with broker_bed(tmp_path, create_topics=False) as bed:
        reply = await send(bed.connect(), header("Fresh"))
        assert reply.code == ResponseCode.TOPIC_NOT_EXIST
        assert "Fresh" not in bed.broker.tables.topics


@pytest.mark.parametrize(
    ("members", "code_4_9", "code_5_5"),
    [
        ({"topic": "no good"}, ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER),
        ({"topic": "t" * 128}, ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": 2}, ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION),
        ({"topic": "rmq_sys_wheel_timer"}, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION),
        (
            {"properties": "A\x01" + "b" * 32_768},
            ResponseCode.MESSAGE_ILLEGAL,
            ResponseCode.MESSAGE_ILLEGAL,
        ),
    ],
)
async def test_what_cannot_be_is_refused_and_nothing_is_stored(
    bed: BrokerBed,
    client: BedClient,
    members: dict[str, object],
    code_4_9: ResponseCode,
    code_5_5: ResponseCode,
) -> None:
    end = bed.broker.store.log_end
    assert (await send(client, header(**members))).code == code_4_9  # type: ignore[arg-type]
    reply = await send(client, header(**members), version=VERSION_5_5_0)  # type: ignore[arg-type]
    assert reply.code == code_5_5
    assert bed.broker.store.log_end == end


async def test_a_body_over_the_limit_is_illegal(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        size_max = bed.broker.config.store.body_size_max
        reply = await send(bed.connect(), header("Fresh"), bytes(size_max + 1))
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert bed.broker.statistics.runtime_entries()["putMessageFailedTimes"] == "1"


async def test_a_negative_queue_lets_the_broker_choose(bed: BrokerBed, client: BedClient) -> None:
    queues = {sent(await send(client, header(queue_id=-1))).queue_id for _ in range(50)}
    assert queues == {0, 1}


async def test_a_message_that_was_tried_too_often_is_a_dead_letter(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name="readers", retry_max_times=3))
    for times, topic in ((2, "%RETRY%readers"), (3, "%DLQ%readers")):
        reply = await send(client, header("%RETRY%readers", reconsume_times=times))
        assert stored(bed, reply).topic == topic
    lower = header("%RETRY%readers", reconsume_times=1, max_reconsume_times=1)
    assert stored(bed, await send(client, lower)).topic == "%DLQ%readers"


async def test_an_ordered_topic_is_refused_while_the_broker_is_not_writable(
    tmp_path: Path,
) -> None:
    async with broker_bed(tmp_path, permission=int(Permission.READ)) as bed:
        for name, is_ordered in (("Ordered", True), ("Plain", False)):
            bed.broker.tables.topics.update(TopicConfig(topic_name=name, order=is_ordered))
        client = bed.connect()
        assert (await send(client, header("Ordered"))).code == ResponseCode.NO_PERMISSION
        assert (await send(client, header("Plain"))).code == ResponseCode.SUCCESS


async def test_no_message_is_taken_before_the_time_the_operator_set(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, accept_sends_from_ms=2**62) as bed:
        assert (await send(bed.connect(), header("Fresh"))).code == ResponseCode.SYSTEM_ERROR


def batch(*properties: bytes) -> bytes:
    return encode_batch(
        BatchItem(index, b"body %d" % index, each) for index, each in enumerate(properties)
    )


async def send_batch(client: BedClient, body: bytes, properties: str = "WAIT\x01true") -> Command:
    return await send(
        client,
        header(batch=True, properties=properties),
        body,
        code=RequestCode.SEND_BATCH_MESSAGE,
    )


async def test_the_messages_of_a_batch_follow_each_other(bed: BrokerBed, client: BedClient) -> None:
    await send(client)
    reply = sent(await send_batch(client, batch(b"UNIQ_KEY\x01A", b"UNIQ_KEY\x01B\x02", b"")))
    assert (reply.queue_id, reply.queue_offset) == (0, 1)
    messages = [
        read_record(bed.broker.store.record_at(parse_offset_id(each).physical_offset))
        for each in reply.msg_id.split(",")
    ]
    assert [message.queue_offset for message in messages] == [1, 2, 3]
    assert [message.body for message in messages] == [b"body 0", b"body 1", b"body 2"]
    assert [message.flag for message in messages] == [0, 1, 2]
    assert [message.properties.get("UNIQ_KEY") for message in messages] == ["A", "B", None]
    assert {message.properties["CLUSTER"] for message in messages} == {"DefaultCluster"}


async def test_the_id_of_a_batch_does_not_hide_those_of_its_messages(
    bed: BrokerBed, client: BedClient
) -> None:
    reply = sent(
        await send_batch(
            client, batch(b"UNIQ_KEY\x01A", b"UNIQ_KEY\x01B"), "UNIQ_KEY\x01BATCH\x02WAIT\x01true"
        )
    )
    ids = [
        read_record(bed.broker.store.record_at(parse_offset_id(each).physical_offset)).message_id
        for each in reply.msg_id.split(",")
    ]
    assert ids == ["A", "B"]


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        (b"", "WAIT\x01true"),
        (batch(b"A\x01b"), "DELAY\x013"),
    ],
)
async def test_a_batch_that_cannot_be_is_illegal(
    client: BedClient, body: bytes, properties: str
) -> None:
    assert (await send_batch(client, body, properties)).code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_damaged_batch_is_refused_whole(bed: BrokerBed, client: BedClient) -> None:
    end = bed.broker.store.log_end
    reply = await send_batch(client, batch(b"A\x01b", b"A\x01b")[:-1])
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert bed.broker.store.log_end == end


async def test_a_one_way_send_is_stored_and_not_answered(bed: BrokerBed, client: BedClient) -> None:
    client.send(
        Command(
            RequestCode.SEND_MESSAGE_V2,
            99,
            int(CommandFlag.ONEWAY),
            fields=fields_of(header()),
            body=b"quiet",
        )
    )
    reply = await send(client)
    assert sent(reply).queue_offset == 1  # The first one took offset 0 and had no reply.


async def test_with_sync_flush_the_reply_waits_for_the_disk(tmp_path: Path) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        client = bed.connect()
        reply = sent(await send(client, header("Fresh")))
        end = parse_offset_id(reply.msg_id).physical_offset
        assert bed.broker.store.synced_end > end


@pytest.mark.slow
async def test_a_sender_waits_for_the_disk_as_long_as_the_operator_wants(tmp_path: Path) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config, sync_timeout_ms=1_000) as bed:
        flusher_of(bed.broker.store).stop()  # A disk that takes for ever.
        client = bed.connect()
        reply = asyncio.ensure_future(send(client, header("Fresh")))
        await eventually(lambda: bed.broker.store.log_end)
        bed.clock.advance(1.5)  # Less than what is usual.
        assert (await reply).code == ResponseCode.FLUSH_DISK_TIMEOUT


@pytest.mark.slow
async def test_with_sync_flush_a_late_disk_is_reported_with_the_place_of_the_message(
    tmp_path: Path,
) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        stop_disk(bed)
        asking = asyncio.create_task(send(bed.connect(), header("Fresh")))
        await asyncio.sleep(0)
        await until_late(bed.broker.messages.acks, bed.clock, bed.connect())
        reply = await asking
        assert reply.code == ResponseCode.FLUSH_DISK_TIMEOUT
        reported = read_header(SendMessageReplyHeader, reply.fields)
        assert parse_offset_id(reported.msg_id).physical_offset == 0
        assert (reported.queue_id, reported.queue_offset) == (0, 0)


async def test_a_send_that_may_not_wait_for_the_disk_is_refused_before_it_is_stored(
    tmp_path: Path,
) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        client = bed.connect(ConnectionLimits(deferred_count_max=0))
        reply = await send(client, header("Fresh"))
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert bed.broker.store.log_end == 0


async def test_a_client_that_does_not_wait_is_answered_before_the_disk_has_it(
    tmp_path: Path,
) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        client = bed.connect()
        reply = await send(client, header("Fresh", properties="WAIT\x01false"))
        assert sent(reply).queue_offset == 0
        await eventually(lambda: bed.broker.store.max_offset("Fresh", 0) == 1)


async def test_what_was_stored_is_counted(bed: BrokerBed, client: BedClient) -> None:
    await send(client)
    await send_batch(client, batch(b"A\x01b", b"A\x01b"))
    assert bed.broker.statistics.runtime_entries()["msgPutTotalTodayNow"] == "3"
    assert "TRACE_ON" in field_texts((await send(client)).fields)
