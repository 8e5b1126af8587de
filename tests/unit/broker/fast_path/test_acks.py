"""Acks of single messages that leave nothing to decide: runs of them, and each field they have."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from roquet.broker.pop.in_flight import PopKey
from roquet.net.errors import Refused
from roquet.net.limits import DEFAULT_LIMITS
from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import encode_command
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.headers.pop import AckMessageHeader
from roquet.protocol.messages.pop_receipt import Receipt
from roquet.protocol.messages.record import read_record
from roquet.store.config import FlushMode
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.common_requests import common_send
from tests.support.eventually import eventually
from tests.support.fast_path_traffic import command, frame_of
from tests.support.popped import GROUP, TOPIC, pop
from tests.support.stores import small_config

JOURNAL = "rmq_sys_REVIVE_LOG_DefaultCluster"
FIELDS = msgspec.structs.fields(AckMessageHeader)
NEEDED = [each.encode_name for each in FIELDS if each.required]
OTHERS = [each.encode_name for each in FIELDS if each.type not in (str, str | None)]


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        bed.broker.tables.topics.find_or_create(TOPIC, 1)
        for _ in range(5):
            bed.put()
        yield bed


def usual(receipt: Receipt) -> dict[str, object]:
    return {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": str(receipt.queue_id),
        "extraInfo": receipt.text,
        "offset": str(receipt.offset),
    }


def acks(receipts: Sequence[Receipt]) -> bytes:
    return b"".join(
        frame_of(command(200_051, usual(receipt), opaque))
        for opaque, receipt in enumerate(receipts)
    )


async def replied(client: BedClient, count: int) -> list[tuple[int, int]]:
    replies = [await client.replied() for _ in range(count)]
    return [(reply.opaque, reply.code) for reply in replies]


def is_taken(bed: BrokerBed, fields: dict[str, object]) -> bool:
    frames = FrameDecoder().whole(frame_of(command(200_051, fields, 1)))
    bed.fast_path.take(bed.connect().connection, frames, [], 1 << 20)
    return frames.position == frames.end


async def test_acks_of_a_pop_are_one_run(bed: BrokerBed) -> None:
    client = bed.connect()
    receipts = (await pop(client)).receipts
    client.connection.data_received(acks(receipts))
    assert client.connection.deferred_count == 5
    assert await replied(client, 5) == [(opaque, ResponseCode.SUCCESS) for opaque in range(5)]
    records = [read_record(each) for _, each in bed.broker.store.records(JOURNAL, 0, 0)]
    assert [record.tags for record in records] == ["ck", "bAck"]
    assert (bed.broker.statistics.acks.fast, bed.broker.statistics.acks.slow) == (5, 0)
    assert (bed.broker.waiting.pops.in_flight.count, client.connection.deferred_count) == (0, 0)


async def test_acks_of_two_pops_are_two_records(bed: BrokerBed) -> None:
    client = bed.connect()
    first, second = [(await pop(client, max_msg_nums=2)).receipts for _ in range(2)]
    client.connection.data_received(acks([first[0], second[0], second[1], first[1]]))
    assert [opaque for opaque, _ in await replied(client, 4)] == [0, 1, 2, 3]
    records = [read_record(each) for _, each in bed.broker.store.records(JOURNAL, 0, 0)]
    assert [record.tags for record in records] == ["ck", "ck", "bAck", "bAck"]
    assert bed.broker.waiting.pops.in_flight.count == 0


async def test_each_ack_of_a_run_is_refused(
    bed: BrokerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = bed.connect()
    receipts = (await pop(client)).receipts

    def refuse(_key: PopKey, _offsets: Sequence[int]) -> int:
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")

    monkeypatch.setattr(bed.broker.waiting.ack_turn._journal, "note_acks", refuse)
    client.connection.data_received(acks(receipts))
    refused = ResponseCode.SERVICE_NOT_AVAILABLE
    assert await replied(client, 5) == [(opaque, refused) for opaque in range(5)]
    assert bed.broker.waiting.pops.in_flight.count == 5


async def test_every_ack_of_a_run_counts_against_the_limit(bed: BrokerBed) -> None:
    client = bed.connect(limits=msgspec.structs.replace(DEFAULT_LIMITS, deferred_count_max=2))
    receipts = (await pop(client)).receipts
    client.connection.data_received(acks(receipts[:3]))
    busy = ResponseCode.SYSTEM_BUSY
    found = sorted(await replied(client, 3))
    assert found == [(0, ResponseCode.SUCCESS), (1, ResponseCode.SUCCESS), (2, busy)]


async def test_acks_and_sends_count_against_one_limit(tmp_path: Path) -> None:
    store = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=store) as bed:
        bed.broker.tables.topics.find_or_create(TOPIC, 1)
        for _ in range(3):
            bed.put()
        await eventually(lambda: bed.broker.store.max_offset(TOPIC, 0) == 3)
        client = bed.connect(limits=msgspec.structs.replace(DEFAULT_LIMITS, deferred_count_max=2))
        receipts = (await pop(client)).receipts
        send = encode_command(common_send(TOPIC, b"a", opaque=9))
        client.connection.data_received(send + acks(receipts[:1]) + send + acks(receipts[1:2]))
        assert client.connection.deferred_count <= 2


async def test_a_usual_ack_is_taken(bed: BrokerBed) -> None:
    [receipt] = (await pop(bed.connect(), max_msg_nums=1)).receipts
    assert is_taken(bed, usual(receipt))
    assert is_taken(bed, usual(receipt) | {"bname": "any", "ns": "x", "lo": "false"})


@pytest.mark.parametrize("name", NEEDED)
async def test_an_ack_without_a_field_is_left(bed: BrokerBed, name: str) -> None:
    [receipt] = (await pop(bed.connect(), max_msg_nums=1)).receipts
    fields = usual(receipt)
    del fields[name]
    assert not is_taken(bed, fields)


@pytest.mark.parametrize("name", OTHERS)
async def test_a_field_that_is_no_number_or_truth_is_left(bed: BrokerBed, name: str) -> None:
    [receipt] = (await pop(bed.connect(), max_msg_nums=1)).receipts
    assert not is_taken(bed, usual(receipt) | {name: "x"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 1 2 0 0 a 0",
        "0 1 2 0 0 a 0 0 0",
        "0 1 2 x 0 a 0 0",
        "0 -1 2 0 0 a 0 0",
        "0 1 2 0 0 a 0 0 ",
    ],
)
async def test_an_ack_without_a_whole_receipt_is_left(bed: BrokerBed, text: str) -> None:
    [receipt] = (await pop(bed.connect(), max_msg_nums=1)).receipts
    assert not is_taken(bed, usual(receipt) | {"extraInfo": text})
