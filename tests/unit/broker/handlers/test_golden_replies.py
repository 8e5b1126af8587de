"""What Apache's brokers were asked, asked again; our replies mean the same as theirs.

The recorded brokers had a history. What they knew is rebuilt from their own replies: topics,
groups, offsets, connected clients and how many messages each queue had. Clients of 4.9.7 are
held against the 4.9.7 broker, clients of 5.5.0 against the 5.5.0 broker.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roquet.broker.broker import Broker
from roquet.broker.handlers import ROUTES, popping, sending
from roquet.broker.tables.clients import Client
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.topics import TopicTable
from roquet.protocol.bodies.body import MessageQueue, write_body
from roquet.protocol.bodies.clients import ConsumerConnections, ConsumerData, ProducerTable
from roquet.protocol.bodies.groups import GroupConfigTable
from roquet.protocol.bodies.offsets import (
    ConsumeOffsets,
    ConsumerOffsetTable,
    ConsumerStatus,
    ConsumeStats,
    ConsumeStatsList,
)
from roquet.protocol.bodies.topics import TopicConfigTable, TopicStats
from roquet.protocol.catalog import decode_reply
from roquet.protocol.codes import RequestCode as Code, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts
from roquet.protocol.host import unpack_host
from roquet.protocol.lenient_json import strict_json
from roquet.protocol.messages.record import split_records
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.golden_frames import GoldenFrame, golden_frames

Exchange = tuple[GoldenFrame, GoldenFrame]

# Sends, pulls and pops are compared elsewhere. Places in the log of the recorded broker, its
# settings and counters, and what only a real consumer can answer are looked at in the tests of the
# handlers.
INCOMPARABLE = {
    *(route.code for module in (sending, popping) for route in module.ROUTES),
    Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE,
    Code.CONSUMER_SEND_MSG_BACK,
    Code.GET_ALL_DELAY_OFFSET,
    Code.GET_ALL_MESSAGE_REQUEST_MODE,
    Code.VIEW_MESSAGE_BY_ID,
    Code.QUERY_CONSUME_QUEUE,
    Code.GET_BROKER_CONFIG,
    Code.GET_BROKER_RUNTIME_INFO,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
}
# Where we mean to be different.
DEVIATIONS = {
    "raw_s49_c49#47": ResponseCode.TOPIC_NOT_EXIST,  # a commit for a topic that is not there
    "raw_s49_c49#134": ResponseCode.NO_PERMISSION,  # a path set by a request
}
COMPARABLE = {route.code for route in ROUTES} - INCOMPARABLE
# Times, rates, and members that only one side has.
VOLATILE = {
    "avgpt",
    "consumeTimeStamp",
    "consumeTps",
    "dataVersion",
    "delayTime",
    "groupTopicMap",
    "indexLastUpdatePhyoffset",
    "indexLastUpdateTimestamp",
    "lastTimestamp",
    "lastUpdateTimestamp",
    "masterCommitLogMaxOffset",
    "mappingDataVersion",
    "maxTimeStamp",
    "minTimeStamp",
    "pullOffset",
    "pullOffsetTable",
    "subVersion",
    "sum",
    "timestamp",
    "topicPutTps",
    "topicQueueMappingDetailMap",
    "topicQueueMappingInfoMap",
    "totalGroupNum",
    "totalInflightDiff",
    "totalTopicNum",
    "tps",
}


def exchanges(scenario: str) -> Iterator[Exchange]:
    """What clients asked the broker, and what it replied."""
    waiting: dict[int, GoldenFrame] = {}
    for frame in golden_frames():
        if frame.scenario != scenario or {frame.sender, frame.receiver} != {"client", "broker"}:
            continue
        opaque = frame.command.opaque
        if frame.sender == "client" and frame.kind == "request":
            waiting[opaque] = frame
        elif frame.sender == "broker" and frame.kind == "response" and opaque in waiting:
            yield waiting.pop(opaque), frame


def body_of(exchange: Exchange) -> object:
    request, reply = exchange
    return decode_reply(request.request_code, reply.command).body


def meaning(request_code: int, reply: Command) -> object:
    """What a client sees of a reply that is not of its moment; lists have no order in Java."""
    body = decode_reply(request_code, reply).body
    if isinstance(body, ConsumeStatsList):
        # 5.5.0 names groups, too, of which it has nothing to say.
        body.consume_stats_list = list(filter(are_there_any, body.consume_stats_list))
    value = msgspec.json.decode(strict_json(write_body(body))) if body is not None else None
    return reply.code, steady(field_texts(reply.fields)), steady(value)


def are_there_any(groups: dict[str, list[ConsumeStats]]) -> bool:
    return any(groups.values())


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: steady(value[name]) for name in sorted(value) if name not in VOLATILE}
    if isinstance(value, list):
        return sorted(map(repr, map(steady, value)))
    return value


def port_of_broker(recorded: list[Exchange]) -> int:
    """Every stored message tells it."""
    for request, reply in recorded:
        if request.request_code == Code.VIEW_MESSAGE_BY_ID:
            (message,) = split_records(reply.command.body)
            return unpack_host(message.store_host).port
    raise AssertionError("no stored message was recorded")


def replace_topics(table: TopicTable, recorded: TopicConfigTable) -> None:
    for known in table.snapshot().topic_config_table:
        table.delete(known)
    table.load(write_body(recorded))


def replace_groups(table: GroupTable, recorded: GroupConfigTable) -> None:
    for known in tuple(table):
        table.delete(known.group_name)
    table.load(write_body(recorded))


def rebuild(bed: BrokerBed, recorded: list[Exchange]) -> BedClient:
    """Makes the broker know what the recorded one knew; the client that was connected to it."""
    broker = bed.broker
    resident = bed.connect()
    for exchange in recorded:
        match body_of(exchange):
            case TopicConfigTable() as topics:
                replace_topics(broker.tables.topics, topics)
            case GroupConfigTable() as groups:
                replace_groups(broker.tables.groups, groups)
            case ConsumerOffsetTable() as offsets:
                broker.tables.offsets.merge(offsets)
            case TopicStats() as stats:
                for queue, held in stats.offset_table.items():
                    fill(bed, queue, held.max_offset)
            case ConsumeStatsList() as report:
                for queue, progress in all_progress(report):
                    fill(bed, queue, progress.broker_offset)
            case ConsumerConnections() as consumers:
                group = field_texts(exchange[0].command.fields)["consumerGroup"]
                register_consumers(broker, resident, group, consumers)
            case ProducerTable() as producers:
                for group, members in producers.data.items():
                    for member in members:
                        address = (member.remote_ip or "").lstrip("/")
                        client = Client(
                            member.client_id, address, member.language, member.version, 0, 0
                        )
                        broker.clients.producers.register(group, resident.connection, client)
    return resident


def fill(bed: BrokerBed, queue: MessageQueue, max_offset: int) -> None:
    broker = bed.broker
    while broker.store.max_offset(queue.topic, queue.queue_id) < max_offset:
        bed.put(topic=queue.topic, queue_id=queue.queue_id)
        broker.statistics.count_put(queue.topic, 1, 1)


def all_progress(report: ConsumeStatsList) -> Iterator[tuple[MessageQueue, ConsumeOffsets]]:
    for groups in report.consume_stats_list:
        for all_stats in groups.values():
            for stats in all_stats:
                yield from stats.offset_table.items()


def register_consumers(
    broker: Broker, resident: BedClient, group: str, consumers: ConsumerConnections
) -> None:
    (member,) = consumers.connection_set
    data = ConsumerData(
        group_name=group,
        consume_from_where=consumers.consume_from_where,
        consume_type=consumers.consume_type,
        message_model=consumers.message_model,
        subscription_data_set=list(consumers.subscription_table.values()),
    )
    assert member.client_addr is not None
    client = Client(member.client_id, member.client_addr, member.language, member.version, 0, 0)
    broker.clients.consumers.register(resident.connection, client, data)


def follow(broker: Broker, exchange: Exchange) -> None:
    """The consumer of the recorded broker went on reading; its next report says how far."""
    body = body_of(exchange)
    if isinstance(body, ConsumeStats):
        group = field_texts(exchange[0].command.fields)["consumerGroup"]
        for queue, offsets in body.offset_table.items():
            broker.tables.offsets.commit(
                group, queue.topic, queue.queue_id, offsets.consumer_offset
            )


async def ask_again(
    bed: BrokerBed, client: BedClient, resident: BedClient, exchange: Exchange
) -> Command:
    request, _ = exchange
    follow(bed.broker, exchange)
    client.send(request.command)
    if request.request_code == Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS:
        recorded = body_of(exchange)
        assert isinstance(recorded, ConsumerStatus)
        (table,) = recorded.consumer_table.values()
        question = await resident.asked()
        resident.answer(question, body=write_body(ConsumerStatus(message_queue_table=table)))
    answer = await client.replied()
    await resident.all_asked()
    return answer


@pytest.mark.parametrize(("scenario", "code_count"), [("raw_s49_c49", 26), ("raw_s55_c55", 27)])
async def test_tools_get_the_recorded_replies(
    scenario: str, code_count: int, tmp_path: Path
) -> None:
    recorded = list(exchanges(scenario))
    port = port_of_broker(recorded)
    codes = set()
    async with broker_bed(tmp_path, listen_port=port, sql_filters=True) as bed:
        resident = rebuild(bed, recorded)
        client = bed.connect()
        for exchange in recorded:
            request, reply = exchange
            code = request.request_code
            if (
                code not in COMPARABLE
                or reply.command.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            ):
                continue
            answer = await ask_again(bed, client, resident, exchange)
            codes.add(code)
            if request.place in DEVIATIONS:
                assert answer.code == DEVIATIONS[request.place]
            else:
                assert meaning(code, answer) == meaning(code, reply.command), request.place
    assert len(codes) >= code_count
