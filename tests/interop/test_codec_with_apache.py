"""Our codec alone, over a plain socket, in conversation with real name servers and brokers."""

import time
from collections.abc import Callable
from zlib import crc32

import pytest

from roquet.protocol.bodies.body import DataVersion, read_body, write_body
from roquet.protocol.bodies.clients import (
    ConsumeFromWhere,
    ConsumerConnections,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    SubscriptionData,
)
from roquet.protocol.bodies.name_server import (
    BrokerData,
    BrokerRegistration,
    QueueData,
    TopicRoute,
    write_compressed_registration,
)
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from roquet.protocol.codes import VERSION_OURS, PullFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, read_header
from roquet.protocol.frame import SERIALIZER_BINARY, SERIALIZER_JSON
from roquet.protocol.headers.groups import (
    ConsumerConnectionsHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    PullMessageReplyHeader,
    SendMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.headers.name_server import (
    GetRouteHeader,
    RegisterBrokerHeader,
    UnregisterBrokerHeader,
)
from roquet.protocol.host import pack_host
from roquet.protocol.java_hash import java_hash
from roquet.protocol.messages.batch import BatchItem
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.message_id import parse_offset_id
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.messages.record import CRC_MASK, split_records
from tests.support.apache import CLUSTER_NAME, HOST, ApacheCluster
from tests.support.blocking_peer import BlockingPeer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

BORN_TIMESTAMP = 1_700_000_000_123
# Where the broker that we pretend to be would listen.
OUR_ADDRESS = f"{HOST}:1"


@pytest.fixture(params=[SERIALIZER_JSON, SERIALIZER_BINARY], ids=["json", "binary"])
def serializer(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_a_name_server_routes_to_a_broker_that_we_register(
    apache: ApacheCluster, new_name: NewName, serializer: int, compressed: bool
) -> None:
    topic, broker_name = new_name("topic"), new_name("broker")
    config = TopicConfig(topic_name=topic, read_queue_nums=3, write_queue_nums=2, perm=4)
    # 5.5.0 takes one topic alone for an addition to a registration that it does not have.
    other = TopicConfig(topic_name=new_name("topic"))
    with BlockingPeer(apache.name_server.address, serializer) as name_server:
        register(name_server, broker_name, config, other, compressed=compressed)
        assert route(name_server, topic) == TopicRoute(
            broker_datas=[
                BrokerData(broker_name=broker_name, cluster="ours", broker_addrs={0: OUR_ADDRESS})
            ],
            queue_datas=[
                QueueData(broker_name=broker_name, perm=4, read_queue_nums=3, write_queue_nums=2)
            ],
        )


def test_a_name_server_forgets_a_broker_that_we_unregister(
    apache: ApacheCluster, new_name: NewName, serializer: int
) -> None:
    topic, broker_name = new_name("topic"), new_name("broker")
    with BlockingPeer(apache.name_server.address, serializer) as name_server:
        topics = (TopicConfig(topic_name=topic), TopicConfig(topic_name=new_name("topic")))
        register(name_server, broker_name, *topics)
        header = UnregisterBrokerHeader(
            broker_name=broker_name, broker_addr=OUR_ADDRESS, cluster_name="ours", broker_id=0
        )
        succeed(name_server.call(RequestCode.UNREGISTER_BROKER, header))
        # 5.5.0 answers first and forgets then.
        wait_until(lambda: ask_route(name_server, topic).code == ResponseCode.TOPIC_NOT_EXIST)
        refused = ask_route(name_server, topic)
    assert refused.remark is not None
    assert topic in refused.remark


def test_a_topic_that_we_create_has_a_route(
    apache: ApacheCluster, new_topic: NewTopic, serializer: int
) -> None:
    topic = new_topic(4, serializer=serializer)
    with BlockingPeer(apache.name_server.address, serializer) as name_server:
        found = route(name_server, topic)
    (broker,) = found.broker_datas
    (queues,) = found.queue_datas
    assert broker.broker_addrs == {0: apache.broker.address}
    assert (broker.cluster, broker.broker_name) == (CLUSTER_NAME, apache.broker.broker_name)
    assert (queues.read_queue_nums, queues.write_queue_nums, queues.perm) == (4, 4, 6)


@pytest.mark.parametrize(
    ("code", "header_type"),
    [
        (RequestCode.SEND_MESSAGE, SendMessageHeader),
        (RequestCode.SEND_MESSAGE_V2, SendMessageHeaderV2),
    ],
)
def test_a_message_that_we_send_comes_back_field_by_field(
    apache: ApacheCluster,
    new_topic: NewTopic,
    serializer: int,
    code: RequestCode,
    header_type: type[SendMessageHeader],
) -> None:
    topic = new_topic(2)
    properties = {"TAGS": "red", "KEYS": "k1 k2", "city": "Köln", "empty braces": "{}"}
    body = bytes(range(256))
    header = send_header(topic, header_type)
    header.queue_id = 1
    header.flag = -7
    header.properties = properties_text(properties)
    header.reconsume_times = 2
    with BlockingPeer(apache.broker.address, serializer) as broker:
        before_ms = time.time_ns() // 1_000_000
        reply = succeed(broker.call(code, header, body))
        after_ms = time.time_ns() // 1_000_000
        own_address = broker.address
        sent = read_header(SendMessageReplyHeader, reply.fields)
        pulled, (message,) = pull(broker, topic, queue_id=1)
    assert (sent.queue_id, sent.queue_offset) == (1, 0)
    assert (pulled.min_offset, pulled.next_begin_offset, pulled.max_offset) == (0, 1, 1)
    expected = {
        "topic": topic,
        "body": body,
        "body_crc": crc32(body) & CRC_MASK,
        "queue_id": 1,
        "queue_offset": 0,
        "physical_offset": parse_offset_id(sent.msg_id).physical_offset,
        "offset_id": sent.msg_id,
        "flag": -7,
        "sys_flag": 0,
        "tags": "red",
        "keys": ("k1", "k2"),
        "born_timestamp": BORN_TIMESTAMP,
        "born_host": pack_host(*own_address),
        "store_host": pack_host(HOST, apache.broker.port),
        "reconsume_times": 2,
        "prepared_transaction_offset": 0,
    }
    assert {name: getattr(message, name) for name in expected} == expected
    assert before_ms <= message.store_timestamp <= after_ms
    assert message.properties.items() >= {**properties, "CLUSTER": CLUSTER_NAME}.items()


def test_a_batch_that_we_send_becomes_single_messages(
    apache: ApacheCluster, new_topic: NewTopic, serializer: int
) -> None:
    topic = new_topic()
    items = [
        BatchItem(1, b"first", properties_text({"TAGS": "red"}).encode()),
        BatchItem(2, b"second", b""),
    ]
    header = send_header(topic, SendMessageHeaderV2)
    header.batch = True
    with BlockingPeer(apache.broker.address, serializer) as broker:
        reply = succeed(broker.call(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items)))
        sent = read_header(SendMessageReplyHeader, reply.fields)
        wait_until(lambda: max_offset(broker, topic) == 2)
        _, messages = pull(broker, topic)
    assert sent.msg_id.split(",") == [message.offset_id for message in messages]
    assert [(m.flag, m.body, m.tags) for m in messages] == [
        (1, b"first", "red"),
        (2, b"second", None),
    ]


def test_offsets_of_queues_and_groups(
    apache: ApacheCluster, new_topic: NewTopic, new_name: NewName, serializer: int
) -> None:
    topic, group = new_topic(), new_name("group")
    with BlockingPeer(apache.broker.address, serializer) as broker:
        for body in (b"0", b"1"):
            succeed(broker.call(RequestCode.SEND_MESSAGE, send_header(topic), body))
        wait_until(lambda: max_offset(broker, topic) == 2)
        least = GetMinOffsetHeader(topic=topic, queue_id=0)
        assert offset(broker, RequestCode.GET_MIN_OFFSET, least) == 0
        search = SearchOffsetHeader(topic=topic, queue_id=0, timestamp=0)
        assert offset(broker, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search) == 0
        # 5.5.0 takes no offset of a group that never came; 4.9.7 takes any.
        pull(broker, topic, group=group)
        update = UpdateConsumerOffsetHeader(
            topic=topic, queue_id=0, consumer_group=group, commit_offset=1
        )
        succeed(broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, update))
        query = QueryConsumerOffsetHeader(topic=topic, queue_id=0, consumer_group=group)
        assert offset(broker, RequestCode.QUERY_CONSUMER_OFFSET, query) == 1


