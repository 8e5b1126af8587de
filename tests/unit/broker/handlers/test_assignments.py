"""Shares of queues (400), and whether they are pulled or popped (401, 402)."""

from pathlib import Path

import pytest

from roquet.protocol.bodies.body import MessageQueue, read_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.pop import (
    AssignmentQuery,
    QueueAssignment,
    QueueAssignments,
    RequestModeSetting,
    RequestModeTable,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed

SETTING = RequestModeSetting(
    consumer_group="workers", mode="POP", pop_share_queue_num=8, topic="TopicA"
)


async def assigned(client: BedClient, **members: str) -> list[QueueAssignment]:
    values = {"client_id": "c1", "consumer_group": "workers", "topic": "TopicA"}
    query = AssignmentQuery(
        **(values | {"strategy_name": "AVG", "message_model": "CLUSTERING"} | members)
    )
    reply = await client.ask(RequestCode.QUERY_ASSIGNMENT, NoFields(), query)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return read_body(QueueAssignments, reply.body).message_queue_assignments


async def set_mode(client: BedClient, setting: RequestModeSetting = SETTING) -> int:
    reply = await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, NoFields(), setting)
    return reply.code


async def test_members_pull_their_share_if_nothing_was_set(client: BedClient) -> None:
    await client.beat("c1", reads={"workers": ["TopicA"]})
    found = await assigned(client)
    assert [(each.message_queue.queue_id, each.mode) for each in found] == [
        (0, "PULL"),
        (1, "PULL"),
    ]


async def test_members_pop_what_an_operator_wants_them_to_pop(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name="workers"))
    await client.beat("c1", reads={"workers": ["TopicA"]})
    assert await set_mode(client) == ResponseCode.SUCCESS
    everything = MessageQueue(topic="TopicA", broker_name="broker-a", queue_id=-1)
    assert await assigned(client) == [QueueAssignment(message_queue=everything, mode="POP")]
    reply = await client.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    table = read_body(RequestModeTable, reply.body)
    assert table.message_request_mode_map == {"TopicA": {"workers": SETTING}}


async def test_a_mode_survives_a_restart(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        bed.broker.tables.groups.update(GroupConfig(group_name="workers"))
        bed.broker.tables.topics.find_or_create("TopicA", 1)
        assert await set_mode(bed.connect()) == ResponseCode.SUCCESS
    async with broker_bed(tmp_path) as bed:
        assert bed.broker.tables.request_modes.find("TopicA", "workers") == SETTING


async def test_a_client_without_a_heartbeat_gets_nothing_yet(client: BedClient) -> None:
    assert await assigned(client) == []


async def test_every_member_of_a_broadcast_gets_all_queues(client: BedClient) -> None:
    found = await assigned(client, message_model="BROADCASTING")
    assert [each.message_queue.queue_id for each in found] == [0, 1]


async def test_retries_are_pulled(bed: BrokerBed, client: BedClient) -> None:
    bed.broker.tables.topics.find_or_create("%RETRY%workers", 1)
    await client.beat("c1", reads={"workers": ["TopicA"]})
    (found,) = await assigned(client, topic="%RETRY%workers")
    assert found.mode == "PULL"


@pytest.mark.parametrize(
    ("topic", "group", "mode", "code"),
    [
        ("Nowhere", "workers", "POP", ResponseCode.TOPIC_NOT_EXIST),
        ("TopicA", "unknown", "POP", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("%RETRY%workers", "workers", "POP", ResponseCode.NO_PERMISSION),
        ("TopicA", "workers", "PUSH", ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_an_impossible_mode_is_refused(
    bed: BrokerBed, client: BedClient, topic: str, group: str, mode: str, code: ResponseCode
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name="workers"))
    setting = RequestModeSetting(consumer_group=group, mode=mode, topic=topic)
    assert await set_mode(client, setting) == code
