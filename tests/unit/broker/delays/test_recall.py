"""Timed messages that are called back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.broker.delays.delays import loaded_delays
from roquet.broker.delays.delivering import deliver_slice
from roquet.broker.delays.due import SliceBudget
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import read_header
from roquet.protocol.headers.messages import (
    RecallMessageHeader,
    RecallMessageReplyHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.recall_handle import RecallHandle
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import TIMER_TOPIC
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed

TOPIC = "TopicA"


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        bed.broker.tables.topics.find_or_create(TOPIC, 1)
        yield bed


@pytest.fixture
async def client(bed: BrokerBed) -> BedClient:
    return bed.connect()


async def send(client: BedClient, key: str, delay: str = "TIMER_DELAY_SEC\x0110") -> str | None:
    """The handle."""
    header = SendMessageHeaderV2(
        producer_group="p",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=f"UNIQ_KEY\x01{key}\x02{delay}",
    )
    reply = await client.ask(RequestCode.SEND_MESSAGE_V2, header, key.encode())
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return read_header(SendMessageReplyHeader, reply.fields).recall_handle


async def recall(client: BedClient, handle: str | None, topic: str = TOPIC) -> Command:
    header = RecallMessageHeader(topic=topic, recall_handle=handle or "")
    return await client.ask(RequestCode.RECALL_MESSAGE, header)


def delivered_after(bed: BrokerBed, seconds: float) -> list[bytes]:
    bed.clock.advance(seconds)
    broker = bed.broker
    deliver_slice(broker.messages, broker.waiting.delays, SliceBudget(bed.clock))
    return [read_record(record).body for _, record in broker.store.records(TOPIC, 0, 0)]


async def test_a_recalled_message_is_not_delivered(bed: BrokerBed, client: BedClient) -> None:
    handle = await send(client, "id1")
    await send(client, "id2")
    reply = await recall(client, handle)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    assert read_header(RecallMessageReplyHeader, reply.fields).msg_id == "id1"
    assert delivered_after(bed, 12) == [b"id2"]
    assert bed.broker.waiting.delays.timers.pending_count == 0


async def test_the_handle_and_the_mark_have_the_form_of_apache(
    bed: BrokerBed, client: BedClient
) -> None:
    handle = await send(client, "id1")
    await recall(client, handle)
    waiting, mark = (
        read_record(record) for _, record in bed.broker.store.records(TIMER_TOPIC, 0, 0)
    )
    out_ms = waiting.properties["TIMER_OUT_MS"]
    assert RecallHandle.read(handle or "") == (TOPIC, "broker-a", int(out_ms) + 1, "id1")
    assert (mark.body, mark.tags) == (b"0", "_RECALL_TAG_")
    assert mark.properties["TIMER_OUT_MS"] == out_ms
    assert mark.properties["TIMER_DEL_UNIQKEY"] == f"{TOPIC}id1"


async def test_a_recall_holds_after_a_start(bed: BrokerBed, client: BedClient) -> None:
    handle = await send(client, "id1")
    for number in range(600):
        await send(client, f"other{number}")
    await recall(client, handle)
    broker = bed.broker
    levels_ms = broker.config.store.delay_levels_ms
    broker.waiting.delays = loaded_delays(
        broker.store, bed.clock, levels_ms, broker.waiting.progress
    )
    assert b"id1" not in delivered_after(bed, 12)
    assert len(delivered_after(bed, 0)) == 600


async def test_a_level_or_no_delay_has_no_handle(client: BedClient) -> None:
    assert await send(client, "id", "DELAY\x013") is None
    assert await send(client, "id", "a\x01b") is None


async def test_an_impossible_recall_is_refused(bed: BrokerBed, client: BedClient) -> None:
    text = await send(client, "id1")
    handle = RecallHandle.read(text or "")
    illegal = [
        "",
        "nonsense",
        "é",
        handle._replace(topic="Other").text,
        handle._replace(broker_name="broker-b").text,
        handle._replace(time_ms=bed.clock.now_ms()).text,
        handle._replace(time_ms=handle.time_ms + 4 * 24 * 3_600_000).text,
    ]
    for each in illegal:
        reply = await recall(client, each)
        assert reply.code == ResponseCode.ILLEGAL_OPERATION
        assert reply.remark
    assert (await recall(client, text, "Nowhere")).code == ResponseCode.TOPIC_NOT_EXIST
    assert delivered_after(bed, 12) == [b"id1"]
    assert (await recall(client, text)).code == ResponseCode.ILLEGAL_OPERATION


async def test_recalls_can_be_disabled(bed: BrokerBed, client: BedClient) -> None:
    handle = await send(client, "id1")
    bed.broker.config = replace(bed.broker.config, recalls=False)
    assert (await recall(client, handle)).code == ResponseCode.NO_PERMISSION
