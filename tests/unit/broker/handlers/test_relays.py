"""Operators ask consumers through the broker."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from roquet.protocol.bodies.body import MessageQueue, QueueTable, read_body, write_body
from roquet.protocol.bodies.offsets import ConsumerStatus
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command, reply_to
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.groups import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    RunningInfoHeader,
)
from roquet.protocol.messages.message_id import offset_id
from tests.support.broker_bed import BedClient, BrokerBed

RUNNING_INFO = RunningInfoHeader(consumer_group="g", client_id="c1")


@pytest.fixture
async def consumer(bed: BrokerBed) -> BedClient:
    consumer = bed.connect()
    await consumer.beat("c1", reads={"g": ["TopicA"]})
    await consumer.all_asked()
    return consumer


def begun(asking: Coroutine[Any, Any, Command]) -> asyncio.Task[Command]:
    return asyncio.create_task(asking)


async def test_the_answer_of_a_consumer_is_handed_on(
    client: BedClient, consumer: BedClient
) -> None:
    asking = begun(client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING_INFO))
    request = await consumer.asked()
    assert request.code == RequestCode.GET_CONSUMER_RUNNING_INFO
    assert field_texts(request.fields) == {
        "consumerGroup": "g",
        "clientId": "c1",
        "jstackEnable": "false",
    }
    consumer.answer(request, body=b"running", remark="fine")
    reply = await asking
    assert (reply.code, reply.body, reply.remark) == (ResponseCode.SUCCESS, b"running", "fine")


async def test_a_refusal_of_a_consumer_is_handed_on(client: BedClient, consumer: BedClient) -> None:
    asking = begun(client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING_INFO))
    consumer.answer(await consumer.asked(), ResponseCode.NO_PERMISSION, remark="no")
    reply = await asking
    assert (reply.code, reply.remark) == (ResponseCode.NO_PERMISSION, "no")


async def test_a_code_that_is_unknown_is_an_error(client: BedClient, consumer: BedClient) -> None:
    asking = begun(client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING_INFO))
    answer = reply_to(await consumer.asked())
    answer.code = 4711
    consumer.send(answer)
    assert (await asking).code == ResponseCode.SYSTEM_ERROR


async def test_a_consumer_that_does_not_answer_is_waited_for_to_a_limit(
    client: BedClient, consumer: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.broker.handlers.relays.RELAY_TIMEOUT_S", 0.01)
    reply = await client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING_INFO)
    assert reply.code == ResponseCode.CONSUME_MSG_TIMEOUT


async def test_a_consumer_that_leaves_instead_of_answering_is_an_error(
    client: BedClient, consumer: BedClient
) -> None:
    asking = begun(client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING_INFO))
    await consumer.asked()
    consumer.leave()
    assert (await asking).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("group", "client_id"), [("g", "c2"), ("nobody", "c1")])
async def test_a_client_that_is_not_connected_cannot_be_asked(
    client: BedClient, consumer: BedClient, group: str, client_id: str
) -> None:
    header = RunningInfoHeader(consumer_group=group, client_id=client_id)
    reply = await client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "not connected" in (reply.remark or "")


async def test_a_consumer_gets_a_message_out_of_turn(
    bed: BrokerBed, client: BedClient, consumer: BedClient
) -> None:
    appended = bed.put(b"look at this")
    msg_id = offset_id(bed.broker.messages.store_host, appended.physical_offset)
    header = ConsumeDirectlyHeader(consumer_group="g", client_id="c1", msg_id=msg_id)
    asking = begun(client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header))
    request = await consumer.asked()
    assert request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY
    assert request.body == bed.broker.store.record_at(appended.physical_offset)
    assert field_texts(request.fields) == {
        "consumerGroup": "g",
        "clientId": "c1",
        "msgId": msg_id,
        "brokerName": "broker-a",
    }
    consumer.answer(request, body=b"eaten")
    assert (await asking).body == b"eaten"


@pytest.mark.parametrize("msg_id", [None, "7F000001", "7F00000100002A9F00000000000FFFFF"])
async def test_only_a_message_that_is_there_can_be_consumed(
    client: BedClient, consumer: BedClient, msg_id: str | None
) -> None:
    header = ConsumeDirectlyHeader(consumer_group="g", client_id="c1", msg_id=msg_id)
    reply = await client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert await consumer.all_asked() == []


def status(offset: int) -> bytes:
    queue = MessageQueue(broker_name="broker-a", queue_id=0, topic="TopicA")
    return write_body(ConsumerStatus(message_queue_table=QueueTable({queue: offset})))


async def statuses(client: BedClient, client_id: str | None = None) -> asyncio.Task[Command]:
    header = ConsumerStatusHeader(topic="TopicA", group="g", client_addr=client_id)
    return begun(client.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header))


def offsets_by_client(reply: Command) -> dict[str, list[int]]:
    assert reply.code == ResponseCode.SUCCESS
    table = read_body(ConsumerStatus, reply.body).consumer_table
    return {client_id: list(queues.values()) for client_id, queues in table.items()}


async def test_all_consumers_of_a_group_say_how_far_they_are(
    bed: BrokerBed, client: BedClient, consumer: BedClient
) -> None:
    second, failing, garbling = bed.connect(), bed.connect(), bed.connect()
    for index, each in enumerate((second, failing, garbling), 2):
        await each.beat(f"c{index}", reads={"g": ["TopicA"]})
    for each in (consumer, second, failing, garbling):
        await each.all_asked()
    asking = await statuses(client)
    for each, answer in (
        (consumer, {"body": status(5)}),
        (second, {"body": status(7)}),
        (failing, {"code": ResponseCode.SYSTEM_ERROR}),
        (garbling, {"body": b"?"}),
    ):
        request = await each.asked()
        assert request.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        assert field_texts(request.fields) == {"topic": "TopicA", "group": "g"}
        each.answer(request, **answer)
    assert offsets_by_client(await asking) == {"c1": [5], "c2": [7]}


async def test_one_consumer_can_be_asked_how_far_it_is(
    bed: BrokerBed, client: BedClient, consumer: BedClient
) -> None:
    second = bed.connect()
    await second.beat("c2", reads={"g": ["TopicA"]})
    await second.all_asked()
    asking = await statuses(client, "c2")
    second.answer(await second.asked(), body=status(7))
    assert offsets_by_client(await asking) == {"c2": [7]}


async def test_a_consumer_that_does_not_report_is_left_out_after_a_while(
    client: BedClient, consumer: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.broker.handlers.relays.STATUS_TIMEOUT_S", 0.01)
    assert offsets_by_client(await (await statuses(client))) == {}


async def test_progress_of_members_is_empty_where_none_is_connected(client: BedClient) -> None:
    assert (await (await statuses(client))).code == ResponseCode.SYSTEM_ERROR
