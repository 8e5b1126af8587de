"""Operators move groups, the 4.9 way and the 5.x way."""

from typing import Any

import pytest

from roquet.broker.messages.long_polling import QueueName
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.offsets import ResetOffsetList, ResetOffsets
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.groups import ResetOffsetHeader
from tests.support.broker_bed import VERSION_4_9_7, VERSION_5_5_0, BedClient, BrokerBed
from tests.support.eventually import eventually
from tests.support.fake_clock import START_MS

THE_END = -1
BEFORE_ALL = 0


@pytest.fixture
async def moved(bed: BrokerBed) -> BrokerBed:
    """Three messages in queue 0, two in queue 1, a second apart; group g has read two and one."""
    for index in range(5):
        bed.put(queue_id=index % 2)
        bed.clock.advance(1)
    bed.broker.tables.groups.update(GroupConfig(group_name="g"))
    bed.broker.tables.offsets.commit("g", "TopicA", 0, 2)
    bed.broker.tables.offsets.commit("g", "TopicA", 1, 1)
    return bed


async def reset(
    client: BedClient,
    timestamp: int,
    *,
    version: int,
    group: str = "g",
    topic: str = "TopicA",
    is_force: bool = True,
    queue_id: int | None = None,
    offset: int | None = None,
) -> Command:
    header = ResetOffsetHeader(
        topic=topic,
        group=group,
        timestamp=timestamp,
        is_force=is_force,
        queue_id=queue_id,
        offset=offset,
    )
    return await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, version=version)


def table_of(reply: Command) -> dict[int, int]:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    table = read_body(ResetOffsets, reply.body).offset_table
    assert {(queue.broker_name, queue.topic) for queue in table} <= {("broker-a", "TopicA")}
    return {queue.queue_id: offset for queue, offset in table.items()}


@pytest.mark.parametrize(
    ("timestamp", "is_force", "table"),
    [
        (BEFORE_ALL, True, {0: 0, 1: 0}),
        (THE_END, True, {0: 3, 1: 2}),
        (THE_END, False, {0: 2, 1: 1}),
        (START_MS + 2000, False, {0: 1, 1: 1}),
    ],
)
async def test_4_9_tools_have_the_consumers_notified(
    moved: BrokerBed, client: BedClient, timestamp: int, is_force: bool, table: dict[int, int]
) -> None:
    consumer = moved.connect()
    await consumer.beat("c1", reads={"g": ["TopicA"]})
    await consumer.all_asked()
    reply = await reset(client, timestamp, version=VERSION_4_9_7, is_force=is_force)
    assert table_of(reply) == table
    (reported,) = await consumer.all_asked()
    assert reported.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    assert reported.is_oneway
    assert reported.body == reply.body
    assert field_texts(reported.fields) == {
        "topic": "TopicA",
        "group": "g",
        "timestamp": str(timestamp),
        "isForce": str(is_force).lower(),
    }
    # The consumers commit it when they have dropped what they are working on.
    assert moved.broker.tables.offsets.queues("g", "TopicA") == {0: 2, 1: 1}


async def test_consumers_in_cpp_get_a_form_that_they_can_read(
    moved: BrokerBed, client: BedClient
) -> None:
    consumer = moved.connect()
    await consumer.beat("c1", reads={"g": ["TopicA"]}, language="CPP")
    await consumer.all_asked()
    reply = await reset(client, THE_END, version=VERSION_4_9_7)
    assert table_of(reply) == {0: 3, 1: 2}
    (reported,) = await consumer.all_asked()
    offsets = read_body(ResetOffsetList, reported.body).offset_table
    assert [(each.topic, each.broker_name, each.queue_id, each.offset) for each in offsets] == [
        ("TopicA", "broker-a", 0, 3),
        ("TopicA", "broker-a", 1, 2),
    ]


async def test_4_9_tools_learn_that_no_member_is_connected_and_commit_themselves(
    moved: BrokerBed, client: BedClient
) -> None:
    reply = await reset(client, THE_END, version=VERSION_4_9_7)
    assert reply.code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_4_9_tools_cannot_move_a_group_without_offsets(
    moved: BrokerBed, client: BedClient
) -> None:
    reply = await reset(client, THE_END, version=VERSION_4_9_7, group="nobody")
    assert reply.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("version", [VERSION_4_9_7, VERSION_5_5_0])
async def test_no_offset_is_moved_in_a_missing_topic(
    moved: BrokerBed, client: BedClient, version: int
) -> None:
    reply = await reset(client, THE_END, version=version, topic="no")
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    ("where", "table"),
    [
        ({"timestamp": BEFORE_ALL}, {0: 0, 1: 0}),
        ({"timestamp": THE_END, "is_force": False}, {0: 3, 1: 2}),
        ({"timestamp": START_MS + 2000, "queue_id": -1, "offset": -1}, {0: 1, 1: 1}),
        ({"timestamp": THE_END, "queue_id": 1}, {1: 2}),
        ({"timestamp": BEFORE_ALL, "queue_id": 0, "offset": 1}, {0: 1}),
        ({"timestamp": BEFORE_ALL, "queue_id": 0, "offset": 3}, {0: 3}),
        ({"timestamp": THE_END, "queue_id": 0, "offset": 0}, {0: 0}),
    ],
)
async def test_5_x_tools_have_the_group_moved_here(
    moved: BrokerBed, client: BedClient, where: dict[str, Any], table: dict[int, int]
) -> None:
    reply = await reset(client, version=VERSION_5_5_0, **where)
    assert table_of(reply) == table
    offsets = moved.broker.tables.offsets
    assert offsets.queues("g", "TopicA") == {0: 2, 1: 1} | table
    assert moved.has_saved_offsets
    assert {
        queue_id: offset
        for queue_id in (0, 1)
        if (offset := offsets.take_reset("g", "TopicA", queue_id)) is not None
    } == table


async def test_a_move_ends_the_waiting_of_a_pull(moved: BrokerBed, client: BedClient) -> None:
    looks: list[int] = []

    class Waiting:
        queues = (QueueName("TopicA", 0),)
        last_tick = 0

        def look(self) -> bool:
            looks.append(1)
            return len(looks) > 1

        def give_up(self) -> None:
            pass

    moved.broker.messages.long_polls.wait(Waiting(), 100)
    await reset(client, BEFORE_ALL, version=VERSION_5_5_0)
    await eventually(lambda: not moved.waiting_pull_count)


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ({"group": "nobody"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"queue_id": 2}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": 0, "offset": 4}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_5_x_tools_cannot_move_what_is_not_there(
    moved: BrokerBed, client: BedClient, where: dict[str, Any], code: ResponseCode
) -> None:
    reply = await reset(client, THE_END, version=VERSION_5_5_0, **where)
    assert reply.code == code
    assert moved.broker.tables.offsets.queues("g", "TopicA") == {0: 2, 1: 1}


async def test_a_tool_that_names_a_queue_is_served_the_5_x_way(
    moved: BrokerBed, client: BedClient
) -> None:
    consumer = moved.connect()
    await consumer.beat("c1", reads={"g": ["TopicA"]})
    await consumer.all_asked()
    reply = await reset(client, THE_END, version=VERSION_4_9_7, queue_id=0, offset=1)
    assert table_of(reply) == {0: 1}
    assert moved.broker.tables.offsets.find("g", "TopicA", 0) == 1
    assert not await consumer.all_asked()
