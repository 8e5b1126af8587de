"""Pops in order: message groups that block, messages that come again, attempts, dead letters."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.broker.pop import journal as journal_module, ordered_popping, ordered_queue
from roquet.broker.pop.redelivery import redeliver_slice
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import WaitingMessages
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.pop import BatchAck, BatchAckRequest
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import NoFields, read_header
from roquet.protocol.headers.groups import ResetOffsetHeader
from roquet.protocol.headers.pop import NotificationHeader, NotificationReplyHeader
from roquet.protocol.messages.record import read_record
from tests.support.broker_bed import VERSION_5_5_0, BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.popped import GROUP, TOPIC, Popped, ack, change, pop
from tests.support.stores import small_config


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        topic = TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
        bed.broker.tables.topics.update(topic)
        yield bed


@pytest.fixture
async def client(bed: BrokerBed) -> BedClient:
    return bed.connect()


def put(bed: BrokerBed, *bodies: bytes) -> None:
    """The first letter is the message group."""
    for body in bodies:
        bed.put(body, properties={"__SHARDINGKEY": chr(body[0]), "TAGS": chr(body[-1])})
        bed.broker.messages.long_polls.announce(TOPIC, 0)


async def taken(client: BedClient, **members: object) -> Popped:
    return await pop(client, order=True, **members)


async def bodies(client: BedClient, **members: object) -> list[bytes]:
    return (await taken(client, **members)).bodies


def restart(bed: BrokerBed) -> None:
    """As after a crash: the file of offsets has nothing of it."""
    bed.broker.tables.offsets.forget_group(GROUP)
    bed.broker.waiting.pops.load()


def position(bed: BrokerBed) -> int | None:
    return bed.broker.tables.offsets.find(GROUP, TOPIC, 0)


async def test_messages_come_in_order_with_receipts_of_apache(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"b1", b"a2")
    popped = await taken(client)
    assert popped.bodies == [b"a1", b"b1", b"a2"]
    header = popped.header
    assert (header.revive_qid, header.order_count_info) == (999, "0 0 0")
    assert (header.start_offset_info, header.msg_offset_info) == ("0 0 0", "0 0 0,1,2")
    assert position(bed) == 0


async def test_a_message_group_is_blocked_while_one_of_its_messages_is_out(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"b1", b"a2", b"b2")
    first = await taken(client, max_msg_nums=1)
    assert first.bodies == [b"a1"]
    # b1 and b2 come, although a2 before b2 has to wait.
    other = await taken(client)
    assert other.bodies == [b"b1", b"b2"]
    assert await bodies(client) == []
    await ack(client, first.receipts[0])
    assert await bodies(client) == [b"a2"]


async def test_messages_without_a_group_keep_the_order_of_their_queue(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put(b"1")
    bed.put(b"2")
    receipt = (await taken(client, max_msg_nums=1)).receipts[0]
    assert await bodies(client) == []
    await ack(client, receipt)
    assert await bodies(client) == [b"2"]


async def test_what_is_not_acknowledged_comes_again_first_and_from_the_same_queue(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"a2", b"a3")
    popped = await taken(client, max_msg_nums=2)
    await ack(client, popped.receipts[0])
    bed.clock.advance(9.999)
    assert await bodies(client) == []
    bed.clock.advance(0.001)
    again = await taken(client)
    assert again.bodies == [b"a2", b"a3"]
    assert again.header.msg_offset_info == "0 0 1,2"
    assert again.header.order_count_info == "0 0 0;0 qo0%1 1"


async def test_the_position_is_the_first_message_that_is_not_done(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"b1", b"c1")
    receipts = (await taken(client)).receipts
    await ack(client, receipts[1])
    assert position(bed) == 0
    await ack(client, receipts[0])
    assert position(bed) == 2
    await ack(client, receipts[2])
    assert position(bed) == 3
    assert not bed.broker.waiting.pops.lag


async def test_a_waiting_pop_gets_what_an_ack_or_the_time_frees(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"a2")
    receipt = (await taken(client, max_msg_nums=1)).receipts[0]
    asking = asyncio.create_task(taken(client, poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    await ack(bed.connect(), receipt)
    assert (await asking).bodies == [b"a2"]
    asking = asyncio.create_task(taken(client, poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    assert (await asking).bodies == [b"a2"]


async def test_a_message_of_a_free_group_wakes_a_waiting_pop(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1")
    await taken(client)
    asking = asyncio.create_task(taken(client, poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    put(bed, b"a2", b"b1")
    assert (await asking).bodies == [b"b1"]


async def test_an_old_receipt_does_nothing(bed: BrokerBed, client: BedClient) -> None:
    put(bed, b"a1", b"a2")
    old = (await taken(client, max_msg_nums=1)).receipts[0]
    bed.clock.advance(10)
    assert await bodies(client, max_msg_nums=1) == [b"a1"]
    assert (await ack(client, old)).code == ResponseCode.SUCCESS
    assert (await change(client, old, 0)).pop_time_ms == old.pop_time_ms
    assert await bodies(client) == []


async def test_an_ack_counts_after_its_time_until_the_message_is_popped_again(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"a2")
    receipt = (await taken(client, max_msg_nums=1)).receipts[0]
    bed.clock.advance(60)
    await ack(client, receipt)
    assert await bodies(client) == [b"a2"]


async def test_a_message_that_was_not_popped_cannot_be_acknowledged(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"a2")
    receipt = (await taken(client, max_msg_nums=1)).receipts[0]
    reply = await ack(client, receipt, offset=1)
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert (await ack(client, receipt)).code == ResponseCode.SUCCESS
    assert (await ack(client, receipt)).code == ResponseCode.SUCCESS


async def test_a_changed_time_counts_from_now_and_keeps_the_time_of_the_pop(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"a2")
    receipt = (await taken(client, max_msg_nums=1)).receipts[0]
    bed.clock.advance(4)
    newer = await change(client, receipt, 20_000)
    assert (newer.pop_time_ms, newer.invisible_ms) == (receipt.pop_time_ms, 24_000)
    bed.clock.advance(19.999)
    assert await bodies(client) == []
    bed.clock.advance(0.001)
    again = await taken(client, max_msg_nums=1)
    assert (again.bodies, again.header.order_count_info) == ([b"a1"], "0 0 1;0 qo0%0 1")


async def test_a_message_given_back_at_once_wakes_a_waiting_pop(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1")
    receipt = (await taken(client)).receipts[0]
    asking = asyncio.create_task(taken(client, poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    await change(bed.connect(), receipt, 0, suspend=True)
    redeliver_slice(bed.broker)
    again = await asking
    assert (again.bodies, again.header.order_count_info) == ([b"a1"], "0 0 0")


async def test_a_repeated_attempt_gets_the_same_messages_and_is_not_counted(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"b1", b"a2")
    lost = await taken(client, max_msg_nums=2, attempt_id="x")
    bed.clock.advance(1)
    again = await taken(client, max_msg_nums=2, attempt_id="x")
    assert again.bodies == lost.bodies == [b"a1", b"b1"]
    assert again.header.order_count_info == "0 0 0"
    assert await bodies(client, attempt_id="y") == []
    await ack(client, lost.receipts[0])
    assert await bodies(client) == []
    await ack(client, again.receipts[0])
    assert await bodies(client) == [b"a2"]


async def test_a_restart_knows_attempts_and_times(bed: BrokerBed, client: BedClient) -> None:
    put(bed, b"a1", b"a2")
    await taken(client, max_msg_nums=1, attempt_id="x")
    bed.clock.advance(10)
    await taken(client, max_msg_nums=1, attempt_id="y")
    restart(bed)
    again = await taken(client, max_msg_nums=1, attempt_id="y")
    assert (again.bodies, again.header.order_count_info) == ([b"a1"], "0 0 1;0 qo0%0 1")


async def test_after_a_crash_acknowledged_messages_stay_away_and_groups_stay_blocked(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, b"a1", b"b1", b"a2", b"b2", b"c1")
    receipts = (await taken(client, max_msg_nums=2)).receipts
    await ack(client, receipts[1])
    restart(bed)
    popped = await taken(client)
    assert popped.bodies == [b"b2", b"c1"]
    await ack(client, receipts[0])
    assert await bodies(client) == [b"a2"]
    assert position(bed) == 2


async def test_after_a_start_a_later_message_still_blocks_its_group(
    bed: BrokerBed, client: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_popping, "SEEN_COUNT", 1)
    put(bed, b"a1", b"a2")
    receipts = (await taken(client)).receipts
    await change(client, receipts[1], 60_000)
    restart(bed)
    bed.clock.advance(10)
    assert await bodies(client) == []
    bed.clock.advance(50)
    assert await bodies(client) == [b"a1", b"a2"]


async def test_a_queue_that_is_never_done_is_written_again(
    bed: BrokerBed, client: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "RECORD_COUNT_MAX", 6)
    put(bed, b"a1", *(b"b%d" % number for number in range(20)))
    await taken(client, max_msg_nums=1, invisible_time=3_600_000)
    journal = bed.broker.waiting.pops
    for _ in range(20):
        popped = await taken(client, max_msg_nums=1)
        await ack(client, popped.receipts[0])
        journal.rewrite_stragglers()
        assert journal.lag <= 8
    journal.commit_progress(bed.broker.store.log_end)
    restart(bed)
    assert journal.lag <= 8
    assert await bodies(client) == []
    bed.clock.advance(3_600)
    assert await bodies(client) == [b"a1"]


async def test_a_message_that_fails_too_often_goes_to_the_dead_letters(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name=GROUP, retry_max_times=2))
    put(bed, b"a1", b"a2")
    for _ in range(3):
        assert await bodies(client, max_msg_nums=1) == [b"a1"]
        bed.clock.advance(10)
    assert await bodies(client, max_msg_nums=1) == [b"a2"]
    assert position(bed) == 1
    ((_, record),) = bed.broker.store.records(f"%DLQ%{GROUP}", 0, 0)
    dead = read_record(record)
    assert (dead.body, dead.reconsume_times) == (b"a1", 3)
    assert dead.properties["RETRY_TOPIC"] == TOPIC
    restart(bed)
    bed.clock.advance(10)
    assert await bodies(client) == [b"a2"]


async def test_unwanted_messages_are_passed_over(bed: BrokerBed, client: BedClient) -> None:
    put(bed, b"a-x", b"a-y", b"b-y", b"a-x", b"a-y")
    popped = await taken(client, exp="x")
    assert popped.bodies == [b"a-x", b"a-x"]
    assert popped.header.msg_offset_info == "0 0 0,3"
    for receipt in popped.receipts:
        await ack(client, receipt)
    assert position(bed) == 5


async def test_batches_acknowledge_ordered_messages(bed: BrokerBed, client: BedClient) -> None:
    put(bed, b"a1", b"b1", b"a2")
    receipt = (await taken(client)).receipts[0]
    one = BatchAck(
        acked=b"\x05",
        consumer_group=GROUP,
        invisible_time=receipt.invisible_ms,
        pop_time=receipt.pop_time_ms,
        queue_id=0,
        revive_queue_id=receipt.revive_queue_id,
        start_offset=0,
        topic=TOPIC,
    )
    body = BatchAckRequest(broker_name="broker-a", acks=[one])
    await client.ask(RequestCode.BATCH_ACK_MESSAGE, NoFields(), body, version=VERSION_5_5_0)
    bed.clock.advance(10)
    assert await bodies(client) == [b"b1"]


async def test_only_so_many_messages_are_looked_at_behind_a_blocked_one(
    bed: BrokerBed, client: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_queue, "WINDOW_COUNT_MAX", 3)
    put(bed, b"a1", b"a2", b"a3", b"b1")
    receipt = (await taken(client, max_msg_nums=1)).receipts[0]
    assert await bodies(client) == []
    await ack(client, receipt)
    assert await bodies(client) == [b"a2", b"a3", b"b1"]


async def test_many_messages_of_a_blocked_group_do_not_hide_others(
    bed: BrokerBed, client: BedClient
) -> None:
    put(bed, *(b"a%d" % number for number in range(700)), b"b1")
    await taken(client, max_msg_nums=1)
    asking = asyncio.create_task(taken(client, poll_time=15_000))
    assert (await asking).bodies == [b"b1"]


async def test_large_messages_do_not_all_come_at_once(tmp_path: Path) -> None:
    config = replace(small_config(tmp_path), read_size_max_in_memory=1_000)
    async with broker_bed(tmp_path, store=config) as bed:
        bed.broker.tables.topics.find_or_create(TOPIC, 1)
        client = bed.connect()
        put(bed, *(b"a%d" % number + bytes(500) for number in range(4)))
        popped = await taken(client)
        assert [body[:2] for body in popped.bodies] == [b"a0", b"a1"]
        for receipt in popped.receipts:
            await ack(client, receipt)
        assert [body[:2] for body in await bodies(client)] == [b"a2", b"a3"]


async def test_a_reset_group_starts_there(bed: BrokerBed, client: BedClient) -> None:
    put(bed, b"a1", b"a2")
    receipt = (await taken(client)).receipts[0]
    header = ResetOffsetHeader(topic=TOPIC, group=GROUP, timestamp=0, is_force=True)
    reply = await client.ask(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, version=VERSION_5_5_0
    )
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    assert (await ack(client, receipt)).code == ResponseCode.SUCCESS
    assert await bodies(client) == [b"a1", b"a2"]
    restart(bed)
    assert await bodies(client) == []


async def test_a_notification_knows_what_is_blocked(bed: BrokerBed, client: BedClient) -> None:
    async def has_messages(attempt_id: str | None = None) -> bool:
        header = NotificationHeader(
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=-1,
            poll_time=0,
            born_time=0,
            order=True,
            attempt_id=attempt_id,
        )
        reply = await client.ask(RequestCode.NOTIFICATION, header, version=VERSION_5_5_0)
        return read_header(NotificationReplyHeader, reply.fields).has_msg

    assert not await has_messages()
    put(bed, b"a1", b"a2")
    assert await has_messages()
    await taken(client, attempt_id="x")
    assert not await has_messages()
    assert await has_messages("x")
    bed.clock.advance(10)
    assert await has_messages()


async def test_operators_see_what_is_in_flight(bed: BrokerBed, client: BedClient) -> None:
    put(bed, b"a1", b"b1")
    await taken(client)
    reply = await client.ask(RequestCode.GET_WAITING_MESSAGES)
    shown = read_body(WaitingMessages, reply.body).in_flight[GROUP]
    assert (shown.count, shown.next_due_ms) == (2, bed.clock.now_ms() + 10_000)


async def test_a_message_that_is_gone_blocks_nothing(bed: BrokerBed, client: BedClient) -> None:
    put(bed, b"a1", b"a2")
    await taken(client, max_msg_nums=1)
    bed.broker.store.delete_topic(TOPIC)
    put(bed, b"a3")
    bed.clock.advance(10)
    assert await bodies(client) == [b"a3"]