def test_a_broker_believes_our_heartbeat(
    apache: ApacheCluster, new_topic: NewTopic, new_name: NewName, serializer: int
) -> None:
    topic, group = new_topic(), new_name("group")
    subscription = SubscriptionData(
        topic=topic,
        sub_string="red",
        tags_set=["red"],
        code_set=[java_hash("red")],
        sub_version=1_700_000_000_000,
    )
    heartbeat = Heartbeat(
        client_id=new_name("client"),
        consumer_data_set=[
            ConsumerData(
                group_name=group,
                consume_type=ConsumeType.PUSH,
                message_model=MessageModel.CLUSTERING,
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                subscription_data_set=[subscription],
            )
        ],
    )
    with BlockingPeer(apache.broker.address, serializer) as broker:
        succeed(broker.call(RequestCode.HEART_BEAT, body=write_body(heartbeat)))
        asked = ConsumerConnectionsHeader(consumer_group=group)
        reply = succeed(broker.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, asked))
    online = read_body(ConsumerConnections, reply.body)
    (connection,) = online.connection_set
    assert (connection.client_id, connection.language) == (heartbeat.client_id, "PYTHON")
    assert connection.version == VERSION_OURS
    assert online.consume_type == ConsumeType.PUSH
    assert online.message_model == MessageModel.CLUSTERING
    assert online.consume_from_where == ConsumeFromWhere.FIRST_OFFSET
    assert online.subscription_table[topic] == subscription


