"""Pulls: what they bring, when they wait, what they are refused."""

import asyncio
from pathlib import Path

import pytest

from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission, PullFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import read_header
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    PullMessageReplyHeader,
)
from roquet.protocol.messages.record import split_records
from roquet.store.config import FlushMode, StoreConfig
from tests.support.broker_bed import VERSION_5_5_0, BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.stores import small_config

V4_9_7 = 407
WAITING = int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)


def header(offset: int = 0, **members: object) -> PullMessageHeader:
    values: dict[str, object] = {
        "consumer_group": "readers",
        "topic": "TopicA",
        "queue_id": 0,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": int(PullFlag.SUBSCRIPTION),
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 0,
        "subscription": "*",
    }
    return PullMessageHeader(**(values | members))  # type: ignore[arg-type]


async def pull(
    client: BedClient,
    pull_header: PullMessageHeader | None = None,
    *,
    code: RequestCode = RequestCode.PULL_MESSAGE,
    version: int = V4_9_7,
) -> Command:
    return await client.ask(code, pull_header or header(), version=version)


def bodies(reply: Command) -> list[bytes]:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return [message.body for message in split_records(reply.body)]


def fields(reply: Command) -> PullMessageReplyHeader:
    return read_header(PullMessageReplyHeader, reply.fields)


def send(bed: BrokerBed, *bodies: bytes, tags: str | None = None) -> None:
    """As a send does it: stored and announced."""
    for body in bodies:
        bed.put(body, properties={"TAGS": tags} if tags else None)
        bed.broker.messages.long_polls.announce("TopicA", 0)


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
async def test_messages_come_in_their_order_with_the_place_to_continue(
    bed: BrokerBed, client: BedClient, code: RequestCode
) -> None:
    send(bed, b"1", b"2", b"3")
    reply = await pull(client, header(1), code=code)
    assert bodies(reply) == [b"2", b"3"]
    assert fields(reply) == PullMessageReplyHeader(
        suggest_which_broker_id=0, next_begin_offset=3, min_offset=0, max_offset=3
    )
    assert reply.remark == "FOUND"


async def test_not_more_come_than_were_asked_for(bed: BrokerBed, client: BedClient) -> None:
    send(bed, b"1", b"2", b"3")
    assert bodies(await pull(client, header(max_msg_nums=2))) == [b"1", b"2"]
    assert bodies(await pull(client, header(max_msg_nums=-5))) == [b"1"]
    assert bodies(await pull(client, header(max_msg_bytes=1))) == [b"1"]


def stock_store(directory: Path, *, is_on_disk: bool = False) -> StoreConfig:
    """With the limits of a stock broker, and files that hold more."""
    return small_config(
        directory,
        commit_log_file_size=4 << 20,
        queue_file_size=20 * 1000,
        read_count_max_in_memory=32,
        read_size_max_in_memory=256 * 1024,
        memory_size=0 if is_on_disk else 1 << 30,
    )


@pytest.mark.parametrize("size_max", [None, 256 * 1024, 2**31 - 1])
async def test_stock_clients_get_as_many_as_apache_gives_them(
    tmp_path: Path, size_max: int | None
) -> None:
    """The sizes are those that Java's 5.x consumers name in every pull."""
    async with broker_bed(tmp_path, store=stock_store(tmp_path)) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        send(bed, *[b"x"] * 50)
        reply = await pull(bed.connect(), header(max_msg_nums=50, max_msg_bytes=size_max))
        assert len(bodies(reply)) == 32


@pytest.mark.parametrize("is_on_disk", [False, True])
async def test_a_client_that_names_a_size_gets_as_many_as_were_asked_for(
    tmp_path: Path, *, is_on_disk: bool
) -> None:
    store = stock_store(tmp_path, is_on_disk=is_on_disk)
    async with broker_bed(tmp_path, store=store) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        send(bed, *[b"x" * 1000] * 300)
        client = bed.connect()
        reply = await pull(client, header(max_msg_nums=250, max_msg_bytes=350_000))
        assert len(bodies(reply)) == 250
        reply = await pull(client, header(max_msg_nums=250, max_msg_bytes=100_000))
        assert 80 < len(bodies(reply)) < 100


