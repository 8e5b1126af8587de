"""Pops: what they bring, when they wait; acks, and messages that come again."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.broker.pop.redelivery import redeliver_slice
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import DelayedMessages, WaitingMessages
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.pop import BatchAck, BatchAckRequest
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.fields import NoFields, read_header
from roquet.protocol.headers.messages import SendMessageHeader
from roquet.protocol.headers.pop import (
    NotificationHeader,
    NotificationReplyHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PollingInfoReplyHeader,
)
from roquet.protocol.messages.message import Property
from roquet.store.config import FlushMode
from tests.support.broker_bed import VERSION_5_5_0, BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.popped import GROUP, TOPIC, Popped, ack, change, pop, pop_header
from tests.support.stores import small_config

RETRIES = f"%RETRY%{GROUP}_{TOPIC}"


async def popped_after(bed: BrokerBed, client: BedClient, seconds: float) -> Popped:
    """What a pop gets when so much time has passed, and the broker has seen to it."""
    bed.clock.advance(seconds)
    redeliver_slice(bed.broker)
    return await pop(client)


async def test_a_pop_takes_messages_of_all_queues(bed: BrokerBed, client: BedClient) -> None:
    for queue_id, body in ((0, b"a"), (1, b"b"), (0, b"c")):
        bed.put(body, queue_id=queue_id)
    popped = await pop(client)
    assert sorted(popped.bodies) == [b"a", b"b", b"c"]
    assert {receipt.offset for receipt in popped.receipts} == {0, 1}
    assert popped.header.rest_num == 0
    assert popped.header.invisible_time == 10_000


async def test_a_popped_message_is_given_to_no_other_client(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put()
    assert (await pop(client)).bodies == [b"hello"]
    other = await pop(bed.connect())
    assert other.code == ResponseCode.POLLING_TIMEOUT
    assert (other.remark, other.header.rest_num) == ("NO_MESSAGE_IN_QUEUE", 0)
    assert (other.header.start_offset_info, other.header.msg_offset_info) == ("", "")


async def test_a_pop_takes_no_more_than_it_asks_for_and_learns_of_the_rest(
    bed: BrokerBed, client: BedClient
) -> None:
    for body in (b"1", b"2", b"3"):
        bed.put(body)
    popped = await pop(client, max_msg_nums=2, queue_id=0)
    assert (popped.bodies, popped.header.rest_num) == ([b"1", b"2"], 1)
    assert (popped.header.start_offset_info, popped.header.msg_offset_info) == ("0 0 0", "0 0 0,1")
    assert (await pop(client, queue_id=0)).bodies == [b"3"]


async def test_a_message_that_is_not_acknowledged_comes_again_at_its_time(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put(properties={"KEYS": "k", "TAGS": "t"})
    first = (await pop(client)).messages[0]
    assert (await popped_after(bed, client, 9.999)).bodies == []
    again = await popped_after(bed, client, 0.001)
    (message,) = again.messages
    assert (message.body, message.topic, message.reconsume_times) == (b"hello", TOPIC, 1)
    assert message.born_timestamp == first.born_timestamp
    assert message.properties["ORIGIN_GROUP"] == GROUP
    assert message.properties["1ST_POP_TIME"] == str(bed.clock.now_ms() - 10_000)
    assert (message.properties["KEYS"], message.tags) == ("k", "t")
    assert again.header.msg_offset_info == "1 0 0"
    assert message.properties[Property.POP_CHECK_POINT] == again.receipts[0].text


async def test_an_acknowledged_message_does_not_come_again(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put(b"a")
    bed.put(b"b")
    popped = await pop(client)
    assert (await ack(client, popped.receipts[0])).code == ResponseCode.SUCCESS
    assert (await popped_after(bed, client, 10)).bodies == [b"b"]
    assert bed.broker.waiting.pops.in_flight.count == 1


async def test_a_redelivered_message_is_acknowledged_by_its_new_receipt(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put()
    old = (await pop(client)).receipts[0]
    again = await popped_after(bed, client, 10)
    assert (await ack(client, old)).code == ResponseCode.SUCCESS
    assert bed.broker.waiting.pops.in_flight.count == 1
    assert (await ack(client, again.receipts[0])).code == ResponseCode.SUCCESS
    assert (await popped_after(bed, client, 60)).bodies == []


async def test_each_redelivery_counts(bed: BrokerBed, client: BedClient) -> None:
    bed.put()
    await pop(client)
    first_ms = bed.clock.now_ms()
    for times in (1, 2, 3):
        (message,) = (await popped_after(bed, client, 10)).messages
        assert message.reconsume_times == times
        assert message.properties["1ST_POP_TIME"] == str(first_ms)


async def test_more_redeliveries_than_can_be_counted_hold_nothing_up(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put(b"new")
    bed.put(b"most", reconsume_times=2**31 - 1)
    await pop(client)
    again = await popped_after(bed, client, 10)
    assert [(each.body, each.reconsume_times) for each in again.messages] == [
        (b"new", 1),
        (b"most", 2**31 - 1),
    ]
    assert bed.broker.waiting.pops.in_flight.count == 2


async def test_a_changed_time_counts_from_now(bed: BrokerBed, client: BedClient) -> None:
    bed.put()
    receipt = (await pop(client)).receipts[0]
    bed.clock.advance(9)
    newer = await change(client, receipt, 20_000)
    assert (await popped_after(bed, client, 19.999)).bodies == []
    assert bed.broker.waiting.pops.in_flight.count == 1
    again = await popped_after(bed, client, 0.001)
    assert [message.reconsume_times for message in again.messages] == [1]
    assert (await ack(client, newer)).code == ResponseCode.SUCCESS


async def test_a_message_is_acknowledged_by_its_changed_receipt(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put()
    receipt = await change(client, (await pop(client)).receipts[0], 20_000)
    receipt = await change(client, receipt, 30_000)
    await ack(client, receipt)
    assert bed.broker.waiting.pops.in_flight.count == 0
    assert (await popped_after(bed, client, 60)).bodies == []


async def test_a_suspended_message_comes_again_without_counting(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put()
    await change(client, (await pop(client)).receipts[0], 1_000, suspend=True)
    (message,) = (await popped_after(bed, client, 1.001)).messages
    assert message.reconsume_times == 0


async def test_a_receipt_that_is_over_changes_nothing(bed: BrokerBed, client: BedClient) -> None:
    bed.put()
    receipt = (await pop(client)).receipts[0]
    await ack(client, receipt)
    await change(client, receipt, 1_000)
    assert (await popped_after(bed, client, 60)).bodies == []


async def test_acks_come_in_batches(bed: BrokerBed, client: BedClient) -> None:
    for body in (b"a", b"b", b"c"):
        bed.put(body)
    receipt = (await pop(client)).receipts[0]
    acks = batch(receipt.pop_time_ms, b"\x05")
    reply = await client.ask(RequestCode.BATCH_ACK_MESSAGE, NoFields(), acks, version=VERSION_5_5_0)
    assert reply.code == ResponseCode.SUCCESS
    assert (await popped_after(bed, client, 10)).bodies == [b"b"]


async def test_a_batch_acknowledges_what_is_far_apart(bed: BrokerBed, client: BedClient) -> None:
    for number in range(41):
        bed.put(properties={"TAGS": "a" if number in (0, 40) else "b"})
    receipt = (await pop(client, exp="a")).receipts[0]
    acks = batch(receipt.pop_time_ms, b"\x01\0\0\0\0\x01")
    await client.ask(RequestCode.BATCH_ACK_MESSAGE, NoFields(), acks, version=VERSION_5_5_0)
    assert bed.broker.waiting.pops.in_flight.count == 0


async def test_a_batch_of_acks_for_nothing_is_refused(bed: BrokerBed, client: BedClient) -> None:
    bed.put()
    for body in (BatchAckRequest(broker_name="broker-a"), batch(1, b"\x02")):
        reply = await client.ask(RequestCode.BATCH_ACK_MESSAGE, NoFields(), body)
        assert reply.code == ResponseCode.NO_MESSAGE


@pytest.mark.parametrize("acked", [b"\x07", b"\x07\0", b"\xff\xff"], ids=repr)
async def test_a_batch_acknowledges_all_of_a_pop(
    bed: BrokerBed, client: BedClient, acked: bytes
) -> None:
    for _ in range(3):
        bed.put()
    popped = await pop(client)
    acks = batch(popped.receipts[0].pop_time_ms, acked)
    reply = await client.ask(RequestCode.BATCH_ACK_MESSAGE, NoFields(), acks)
    assert reply.code == ResponseCode.SUCCESS
    assert bed.broker.waiting.pops.in_flight.count == 0


def batch(pop_time_ms: int, acked: bytes) -> BatchAckRequest:
    one = BatchAck(
        acked=acked,
        consumer_group=GROUP,
        invisible_time=10_000,
        pop_time=pop_time_ms,
        queue_id=0,
        revive_queue_id=0,
        start_offset=0,
        topic=TOPIC,
    )
    return BatchAckRequest(broker_name="broker-a", acks=[one])


async def test_only_wanted_messages_are_popped(bed: BrokerBed, client: BedClient) -> None:
    for tag in ("a", "b", "a", "b"):
        bed.put(tag.encode(), properties={"TAGS": tag})
    popped = await pop(client, exp="b")
    assert (popped.bodies, popped.header.msg_offset_info) == ([b"b", b"b"], "0 0 1,3")
    assert popped.header.start_offset_info == "0 0 1"
    assert (await popped_after(bed, client, 10)).bodies == [b"b", b"b"]


async def test_a_new_group_on_a_young_topic_gets_everything(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put(b"1")
    bed.put(b"2")
    assert (await pop(client, init_mode=1)).bodies == [b"1", b"2"]


async def test_a_new_group_on_an_old_topic_gets_the_last_message(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, pop_young_topics_from_start=False) as bed:
        bed.broker.tables.topics.update(
            TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
        )
        for body in (b"1", b"2", b"3"):
            bed.put(body)
        assert (await pop(bed.connect(), init_mode=1)).bodies == [b"3"]


async def test_a_pop_waits_for_a_message(bed: BrokerBed, client: BedClient) -> None:
    asking = asyncio.create_task(pop(client, poll_time=15_000))
    await eventually(lambda: bed.waiting_pull_count > 0)
    bed.put(b"late", queue_id=1)
    bed.broker.messages.long_polls.announce(TOPIC, 1)
    assert (await asking).bodies == [b"late"]
    assert bed.waiting_pull_count == 0
    assert bed.broker.waiting.pop_polls.count == 0


async def test_one_message_is_for_one_of_those_who_wait(bed: BrokerBed, client: BedClient) -> None:
    other = bed.connect()
    first = asyncio.create_task(pop(client, poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    second = asyncio.create_task(pop(other, poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 2)
    bed.put(b"one")
    bed.broker.messages.long_polls.announce(TOPIC, 0)
    assert (await first).bodies == [b"one"]
    bed.put(b"two")
    bed.broker.messages.long_polls.announce(TOPIC, 0)
    assert (await second).bodies == [b"two"]


async def test_a_waiting_pop_gets_what_comes_again(bed: BrokerBed, client: BedClient) -> None:
    bed.put()
    await pop(client)
    asking = asyncio.create_task(pop(client, poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    assert (await asking).header.msg_offset_info == "1 0 0"


async def test_a_pop_that_waited_long_enough_is_answered(bed: BrokerBed, client: BedClient) -> None:
    asking = asyncio.create_task(pop(client, poll_time=500))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    bed.clock.advance(1)
    assert (await asking).code == ResponseCode.POLLING_TIMEOUT
    assert bed.broker.waiting.pop_polls.count == 0


async def test_a_client_that_leaves_waits_no_more(bed: BrokerBed, client: BedClient) -> None:
    asking = asyncio.create_task(pop(client, poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    client.leave()
    assert (bed.broker.waiting.pop_polls.count, bed.waiting_pull_count) == (0, 0)
    asking.cancel()


async def test_too_many_pops_do_not_wait(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, pop_poll_count_max=1) as bed:
        bed.broker.tables.topics.update(
            TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
        )
        asking = asyncio.create_task(pop(bed.connect(), poll_time=15_000))
        await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
        assert (await pop(bed.connect(), poll_time=15_000)).code == ResponseCode.POLLING_FULL
        asking.cancel()


async def test_with_sync_flush_a_pop_is_answered_when_its_record_is_on_disk(tmp_path: Path) -> None:
    config = replace(small_config(tmp_path), flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        bed.broker.tables.topics.update(
            TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
        )
        client = bed.connect()
        bed.put()
        await eventually(lambda: bed.broker.store.synced_end == bed.broker.store.log_end)
        popped = await pop(client)
        assert popped.bodies == [b"hello"]
        assert bed.broker.store.synced_end == bed.broker.store.log_end
        assert (await ack(client, popped.receipts[0])).code == ResponseCode.SUCCESS
        assert bed.broker.store.synced_end == bed.broker.store.log_end


REFUSALS = {
    "unknown topic": ({"topic": "Nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
    "no such queue": ({"queue_id": 2}, ResponseCode.INVALID_PARAMETER),
    "negative queue": ({"queue_id": -2}, ResponseCode.INVALID_PARAMETER),
    "too many": ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
    "none": ({"max_msg_nums": 0}, ResponseCode.INVALID_PARAMETER),
    "negative time": ({"invisible_time": -1}, ResponseCode.INVALID_PARAMETER),
    "late": ({"born_time": 1, "poll_time": 5}, ResponseCode.POLLING_TIMEOUT),
    "filters off": ({"exp": "a = 1", "exp_type": "SQL92"}, ResponseCode.SYSTEM_ERROR),
    "long names": ({"consumer_group": "g" * 120}, ResponseCode.INVALID_PARAMETER),
    "bad group": ({"consumer_group": "a/b"}, ResponseCode.SYSTEM_ERROR),
}


@pytest.mark.parametrize("name", sorted(REFUSALS))
async def test_an_impossible_pop_is_refused(name: str, client: BedClient) -> None:
    members, code = REFUSALS[name]
    header = pop_header(**members)  # type: ignore[arg-type]
    reply = await client.ask(RequestCode.POP_MESSAGE, header, version=VERSION_5_5_0)
    assert (reply.code, reply.body) == (code, b"")
    assert reply.remark


async def test_a_group_that_may_not_consume_pops_nothing(bed: BrokerBed, client: BedClient) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name=GROUP, consume_enable=False))
    reply = await client.ask(RequestCode.POP_MESSAGE, pop_header(), version=VERSION_5_5_0)
    assert reply.code == ResponseCode.NO_PERMISSION


async def test_a_topic_without_read_permission_pops_nothing(
    bed: BrokerBed, client: BedClient
) -> None:
    topic = TopicConfig(
        topic_name="Silent", read_queue_nums=1, write_queue_nums=1, perm=int(Permission.WRITE)
    )
    bed.broker.tables.topics.update(topic)
    reply = await client.ask(RequestCode.POP_MESSAGE, pop_header(topic="Silent"))
    assert reply.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"topic": "Nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 7}, ResponseCode.MESSAGE_ILLEGAL),
        ({"offset": 99}, ResponseCode.NO_MESSAGE),
        ({"extra_info": "nonsense"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"extra_info": "0 1 2 3 0 broker-a x 0"}, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_an_impossible_ack_is_refused(
    bed: BrokerBed, client: BedClient, members: dict[str, object], code: ResponseCode
) -> None:
    bed.put()
    receipt = (await pop(client)).receipts[0]
    assert (await ack(client, receipt, **members)).code == code
    assert bed.broker.waiting.pops.in_flight.count == 1


async def test_acking_twice_is_no_mistake(bed: BrokerBed, client: BedClient) -> None:
    bed.put()
    receipt = (await pop(client)).receipts[0]
    for _ in range(2):
        assert (await ack(client, receipt)).code == ResponseCode.SUCCESS


async def test_no_client_sends_to_the_journal(client: BedClient) -> None:
    header = SendMessageHeader(
        producer_group="p",
        topic="rmq_sys_REVIVE_LOG_DefaultCluster",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
    )
    reply = await client.ask(RequestCode.SEND_MESSAGE, header, b"x")
    assert reply.code == ResponseCode.NO_PERMISSION


async def test_a_deleted_group_gets_nothing_again(bed: BrokerBed, client: BedClient) -> None:
    bed.put()
    await pop(client)
    bed.broker.tables.groups.delete(GROUP)
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    assert bed.broker.waiting.pops.in_flight.count == 0
    assert RETRIES not in bed.broker.tables.topics


async def test_a_peek_takes_nothing(bed: BrokerBed, client: BedClient) -> None:
    for body in (b"1", b"2", b"3"):
        bed.put(body)
    header = PeekMessageHeader(consumer_group=GROUP, topic=TOPIC, queue_id=0, max_msg_nums=2)
    for _ in range(2):
        reply = await client.ask(RequestCode.PEEK_MESSAGE, header, version=VERSION_5_5_0)
        peeked = Popped(reply)
        assert (peeked.bodies, peeked.header.rest_num) == ([b"1", b"2"], 3)
        assert (peeked.header.pop_time, peeked.header.start_offset_info) == (0, None)
    assert (await pop(client)).bodies == [b"1", b"2", b"3"]
    reply = await client.ask(RequestCode.PEEK_MESSAGE, header, version=VERSION_5_5_0)
    assert reply.code == ResponseCode.PULL_NOT_FOUND


def notification(poll_ms: int) -> NotificationHeader:
    return NotificationHeader(
        consumer_group=GROUP, topic=TOPIC, queue_id=-1, poll_time=poll_ms, born_time=0
    )


async def notified(client: BedClient, poll_ms: int = 0) -> NotificationReplyHeader:
    reply = await client.ask(RequestCode.NOTIFICATION, notification(poll_ms), version=VERSION_5_5_0)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return read_header(NotificationReplyHeader, reply.fields)


async def test_a_notification_says_whether_there_is_something_to_pop(
    bed: BrokerBed, client: BedClient
) -> None:
    assert not (await notified(client)).has_msg
    bed.put(queue_id=1)
    assert (await notified(client)).has_msg
    await pop(client)
    assert not (await notified(client)).has_msg
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    assert (await notified(client)).has_msg


async def test_a_notification_waits_for_a_message(bed: BrokerBed, client: BedClient) -> None:
    asking = asyncio.create_task(notified(client, 15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    reply = await bed.connect().ask(
        RequestCode.POLLING_INFO,
        PollingInfoHeader(consumer_group=GROUP, topic=TOPIC, queue_id=-1),
    )
    assert read_header(PollingInfoReplyHeader, reply.fields).polling_num == 1
    bed.put()
    bed.broker.messages.long_polls.announce(TOPIC, 0)
    assert (await asking).has_msg
    assert (await pop(client)).bodies == [b"hello"]


async def test_operators_see_what_is_in_flight(bed: BrokerBed, client: BedClient) -> None:
    bed.put()
    bed.put()
    popped = await pop(client)
    await ack(client, popped.receipts[0])
    waiting = asyncio.create_task(pop(bed.connect(), poll_time=15_000))
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    reply = await client.ask(RequestCode.GET_WAITING_MESSAGES)
    shown = read_body(WaitingMessages, reply.body)
    due_ms = bed.clock.now_ms() + 10_000
    assert shown.in_flight == {GROUP: DelayedMessages(count=1, next_due_ms=due_ms)}
    assert shown.waiting_pops == {GROUP: 1}
    waiting.cancel()


async def test_a_message_that_is_gone_is_not_waited_for(
    bed: BrokerBed, client: BedClient, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        bed.put()
    await pop(client)
    bed.broker.store.delete_topic(TOPIC)
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    assert bed.broker.waiting.pops.in_flight.count == 0
    assert "3 messages from 0 on in queue 0 of TopicA are not redelivered" in caplog.text


async def test_a_message_without_room_for_more_properties_comes_again_all_the_same(
    tmp_path: Path,
) -> None:
    config = small_config(tmp_path, commit_log_file_size=1 << 17)
    async with broker_bed(tmp_path, store=config) as bed:
        bed.broker.tables.topics.find_or_create(TOPIC, 1)
        client = bed.connect()
        bed.put(properties={"a": "x" * 32_730})
        await pop(client)
        (message,) = (await popped_after(bed, client, 10)).messages
        assert (message.body, message.reconsume_times, message.topic) == (b"hello", 1, TOPIC)
        assert len(message.properties["a"]) == 32_730
