"""Replies to requests: on to who asked, and into the reply topic."""

from pathlib import Path
from typing import Any

import pytest

from roquet.broker.handlers import relays
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts, fields_of, read_header
from roquet.protocol.headers.messages import (
    PushReplyHeader,
    SendMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.properties import parse_properties
from roquet.store.config import FlushMode
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.full_disk import FullDisk
from tests.support.golden_frames import GoldenFrame, golden_frames
from tests.support.late_disk import stop_disk, until_late
from tests.support.stores import messages, small_config

TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = (
    "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01asker\x02UNIQ_KEY\x01K\x02CORRELATION_ID\x01c-1"
)


def header(**members: Any) -> SendMessageHeaderV2:
    values: dict[str, Any] = {
        "producer_group": "repliers",
        "topic": TOPIC,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0x301,
        "born_timestamp": 1_700_000_000_000,
        "flag": 3,
        "properties": PROPERTIES,
    }
    return SendMessageHeaderV2(**(values | members))


def send(client: BedClient, reply_header: SendMessageHeader | None = None) -> None:
    """Without waiting for the answer: that comes after the client that asked has the reply."""
    fields = fields_of(reply_header or header())
    client.send(Command(RequestCode.SEND_REPLY_MESSAGE_V2, 5, fields=fields, body=b"answer"))


def stored(bed: BrokerBed) -> list[StoredMessage]:
    return messages(bed.broker.store, TOPIC)


@pytest.fixture
async def asker(bed: BrokerBed) -> BedClient:
    client = bed.connect()
    await client.beat("asker", sends=["askers"])
    return client


async def test_the_client_that_asked_gets_the_reply(
    bed: BrokerBed, client: BedClient, asker: BedClient
) -> None:
    send(client)
    pushed = await asker.asked()
    assert (pushed.code, pushed.is_oneway, pushed.body) == (326, False, b"answer")
    sent = read_header(PushReplyHeader, pushed.fields)
    assert (sent.topic, sent.queue_id, sent.flag, sent.sys_flag) == (TOPIC, 0, 3, 0x301)
    assert (sent.producer_group, sent.born_timestamp) == ("repliers", 1_700_000_000_000)
    assert sent.born_host == str(client.connection.peer_address)
    assert sent.store_host == "127.0.0.1:10911"
    assert sent.store_timestamp == bed.clock.now_ms()
    assert parse_properties(sent.properties or "") == parse_properties(PROPERTIES) | {
        "PUSH_REPLY_TIME": str(bed.clock.now_ms())
    }


async def test_the_reply_is_stored_as_it_came(
    bed: BrokerBed, client: BedClient, asker: BedClient
) -> None:
    send(client)
    asker.answer(await asker.asked())
    answer = await client.replied()
    (message,) = stored(bed)
    assert answer.code == ResponseCode.SUCCESS
    sent = read_header(SendMessageReplyHeader, answer.fields)
    assert (sent.msg_id, sent.queue_id, sent.queue_offset) == (message.offset_id, 0, 0)
    assert (sent.region_id, sent.is_traced) == ("DefaultRegion", True)
    assert (message.body, message.flag, message.sys_flag) == (b"answer", 3, 0x301)
    assert message.raw_properties.startswith(PROPERTIES.encode() + b"\x02__CRC32#")


async def test_nothing_is_answered_before_the_client_that_asked_did(
    bed: BrokerBed, client: BedClient, asker: BedClient
) -> None:
    send(client)
    pushed = await asker.asked()
    assert client._replies.empty()
    assert stored(bed) == []
    asker.answer(pushed)
    assert (await client.replied()).code == ResponseCode.SUCCESS


async def test_without_a_copy_for_the_topic_the_answer_has_an_id_all_the_same(
    tmp_path: Path,
) -> None:
    async with broker_bed(tmp_path, store_replies=False) as bed:
        client = bed.connect()
        await client.beat("asker", sends=["askers"])
        send(client)
        client.answer(await client.asked())
        answer = await client.replied()
        sent = read_header(SendMessageReplyHeader, answer.fields)
        assert (answer.code, sent.msg_id, sent.queue_offset) == (ResponseCode.SUCCESS, "0", 0)
        assert stored(bed) == []


@pytest.mark.parametrize("properties", ["UNIQ_KEY\x01K", None, "REPLY_TO_CLIENT\x01stranger"])
async def test_a_reply_without_a_waiter_is_stored_and_fails(
    bed: BrokerBed, client: BedClient, asker: BedClient, properties: str | None
) -> None:
    send(client, header(properties=properties))
    answer = await client.replied()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len(stored(bed)) == 1


async def test_a_client_that_does_not_take_the_reply_makes_it_fail(
    bed: BrokerBed, client: BedClient, asker: BedClient
) -> None:
    send(client)
    asker.answer(await asker.asked(), ResponseCode.SYSTEM_ERROR, remark="who are you?")
    answer = await client.replied()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "who are you?" in (answer.remark or "")


async def test_a_client_that_goes_before_it_has_the_reply_makes_it_fail(
    bed: BrokerBed, client: BedClient, asker: BedClient
) -> None:
    send(client)
    await asker.asked()
    asker.leave()
    assert (await client.replied()).code == ResponseCode.SYSTEM_ERROR


async def test_a_client_that_says_nothing_is_not_waited_for_for_ever(
    bed: BrokerBed, client: BedClient, asker: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert relays.PUSH_TIMEOUT_S == 10
    monkeypatch.setattr(relays, "PUSH_TIMEOUT_S", 0.01)
    send(client)
    assert (await client.replied()).code == ResponseCode.SYSTEM_ERROR


async def test_a_consumer_that_never_sends_is_not_found(bed: BrokerBed, client: BedClient) -> None:
    # Only producers ask, and only their heartbeats say where they are.
    consumer = bed.connect()
    await consumer.beat("asker", reads={"readers": ["TopicA"]})
    send(client)
    assert (await client.replied()).code == ResponseCode.SYSTEM_ERROR
    assert {each.code for each in await consumer.all_asked()} == {
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    }


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION),
        ({"topic": "no name"}, ResponseCode.SYSTEM_ERROR),
        ({"queue_id": 1}, ResponseCode.SYSTEM_ERROR),
        ({"topic": "Unknown", "default_topic": "none"}, ResponseCode.TOPIC_NOT_EXIST),
    ],
)
async def test_what_cannot_be_sent_cannot_be_replied_either(
    bed: BrokerBed, client: BedClient, asker: BedClient, members: dict[str, Any], code: int
) -> None:
    send(client, header(**members))
    assert (await client.replied()).code == code
    assert await asker.all_asked() == []