async def test_a_size_that_is_named_is_bounded_by_the_operator(tmp_path: Path) -> None:
    store = stock_store(tmp_path)
    async with broker_bed(tmp_path, store=store, bulk_pull_size_max=50_000) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        send(bed, *[b"x" * 1000] * 100)
        reply = await pull(bed.connect(), header(max_msg_nums=2**31 - 1, max_msg_bytes=10**9))
        assert 40 < len(bodies(reply)) <= 50


async def test_tags_are_compared_by_the_broker(bed: BrokerBed, client: BedClient) -> None:
    send(bed, b"1", tags="red")
    send(bed, b"2", tags="blue")
    send(bed, b"3")
    assert bodies(await pull(client, header(subscription="blue||green"))) == [b"2"]
    reply = await pull(client, header(subscription="green"))
    assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert (reply.remark, fields(reply).next_begin_offset) == ("NO_MATCHED_MESSAGE", 3)


@pytest.mark.parametrize(
    ("stored_count", "offset", "code", "next_offset", "remark"),
    [
        (0, 0, ResponseCode.PULL_NOT_FOUND, 0, "NO_MESSAGE_IN_QUEUE"),
        (0, 7, ResponseCode.PULL_OFFSET_MOVED, 0, "NO_MESSAGE_IN_QUEUE"),
        (2, 2, ResponseCode.PULL_NOT_FOUND, 2, "OFFSET_OVERFLOW_ONE"),
        (2, 9, ResponseCode.PULL_OFFSET_MOVED, 2, "OFFSET_OVERFLOW_BADLY"),
        (2, -1, ResponseCode.PULL_OFFSET_MOVED, 0, "OFFSET_TOO_SMALL"),
    ],
)
async def test_an_offset_without_a_message_says_where_to_go(
    bed: BrokerBed,
    client: BedClient,
    stored_count: int,
    offset: int,
    code: ResponseCode,
    next_offset: int,
    remark: str,
) -> None:
    send(bed, *[b"x"] * stored_count)
    reply = await pull(client, header(offset))
    assert (reply.code, reply.remark) == (code, remark)
    assert fields(reply).next_begin_offset == next_offset


async def test_a_pull_that_may_wait_is_answered_when_a_message_comes(
    bed: BrokerBed, client: BedClient
) -> None:
    waiting = asyncio.create_task(pull(client, header(sys_flag=WAITING)))
    await eventually(lambda: bed.waiting_pull_count)
    send(bed, b"1", b"2")
    assert bodies(await waiting) == [b"1", b"2"]
    assert bed.waiting_pull_count == 0


async def test_a_waiting_pull_sleeps_on_when_nothing_of_what_comes_is_wanted(
    bed: BrokerBed, client: BedClient
) -> None:
    waiting = asyncio.create_task(pull(client, header(sys_flag=WAITING, subscription="red")))
    await eventually(lambda: bed.waiting_pull_count)
    send(bed, b"1", tags="blue")
    send(bed, b"2", tags="red")
    reply = await waiting
    assert bodies(reply) == [b"2"]
    assert fields(reply).next_begin_offset == 2


async def test_a_pull_whose_time_is_over_hears_that_nothing_came(
    bed: BrokerBed, client: BedClient
) -> None:
    waiting = asyncio.create_task(pull(client, header(sys_flag=WAITING)))
    await eventually(lambda: bed.waiting_pull_count)
    bed.clock.advance(16)
    assert (await waiting).code == ResponseCode.PULL_NOT_FOUND


async def test_a_waiting_pull_dies_with_its_connection(bed: BrokerBed) -> None:
    client = bed.connect()
    waiting = asyncio.create_task(pull(client, header(sys_flag=WAITING)))
    await eventually(lambda: bed.waiting_pull_count)
    client.leave()
    assert bed.waiting_pull_count == 0
    waiting.cancel()


async def test_without_long_polling_a_pull_waits_only_shortly(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, long_polling=False, short_polling_ms=1000) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        waiting = asyncio.create_task(pull(bed.connect(), header(sys_flag=WAITING)))
        await eventually(lambda: bed.waiting_pull_count)
        bed.clock.advance(1.2)
        assert (await waiting).code == ResponseCode.PULL_NOT_FOUND


async def test_with_sync_flush_nothing_is_handed_out_before_it_is_durable(
    tmp_path: Path,
) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        client = bed.connect()
        bed.put(b"1")
        while (reply := await pull(client)).code == ResponseCode.PULL_NOT_FOUND:
            assert bed.broker.store.synced_end <= bed.broker.store.log_end
        assert bodies(reply) == [b"1"]
        assert bed.broker.store.synced_end == bed.broker.store.log_end


