"""Send-backs: what becomes of messages that a consumer could not handle."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace, replace as changed

from roquet.broker.broker import Broker
from roquet.broker.tables.topics import TopicFlag
from roquet.net.limits import ConnectionLimits
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.headers.messages import SendBackHeader, SendMessageHeader
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.names import SCHEDULE_TOPIC
from roquet.store.config import FlushMode
from roquet.store.errors import SyncFailed
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.faulty_disk import FaultyDisk
from tests.support.late_disk import stop_disk, until_late
from tests.support.stores import bodies, messages, small_config


async def send_back(client: BedClient, physical_offset: int, **members: object) -> Command:
    values: dict[str, object] = {"offset": physical_offset, "group": "readers", "delay_level": 0}
    header = SendBackHeader(**(values | members))  # type: ignore[arg-type]
    return await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)


def waiting(broker: Broker, level: int) -> list[StoredMessage]:
    return messages(broker.store, SCHEDULE_TOPIC, level - 1)


def retry_place(message: StoredMessage) -> tuple[str, str]:
    return message.properties["REAL_TOPIC"], message.properties["REAL_QID"]


async def test_a_message_comes_again_after_the_delay_of_its_first_failure(
    bed: BrokerBed, client: BedClient
) -> None:
    appended = bed.put(b"again", properties={"TAGS": "red"})
    assert (await send_back(client, appended.physical_offset)).code == ResponseCode.SUCCESS
    (message,) = waiting(bed.broker, level=3)
    assert (message.body, message.tags, message.reconsume_times) == (b"again", "red", 1)
    assert retry_place(message) == ("%RETRY%readers", "0")
    assert message.properties["RETRY_TOPIC"] == "TopicA"


async def test_the_consumer_may_choose_the_level(bed: BrokerBed, client: BedClient) -> None:
    offset = bed.put().physical_offset
    await send_back(client, offset, delay_level=1)
    await send_back(client, offset, delay_level=99)
    assert len(waiting(bed.broker, level=1)) == 1
    (message,) = waiting(bed.broker, level=18)
    assert message.properties["DELAY"] == "18"


async def test_after_its_last_try_a_message_is_dead_at_once(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name="readers", retry_max_times=0))
    await send_back(client, bed.put(b"dead").physical_offset)
    (message,) = messages(bed.broker.store, "%DLQ%readers")
    assert (message.body, message.reconsume_times) == (b"dead", 1)
    assert message.properties["DELAY"] == "0"
    topic = bed.broker.tables.topics.find("%DLQ%readers")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


@pytest.mark.parametrize("member", [{"delay_level": -1}, {"max_reconsume_times": 0}])
async def test_the_consumer_may_give_up(
    bed: BrokerBed, client: BedClient, member: dict[str, int]
) -> None:
    await send_back(client, bed.put().physical_offset, **member)
    assert bodies(bed.broker.store, "%DLQ%readers") == [b"hello"]


async def test_a_timer_that_failed_does_not_wait_for_its_time_again(
    bed: BrokerBed, client: BedClient
) -> None:
    properties = {"TIMER_DELAY_SEC": "60", "TIMER_OUT_MS": "1700000000000"}
    offset = bed.put(properties=properties).physical_offset
    await send_back(client, offset)
    (message,) = waiting(bed.broker, level=3)
    assert "TIMER_DELAY_SEC" not in message.properties
    await send_back(client, offset, delay_level=-1)
    assert bodies(bed.broker.store, "%DLQ%readers") == [b"hello"]


async def test_the_group_and_its_retry_topic_are_made(bed: BrokerBed, client: BedClient) -> None:
    offset = bed.put().physical_offset
    await send_back(client, offset, group="new", unit_mode=True)
    assert "new" in bed.broker.tables.groups
    topic = bed.broker.tables.topics.find("%RETRY%new")
    assert topic is not None
    assert topic.topic_sys_flag == TopicFlag.UNIT_SUBSCRIPTION
    assert bed.wants_to_register
    assert {"topics.json", "subscriptionGroup.json"} <= set(bed.unsaved_files)


async def test_retries_are_spread_over_the_queues_of_the_group(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name="readers", retry_queue_nums=3))
    offset = bed.put().physical_offset
    for _ in range(100):
        await send_back(client, offset)
    queues = {message.properties["REAL_QID"] for message in waiting(bed.broker, level=3)}
    assert queues == {"0", "1", "2"}


async def test_a_group_without_retry_queues_wants_nothing_twice(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name="readers", retry_queue_nums=0))
    end = bed.put().physical_offset
    log_end = bed.broker.store.log_end
    assert (await send_back(client, end)).code == ResponseCode.SUCCESS
    assert bed.broker.store.log_end == log_end


@pytest.mark.parametrize("offset", [1, 10_000_000, -1])
async def test_what_is_no_message_cannot_be_sent_back(
    bed: BrokerBed, client: BedClient, offset: int
) -> None:
    bed.put()
    assert (await send_back(client, offset)).code == ResponseCode.SYSTEM_ERROR


async def test_an_unknown_group_is_refused_if_none_may_be_made(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.config = replace(bed.broker.config, create_groups=False)
    reply = await send_back(client, bed.put().physical_offset)
    assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    header = SendMessageHeader(
        producer_group="p",
        topic="%RETRY%readers",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )
    reply = await client.ask(RequestCode.SEND_MESSAGE, header)
    assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_what_cannot_be_written_to_takes_nothing_back(
    bed: BrokerBed, client: BedClient
) -> None:
    offset = bed.put().physical_offset
    topic = bed.broker.tables.topics.find_or_create("%RETRY%readers", 1)
    bed.broker.tables.topics.update(changed(topic, perm=Permission.READ))
    assert (await send_back(client, offset)).code == ResponseCode.NO_PERMISSION
    bed.broker.config = replace(bed.broker.config, permission=Permission.READ)
    assert (await send_back(client, offset, group="other")).code == ResponseCode.NO_PERMISSION


async def test_send_backs_are_counted_for_the_topic_they_came_from_first(
    bed: BrokerBed, client: BedClient
) -> None:
    offset = bed.put(properties={"RETRY_TOPIC": "orders"}).physical_offset
    await send_back(client, offset)
    assert bed.broker.statistics.find("SNDBCK_PUT_NUMS", "orders@readers") is not None


async def test_with_sync_flush_a_consumer_hears_nothing_before_the_disk_has_it(
    tmp_path: Path,
) -> None:
    store = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=store) as bed:
        offset = bed.put().physical_offset
        await eventually(lambda: bed.broker.store.synced_end == bed.broker.store.log_end)
        reply = await send_back(bed.connect(), offset)
        assert reply.code == ResponseCode.SUCCESS
        assert bed.broker.store.synced_end == bed.broker.store.log_end


@pytest.mark.slow
async def test_a_send_back_that_is_late_on_disk_is_left_to_the_consumer(tmp_path: Path) -> None:
    store = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=store) as bed:
        offset = bed.put().physical_offset
        await eventually(lambda: bed.broker.store.synced_end == bed.broker.store.log_end)
        stop_disk(bed)
        asking = asyncio.create_task(send_back(bed.connect(), offset))
        await asyncio.sleep(0)
        await until_late(bed.broker.messages.acks, bed.clock, bed.connect())
        assert (await asking).code == ResponseCode.SYSTEM_ERROR


async def test_a_send_back_for_which_there_is_no_room_to_wait_is_not_stored(
    tmp_path: Path,
) -> None:
    store = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=store) as bed:
        offset = bed.put().physical_offset
        await eventually(lambda: bed.broker.store.synced_end == bed.broker.store.log_end)
        end = bed.broker.store.log_end
        reply = await send_back(bed.connect(ConnectionLimits(deferred_count_max=0)), offset)
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert bed.broker.store.log_end == end


async def test_a_send_back_that_the_disk_did_not_take_is_refused(tmp_path: Path) -> None:
    store = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    disk = FaultyDisk(tmp_path)
    stack = AsyncExitStack()
    bed = await stack.enter_async_context(broker_bed(tmp_path, store=store, disk=disk))
    offset = bed.put().physical_offset
    await eventually(lambda: bed.broker.store.synced_end == bed.broker.store.log_end)
    disk.fail_next_sync()
    for _ in range(2):  # when it fails, and ever after
        reply = await send_back(bed.connect(), offset)
        assert reply.code == ResponseCode.SYSTEM_ERROR
    with pytest.raises(SyncFailed):
        await stack.aclose()