async def test_no_queue_in_particular_means_any(
    bed: BrokerBed, client: BedClient, asker: BedClient
) -> None:
    send(client, header(queue_id=-1))
    asker.answer(await asker.asked())
    sent = read_header(SendMessageReplyHeader, (await client.replied()).fields)
    assert sent.queue_id == 0


async def test_a_reply_that_cannot_be_stored_still_reaches_its_client(tmp_path: Path) -> None:
    disk = FullDisk("commitlog")
    async with broker_bed(tmp_path, disk=disk) as bed:
        client = bed.connect()
        await client.beat("asker", sends=["askers"])
        bed.put(bytes(3700))
        disk.is_full = True
        for _ in range(40):
            send(client)
            client.answer(await client.asked())
            answer = await client.replied()
            assert answer.code == ResponseCode.SUCCESS
        assert read_header(SendMessageReplyHeader, answer.fields).msg_id == "0"


async def test_with_sync_flush_the_answer_waits_for_the_disk(tmp_path: Path) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        client = bed.connect()
        await client.beat("asker", sends=["askers"])
        send(client)
        client.answer(await client.asked())
        assert (await client.replied()).code == ResponseCode.SUCCESS
        assert bed.broker.store.synced_end == bed.broker.store.log_end > 0


@pytest.mark.slow
async def test_with_sync_flush_a_copy_that_is_late_on_disk_is_no_failure(tmp_path: Path) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        client = bed.connect()
        await client.beat("asker", sends=["askers"])
        stop_disk(bed)
        send(client)
        client.answer(await client.asked())
        await eventually(lambda: bed.broker.store.log_end > 0)
        await until_late(bed.broker.messages.acks, bed.clock, bed.connect())
        assert (await client.replied()).code == ResponseCode.SUCCESS
        assert client.connection.deferred_count == 0


# --- recorded ---


def exchanges() -> list[tuple[GoldenFrame, GoldenFrame]]:
    """Each reply that an Apache 4.9.7 broker got, and what it pushed."""
    frames = [frame for frame in golden_frames() if "_s49_" in frame.scenario]
    replied = [
        frame for frame in frames if frame.request_code in (324, 325) and frame.kind == "request"
    ]
    pushed = [frame for frame in frames if frame.request_code == 326 and frame.kind == "request"]
    return [
        (reply, push)
        for reply in replied
        for push in pushed
        if push.scenario == reply.scenario and push.command.body == reply.command.body
    ]


async def test_what_apache_pushed_is_pushed(bed: BrokerBed, client: BedClient) -> None:
    asker = bed.connect()
    await asker.beat("10.9.7.1@drv", sends=["askers"])
    pairs = exchanges()
    assert len(pairs) >= 6
    for reply, push in pairs:
        client.send(reply.command)
        pushed = await asker.asked()
        asker.answer(pushed)
        assert (await client.replied()).code == ResponseCode.SUCCESS
        assert fields_without_time(pushed) == fields_without_time(push.command), push.place


def fields_without_time(command: Command) -> dict[str, object]:
    texts: dict[str, object] = dict(field_texts(command.fields))
    properties = parse_properties(str(texts.pop("properties")))
    assert properties.pop("PUSH_REPLY_TIME") == texts.pop("storeTimestamp")
    # Other clients and brokers than those of the recording.
    del texts["bornHost"], texts["storeHost"]
    return texts | {"properties": properties}