async def test_a_pull_carries_the_offset_of_its_group_and_never_back(
    bed: BrokerBed, client: BedClient
) -> None:
    committing = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
    for offset in (5, 3):
        await pull(client, header(sys_flag=committing, commit_offset=offset))
    assert bed.broker.tables.offsets.find("readers", "TopicA", 0) == 5


async def test_a_reset_sends_the_next_pull_to_its_new_place_once(
    bed: BrokerBed, client: BedClient
) -> None:
    send(bed, b"1", b"2")
    bed.broker.tables.offsets.reset("readers", "TopicA", 0, 1)
    reply = await pull(client, header(2))
    assert (reply.code, reply.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert fields(reply).next_begin_offset == 1
    assert bodies(await pull(client, header(1))) == [b"2"]


async def test_a_waiting_pull_hears_of_a_reset_at_once(bed: BrokerBed, client: BedClient) -> None:
    send(bed, b"1", b"2")
    waiting = asyncio.create_task(pull(client, header(2, sys_flag=WAITING)))
    await eventually(lambda: bed.waiting_pull_count)
    bed.broker.tables.offsets.reset("readers", "TopicA", 0, 1)
    bed.broker.messages.long_polls.announce("TopicA", 0)
    assert fields(await waiting).next_begin_offset == 1


async def test_a_waiting_pull_continues_when_there_is_more_than_one_look_can_see(
    bed: BrokerBed, client: BedClient
) -> None:
    waiting = asyncio.create_task(pull(client, header(sys_flag=WAITING, subscription="red")))
    await eventually(lambda: bed.waiting_pull_count)
    # One look sees 800 entries, and no further than to the end of a file of the queue.
    send(bed, *[b"x"] * 30, tags="blue")
    send(bed, b"wanted", tags="red")
    reply = await waiting
    while reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
        offset = fields(reply).next_begin_offset
        reply = await pull(client, header(offset, sys_flag=WAITING, subscription="red"))
    assert bodies(reply) == [b"wanted"]


async def test_an_unknown_group_is_made_and_saved(bed: BrokerBed, client: BedClient) -> None:
    await pull(client, header(consumer_group="newcomers"))
    assert "newcomers" in bed.broker.tables.groups
    assert "subscriptionGroup.json" in bed.unsaved_files


@pytest.mark.parametrize(
    ("members", "code_4_9", "code_5_5"),
    [
        ({"topic": "Nothing"}, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "WriteOnly"}, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION),
        ({"queue_id": 2}, ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": -1}, ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER),
        ({"consumer_group": "lazy"}, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION),
        (
            {"sys_flag": 0},
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ),
        (
            {"subscription": "||"},
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ),
        (
            {"subscription": "a > 1", "expression_type": "SQL92"},
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.SYSTEM_ERROR,
        ),
    ],
)
async def test_what_may_not_be_read_is_refused(
    bed: BrokerBed,
    client: BedClient,
    members: dict[str, object],
    code_4_9: ResponseCode,
    code_5_5: ResponseCode,
) -> None:
    bed.broker.tables.topics.update(TopicConfig(topic_name="WriteOnly", perm=Permission.WRITE))
    bed.broker.tables.groups.update(GroupConfig(group_name="lazy", consume_enable=False))
    assert (await pull(client, header(**members))).code == code_4_9  # type: ignore[arg-type]
    reply = await pull(client, header(**members), version=VERSION_5_5_0)  # type: ignore[arg-type]
    assert reply.code == code_5_5


async def test_a_broker_that_is_not_readable_hands_out_nothing(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, permission=int(Permission.WRITE)) as bed:
        assert (await pull(bed.connect())).code == ResponseCode.NO_PERMISSION


async def test_what_was_handed_out_and_what_was_not_there_is_counted(
    bed: BrokerBed, client: BedClient
) -> None:
    send(bed, b"1", b"2")
    await pull(client)
    await pull(client, header(2))
    bed.clock.advance(10)
    bed.broker.statistics.tick()
    entries = bed.broker.statistics.runtime_entries()
    assert entries["msgGetTotalTodayNow"] == "2"
    assert entries["getMissTps"].startswith("0.1 ")
