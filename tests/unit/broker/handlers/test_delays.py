"""Sends with a delay, and what slaves and operators learn of delayed messages."""

from pathlib import Path

import pytest

from roquet.broker.delays.delivering import deliver_slice
from roquet.broker.delays.due import SliceBudget
from roquet.broker.handlers import progress
from roquet.broker.replication.replica_progress import Slave
from roquet.broker.settings.config import BrokerRole
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import DUE_BOUNDS_S, DelayedMessages, WaitingMessages
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.bodies.offsets import (
    AllProgress,
    DelayOffsetTable,
    PopProgress,
    TimerProgress,
    TransactionProgress,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import NoFields, read_header
from roquet.protocol.headers.brokers import (
    AllOffsetsHeader,
    AllProgressReplyHeader,
)
from roquet.protocol.headers.messages import (
    SendBackHeader,
    SendMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.message_id import parse_offset_id
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import START_MS
from tests.support.stores import messages
from tests.support.transactional import COMMIT, ROLLBACK, begin, end
from tests.support.waiting import Receiver, deliver_once, put_delayed, put_timer


async def test_a_slave_gets_what_is_on_disk_and_no_more(bed: BrokerBed, client: BedClient) -> None:
    async def reported_offsets() -> dict[int, int]:
        reply = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET, NoFields())
        return read_body(DelayOffsetTable, reply.body).offset_table

    delays = bed.broker.waiting.delays
    delays.levels._levels[0].offset = 6
    delays.propose()
    assert await reported_offsets() == {}
    bed.broker.waiting.progress.confirm(bed.broker.store.log_end)
    assert (await reported_offsets())[1] == 6


async def test_a_slave_of_ours_learns_for_which_log_all_of_it_is_true(
    bed: BrokerBed, client: BedClient
) -> None:
    async def asked(known_version: str) -> Command:
        header = AllOffsetsHeader(known_version=known_version)
        return await client.ask(RequestCode.GET_ALL_DELAY_OFFSET, header)

    progress = bed.broker.waiting.progress
    progress.levels.propose(DelayOffsetTable(offset_table={1: 6}), 100)
    progress.timers.propose(TimerProgress(next_offset=7), 200)
    progress.transactions.propose(TransactionProgress(half_offset=8), 300)
    progress.pops.propose(PopProgress(offset_table={0: 9}), 250)
    progress.confirm(300)
    reply = await asked("")
    printed = read_header(AllProgressReplyHeader, reply.fields)
    assert (printed.version, printed.epoch) == (progress.version, 0)
    assert read_body(AllProgress, reply.body) == AllProgress(
        offset_table={1: 6},
        timers=TimerProgress(next_offset=7, true_at=200),
        transactions=TransactionProgress(half_offset=8, true_at=300),
        pops=PopProgress(offset_table={0: 9}, true_at=250),
        true_at=100,
    )
    assert (await asked(progress.version)).body == b""


async def test_a_slave_of_apache_gets_what_is_true_for_the_log_that_it_has(
    bed: BrokerBed, client: BedClient
) -> None:
    levels, replicas = bed.broker.waiting.progress.levels, bed.broker.replication.replicas
    for offset in (5, 6):
        levels.propose(DelayOffsetTable(offset_table={1: offset}), offset * 100)
        levels.confirm(offset * 100)
    slave = Slave("somewhere:1", 599, 599)
    replicas.join(slave)
    reply = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET, NoFields())
    assert reply.body == b'{"offsetTable":{"1":5}}'
    replicas.confirm(slave, 600)
    reply = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET, NoFields())
    assert reply.body == b'{"offsetTable":{"1":6}}'


async def test_an_operator_sees_how_far_each_level_is(bed: BrokerBed, client: BedClient) -> None:
    for _ in range(3):
        put_delayed(bed.broker.store, level=2)
    bed.clock.advance(5)
    deliver_once(bed.broker.waiting.delays, Receiver(), bed.clock, count_max=2)
    reply = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO, NoFields())
    table = read_body(KvTable, reply.body).table
    assert {name: value for name, value in table.items() if name.startswith("schedule")} == {
        "scheduleMessageOffset_2": "2,3"
    }


async def send(client: BedClient, properties: str) -> Command:
    header = SendMessageHeaderV2(
        producer_group="producers",
        topic="TopicA",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=1,
        sys_flag=0,
        born_timestamp=START_MS,
        flag=7,
        properties=properties,
    )
    return await client.ask(RequestCode.SEND_MESSAGE_V2, header, b"later")


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("DELAY", "2", (SCHEDULE_TOPIC, 1)),
        ("TIMER_DELIVER_MS", str(START_MS + 9), (TIMER_TOPIC, 0)),
    ],
)
async def test_the_reply_to_a_delayed_send_names_the_queue_asked_for_and_the_place_it_waits_in(
    bed: BrokerBed, client: BedClient, name: str, value: str, place: tuple[str, int]
) -> None:
    await send(client, f"{name}\x01{value}")
    reply = read_header(
        SendMessageReplyHeader, (await send(client, f"{name}\x01{value}\x02WAIT\x01true")).fields
    )
    assert (reply.queue_id, reply.queue_offset) == (1, 1)
    physical_offset = parse_offset_id(reply.msg_id).physical_offset
    message = read_record(bed.broker.store.record_at(physical_offset))
    assert (message.topic, message.queue_id) == place
    assert (message.body, message.flag, message.born_timestamp) == (b"later", 7, START_MS)
    assert message.properties.items() >= {
        ("REAL_TOPIC", "TopicA"),
        ("REAL_QID", "1"),
        ("CLUSTER", "DefaultCluster"),
        ("WAIT", "true"),
    }


