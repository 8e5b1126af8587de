"""What Apache's name servers were asked, asked again; our replies mean the same as theirs.

The recorded name servers knew topics from earlier scenarios. What they knew is rebuilt from
their own replies: the list of all topics, the routes and the data version.
"""

from collections.abc import Iterator

import msgspec
import pytest

from roquet.protocol.bodies.body import DataVersion, write_body
from roquet.protocol.bodies.name_server import BrokerRegistration, TopicRoute
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable, TopicList
from roquet.protocol.catalog import decode_reply
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts, fields_of
from roquet.protocol.headers.name_server import RegisterBrokerHeader
from tests.support.golden_frames import GoldenFrame, golden_frames
from tests.support.raw_peer import RawPeer

Exchange = tuple[GoldenFrame, GoldenFrame]

# Settings and counts are those of the recorded server; see the tests of the handlers.
INCOMPARABLE = {
    RequestCode.GET_NAMESRV_CONFIG,
    RequestCode.UPDATE_NAMESRV_CONFIG,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER,
}


def exchanges(scenario: str) -> Iterator[Exchange]:
    waiting: dict[int, GoldenFrame] = {}
    for frame in golden_frames():
        if frame.scenario != scenario or "namesrv" not in (frame.sender, frame.receiver):
            continue
        if frame.kind == "request":
            waiting[frame.command.opaque] = frame
        elif frame.kind == "response" and frame.command.opaque in waiting:
            yield waiting.pop(frame.command.opaque), frame


def meaning(request_code: int, reply: Command) -> object:
    """What a client sees of a reply; lists have no order on the Java side."""
    decoded = decode_reply(request_code, reply)
    return reply.code, field_texts(reply.fields), unordered(msgspec.to_builtins(decoded.body))


def unordered(value: object) -> object:
    if isinstance(value, dict):
        return {name: unordered(member) for name, member in value.items()}
    if isinstance(value, list):
        return sorted(map(repr, map(unordered, value)))
    return value


@pytest.mark.parametrize(
    "scenario",
    [
        "boot_s49",
        "boot_s55",
        "stop_s55",
        "reg_compressed_s49",
        "reg_binserver_s49",
        "reg_binserver_s55",
    ],
)
async def test_a_recorded_conversation_goes_the_same_way(scenario: str, peer: RawPeer) -> None:
    pairs = [
        (request, reply)
        for request, reply in exchanges(scenario)
        if request.request_code not in INCOMPARABLE
    ]
    assert pairs
    for request, reply in pairs:
        answer = await peer.ask(request.command)
        code = request.request_code
        assert meaning(code, answer) == meaning(code, reply.command), request.place
        assert answer.serializer == request.command.serializer


@pytest.mark.parametrize("scenario", ["raw_s49_c49", "raw_s49_c55", "raw_s55_c49", "raw_s55_c55"])
async def test_tools_get_the_recorded_replies(scenario: str, peer: RawPeer) -> None:
    pairs = list(exchanges(scenario))
    await peer.ask(known_broker(pairs))
    codes = set()
    for request, reply in pairs:
        code = request.request_code
        if code in INCOMPARABLE:
            continue
        answer = await peer.ask(request.command)
        assert meaning(code, answer) == meaning(code, reply.command), request.place
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            assert answer.remark == reply.command.remark
        codes.add(code)
    assert len(codes) >= 13


def known_broker(pairs: list[Exchange]) -> Command:
    topics: dict[str, TopicConfig] = {}
    data_version = DataVersion()
    for request, reply in pairs:
        body = decode_reply(request.request_code, reply.command).body
        if isinstance(body, TopicList) and request.request_code == 206:
            topics |= {name: TopicConfig(topic_name=name) for name in body.topic_list}
        elif isinstance(body, DataVersion):
            data_version = body
        elif isinstance(body, TopicRoute):
            (queues,) = body.queue_datas
            topic = field_texts(request.command.fields)["topic"]
            topics[topic] = TopicConfig(
                topic_name=topic,
                perm=queues.perm,
                read_queue_nums=queues.read_queue_nums,
                write_queue_nums=queues.write_queue_nums,
            )
    table = TopicConfigTable(data_version=data_version, topic_config_table=topics)
    header = RegisterBrokerHeader(
        broker_name="broker-a",
        broker_addr=broker_address(pairs),
        cluster_name="DefaultCluster",
        ha_server_addr="127.0.0.1:1",
        broker_id=0,
    )
    return Command(
        RequestCode.REGISTER_BROKER,
        fields=fields_of(header),
        body=write_body(BrokerRegistration(topics=table)),
    )


def broker_address(pairs: list[Exchange]) -> str:
    for request, _ in pairs:
        address = field_texts(request.command.fields).get("brokerAddr")
        if address is not None:
            return address
    raise AssertionError("no request names the broker")
