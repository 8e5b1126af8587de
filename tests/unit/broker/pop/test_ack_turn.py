"""Acks that come together are one record, and none is answered before it is written."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.broker.pop.in_flight import PopKey
from roquet.broker.pop.redelivery import redeliver_slice
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.record import read_record
from roquet.store.config import FlushMode
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.popped import TOPIC, ack, change, pop
from tests.support.stores import small_config

JOURNAL = "rmq_sys_REVIVE_LOG_DefaultCluster"


@pytest.fixture(params=[FlushMode.ASYNC, FlushMode.SYNC], ids=["async flush", "sync flush"])
async def bed(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[BrokerBed]:
    config = replace(small_config(tmp_path), flush_mode=request.param)
    async with broker_bed(tmp_path, store=config) as bed:
        bed.broker.tables.topics.find_or_create(TOPIC, 1)
        yield bed


@pytest.fixture
async def client(bed: BrokerBed) -> BedClient:
    for _ in range(3):
        bed.put()
    await eventually(lambda: bed.broker.store.max_offset(TOPIC, 0) == 3)
    return bed.connect()


def journal(bed: BrokerBed) -> list[str | None]:
    return [read_record(record).tags for _, record in bed.broker.store.records(JOURNAL, 0, 0)]


async def test_acks_of_one_turn_are_one_record(bed: BrokerBed, client: BedClient) -> None:
    receipts = (await pop(client)).receipts
    replies = await asyncio.gather(*(ack(client, receipt) for receipt in receipts))
    assert [reply.code for reply in replies] == [ResponseCode.SUCCESS] * 3
    assert journal(bed) == ["ck", "bAck"]
    bed.clock.advance(60)
    redeliver_slice(bed.broker)
    assert (await pop(client)).bodies == []


async def test_acks_that_cannot_be_written_are_refused(
    bed: BrokerBed, client: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts = (await pop(client)).receipts

    def refuse(_key: PopKey, _offsets: Sequence[int]) -> int:
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")

    monkeypatch.setattr(bed.broker.waiting.ack_turn._journal, "note_acks", refuse)
    replies = await asyncio.gather(*(ack(client, receipt) for receipt in receipts[:2]))
    assert {reply.code for reply in replies} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert bed.broker.waiting.pops.in_flight.count == 3


async def test_a_change_comes_after_the_acks_before_it(bed: BrokerBed, client: BedClient) -> None:
    receipts = (await pop(client)).receipts
    await asyncio.gather(ack(client, receipts[0]), change(bed.connect(), receipts[0], 1_000))
    assert bed.broker.waiting.pops.in_flight.count == 2


async def test_acks_of_several_connections_are_answered_each(
    bed: BrokerBed, client: BedClient
) -> None:
    receipts = (await pop(client)).receipts
    clients = [bed.connect() for _ in receipts]
    asked = [ack(each, receipt) for each, receipt in zip(clients, receipts, strict=True)]
    replies = await asyncio.gather(*asked)
    assert [reply.code for reply in replies] == [ResponseCode.SUCCESS] * 3
    assert all(each.connection.deferred_count == 0 for each in clients)