async def test_a_send_that_only_seems_delayed_is_a_plain_send(
    bed: BrokerBed, client: BedClient
) -> None:
    await send(client, "MYDELAY\x013\x02DELAY\x010\x02WAIT\x01true")
    (message,) = messages(bed.broker.store, "TopicA", 1)
    assert message.properties.keys() == {"MYDELAY", "DELAY", "CLUSTER", "__CRC32#"}


async def test_a_send_to_the_retries_of_a_group_waits_also_on_its_way_to_the_dead_letters(
    bed: BrokerBed, client: BedClient
) -> None:
    """So does Apache 4.9.7; consumers that handle messages in order give up in this way."""
    header = SendMessageHeader(
        producer_group="p",
        topic="%RETRY%readers",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=START_MS,
        flag=0,
        properties="DELAY\x014",
        reconsume_times=16,
    )
    reply = await client.ask(RequestCode.SEND_MESSAGE, header, b"dead")
    assert reply.code == ResponseCode.SUCCESS
    (message,) = messages(bed.broker.store, SCHEDULE_TOPIC, 3)
    assert message.properties["REAL_TOPIC"] == "%DLQ%readers"


# --- what waits (ours) ---


NOTHING_WAITS = WaitingMessages(due_counts=[0] * (len(DUE_BOUNDS_S) + 1))


async def waiting(client: BedClient) -> WaitingMessages:
    reply = await client.ask(RequestCode.GET_WAITING_MESSAGES, NoFields())
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return read_body(WaitingMessages, reply.body)


async def test_a_retry_is_seen_until_its_time_has_come(bed: BrokerBed, client: BedClient) -> None:
    assert await waiting(client) == NOTHING_WAITS
    place = bed.put(topic="TopicA").physical_offset
    back = SendBackHeader(group="billing", offset=place, delay_level=2, origin_topic="TopicA")
    assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == 0
    delay_ms = bed.broker.config.store.delay_levels_ms[1]
    found = await waiting(client)
    assert found.delayed == {
        "%RETRY%billing": DelayedMessages(count=1, next_due_ms=START_MS + delay_ms)
    }
    assert found.due_counts == [1, *NOTHING_WAITS.due_counts[1:]]
    bed.clock.advance(delay_ms / 1000)
    deliver_slice(bed.broker.messages, bed.broker.waiting.delays, SliceBudget(bed.clock))
    assert await waiting(client) == NOTHING_WAITS


async def test_levels_and_timers_of_a_topic_are_counted_together(
    bed: BrokerBed, client: BedClient
) -> None:
    delays = bed.broker.waiting.delays
    put_delayed(bed.broker.store, level=1)
    put_timer(bed.broker.store, START_MS + 60_000)
    put_timer(bed.broker.store, START_MS + 61_000)
    assert not (await waiting(client)).is_counted
    deliver_slice(bed.broker.messages, delays, SliceBudget(bed.clock))
    delays.levels.count_some()
    (found,) = (await waiting(client)).delayed.items()
    assert found == ("TopicA", DelayedMessages(count=3, next_due_ms=found[1].next_due_ms))
    bed.clock.advance(62)
    for _ in range(3):
        deliver_slice(bed.broker.messages, delays, SliceBudget(bed.clock))
    assert await waiting(client) == NOTHING_WAITS


async def test_half_messages_are_seen_until_their_transaction_ends(
    bed: BrokerBed, client: BedClient
) -> None:
    first, second = [await begin(bed, client, key) for key in "ab"]
    found = await waiting(client)
    assert (found.half_count, found.half_topics) == (2, {"TopicA": 2})
    await end(client, first, COMMIT)
    assert (await waiting(client)).half_topics == {"TopicA": 1}
    await end(client, second, ROLLBACK)
    assert await waiting(client) == NOTHING_WAITS


async def test_of_many_half_messages_only_some_are_read(
    bed: BrokerBed, client: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in range(40):
        await begin(bed, client, str(key))
    monkeypatch.setattr(progress, "HALF_COUNT_MAX", 35)
    found = await waiting(client)
    assert (found.half_count, found.half_topics) == (40, {"TopicA": 35})


async def test_a_slave_does_not_report_what_waits(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        reply = await bed.connect().ask(RequestCode.GET_WAITING_MESSAGES, NoFields())
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "ask the master" in (reply.remark or "")