def test_4_9_answers_in_the_serializer_of_the_request_and_5_5_in_its_own(
    apache: ApacheCluster, serializer: int
) -> None:
    with BlockingPeer(apache.broker.address, serializer) as broker:
        reply = succeed(broker.call(RequestCode.GET_BROKER_RUNTIME_INFO))
    answers_as_asked = apache.version == ApacheVersion.V4_9_7
    assert reply.serializer == (serializer if answers_as_asked else SERIALIZER_JSON)


def register(
    name_server: BlockingPeer, broker_name: str, *topics: TopicConfig, compressed: bool = False
) -> None:
    """A name server forgets a broker when its connection closes."""
    registration = BrokerRegistration(
        topics=TopicConfigTable(
            topic_config_table={topic.topic_name: topic for topic in topics},
            data_version=DataVersion(counter=1, timestamp=BORN_TIMESTAMP),
        )
    )
    if compressed:
        body = write_compressed_registration(registration, VERSION_OURS)
    else:
        body = write_body(registration)
    header = RegisterBrokerHeader(
        broker_name=broker_name,
        broker_addr=OUR_ADDRESS,
        cluster_name="ours",
        ha_server_addr=OUR_ADDRESS,
        broker_id=0,
        compressed=compressed,
        body_crc32=crc32(body) & CRC_MASK,
    )
    succeed(name_server.call(RequestCode.REGISTER_BROKER, header, body))


def send_header(
    topic: str, header_type: type[SendMessageHeader] = SendMessageHeader
) -> SendMessageHeader:
    return header_type(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=BORN_TIMESTAMP,
        flag=0,
    )


def pull(
    broker: BlockingPeer, topic: str, *, queue_id: int = 0, group: str = "codec-group"
) -> tuple[PullMessageReplyHeader, list[StoredMessage]]:
    header = PullMessageHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=0,
        max_msg_nums=32,
        # A message is in its queue a moment after its sender has the answer.
        sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=10_000,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )
    reply = succeed(broker.call(RequestCode.PULL_MESSAGE, header))
    return read_header(PullMessageReplyHeader, reply.fields), split_records(reply.body)


def offset(broker: BlockingPeer, code: RequestCode, header: Header) -> int:
    return read_header(OffsetReplyHeader, succeed(broker.call(code, header)).fields).offset


def max_offset(broker: BlockingPeer, topic: str) -> int:
    return offset(broker, RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=topic, queue_id=0))


def ask_route(name_server: BlockingPeer, topic: str) -> Command:
    return name_server.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic))


def route(name_server: BlockingPeer, topic: str) -> TopicRoute:
    return read_body(TopicRoute, succeed(ask_route(name_server, topic)).body)


def succeed(reply: Command) -> Command:
    assert reply.code == ResponseCode.SUCCESS, (reply.code, reply.remark)
    return reply
