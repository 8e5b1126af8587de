import zlib
from struct import pack

import pytest

from roquet.protocol.bodies.body import DataVersion, read_body, write_body
from roquet.protocol.bodies.name_server import (
    BrokerData,
    BrokerRegistration,
    QueueData,
    TopicRoute,
    endpoint_entry,
    endpoints_in,
    read_registration,
    write_compressed_registration,
)
from roquet.protocol.bodies.topics import (
    QueueMapping,
    TopicConfig,
    TopicConfigTable,
)
from roquet.protocol.codes import VERSION_3_0_11, VERSION_4_9_4, VERSION_5_0_0
from roquet.protocol.compression import DECOMPRESSED_SIZE_MAX
from roquet.protocol.errors import BadBody, TooLarge
from roquet.protocol.host import Address
from roquet.protocol.lenient_json import with_bare_integer_keys
from tests.support.golden_frames import golden_frames

REGISTRATION = BrokerRegistration(
    filter_server_list=["10.0.0.1:1"],
    topics=TopicConfigTable(
        data_version=DataVersion(timestamp=1, counter=2, state_version=3),
        topic_config_table={
            "a": TopicConfig(topic_name="a", read_queue_nums=4, write_queue_nums=8, perm=2),
            "é": TopicConfig(topic_name="é", attributes={"+k k": "v v"}),
        },
        topic_queue_mapping_info_map={
            "a": QueueMapping(topic="a", bname="b", curr_id_map={0: 1}, total_queues=2)
        },
    ),
)


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("10.0.0.1:8081", Address("10.0.0.1", 8081)),
        ("[::1]:8081", Address("::1", 8081)),
        ("broker-a.example:65535", Address("broker-a.example", 65535)),
    ],
)
def test_an_endpoint_is_found_in_the_route_as_it_was_registered(
    address: str, wanted: Address
) -> None:
    route = TopicRoute(filter_server_table={"10.0.0.1:10911": [endpoint_entry(address)]})
    assert endpoints_in(route) == {"10.0.0.1:10911": wanted}


@pytest.mark.parametrize(
    "entry",
    [
        *("10.0.0.1:20000", "grpc://", "grpc://h", "grpc://:1", "grpc://h:0", "grpc://h:65536"),
        *("grpc://h:x", "grpc://h:²", f"grpc://{'h' * 300}:1"),
    ],
)
def test_what_is_no_endpoint_is_left_out(entry: str) -> None:
    assert endpoints_in(TopicRoute(filter_server_table={"b": [entry]})) == {}


def test_a_broker_without_an_endpoint_may_have_null() -> None:
    # So do name servers of 5.x.
    route = read_body(TopicRoute, b'{"filterServerTable":{"b":null}}')
    assert endpoints_in(route) == {}


def sized(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def golden_registrations() -> list[tuple[bytes, int]]:
    commands = [
        frame.command
        for frame in golden_frames()
        if frame.request_code == 103 and frame.kind != "response"
    ]
    return [(command.body, command.version) for command in commands]


def test_golden_registrations_are_read_plain_and_compressed() -> None:
    registrations = [read_registration(*golden) for golden in golden_registrations()]
    assert len(registrations) == 16
    assert sum(data.startswith(b"x") for data, _ in golden_registrations()) == 3
    for registration in registrations:
        topics = registration.topics.topic_config_table
        assert topics
        assert [topic.topic_name for topic in topics.values()] == list(topics)
        assert registration.topics.data_version.timestamp > 0


def test_golden_compressed_registrations_are_written_as_java_writes_them() -> None:
    for data, version in golden_registrations():
        if data.startswith(b"x") and version < VERSION_5_0_0:
            written = write_compressed_registration(read_registration(data, version), version)
            assert zlib.decompress(written) == zlib.decompress(data)


def test_a_5x_registration_survives_compression() -> None:
    data = write_compressed_registration(REGISTRATION, VERSION_5_0_0)
    assert read_registration(data, VERSION_5_0_0) == REGISTRATION


def test_attributes_and_mappings_are_not_sent_under_a_49_version() -> None:
    data = write_compressed_registration(REGISTRATION, VERSION_4_9_4)
    text = zlib.decompress(data)
    assert text.endswith(sized(b'["10.0.0.1:1"]'))
    assert sized("é 16 16 6 SINGLE_TAG".encode()) in text
    read = read_registration(data, VERSION_4_9_4).topics
    assert read.topic_config_table["é"].attributes == {}
    assert read.topic_queue_mapping_info_map == {}


def test_the_first_byte_says_whether_it_is_compressed() -> None:
    assert read_registration(write_body(REGISTRATION), VERSION_5_0_0) == REGISTRATION


def test_a_very_old_broker_sends_only_its_topics() -> None:
    data = write_body(REGISTRATION.topics)
    assert read_registration(data, VERSION_3_0_11 - 1).topics == REGISTRATION.topics
    assert read_registration(data, VERSION_3_0_11).topics == TopicConfigTable()


def test_no_body_means_no_topics() -> None:
    assert read_registration(b"", VERSION_4_9_4) == BrokerRegistration()


VERSION = sized(b'{"counter":0}')
NO_TOPICS = pack(">i", 0)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0\0\0",
        pack(">i", 5) + b"{}",
        pack(">i", -1) + VERSION,
        sized(b"{"),
        VERSION,
        VERSION + pack(">i", 2**31 - 1) + sized(b"t 1 1 6 SINGLE_TAG"),
        VERSION + pack(">i", 1) + sized(b"t 1 1 6"),
        VERSION + pack(">i", 1) + sized(b"t 1 1 x SINGLE_TAG"),
        VERSION + pack(">i", 1) + sized(b"t 1 99999999999 6 SINGLE_TAG"),
        VERSION + pack(">i", 1) + sized(b"\xff 1 1 6 SINGLE_TAG"),
        VERSION + pack(">i", 1) + sized(b"t 1 1 6 SINGLE_TAG {"),
        VERSION + NO_TOPICS,
        VERSION + NO_TOPICS + sized(b"{}"),
        VERSION + NO_TOPICS + sized(b"[]") + pack(">i", 1),
        VERSION + NO_TOPICS + sized(b"[]") + pack(">i", 1) + sized(b"{}"),
    ],
)
def test_a_malformed_section_is_refused(text: bytes) -> None:
    with pytest.raises(BadBody):
        read_registration(zlib.compress(text), VERSION_5_0_0)


@pytest.mark.parametrize("data", [b"x", b"x\x9c", b"xyz", zlib.compress(b"abc")[:-1]])
def test_a_broken_stream_is_refused(data: bytes) -> None:
    with pytest.raises(BadBody):
        read_registration(data, VERSION_5_0_0)


def test_a_bomb_is_refused() -> None:
    with pytest.raises(TooLarge):
        read_registration(zlib.compress(bytes(DECOMPRESSED_SIZE_MAX + 1)), VERSION_5_0_0)


# --- routes ---


ROUTE = TopicRoute(
    broker_datas=[
        BrokerData(
            broker_name="b", cluster="c", broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:1"}
        )
    ],
    queue_datas=[QueueData(broker_name="b", read_queue_nums=8, write_queue_nums=4)],
)


def test_clients_before_494_get_a_route_with_bare_broker_ids() -> None:
    text = with_bare_integer_keys(write_body(ROUTE))
    assert text == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:1"},"brokerName":"b",'
        b'"cluster":"c"}],"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,'
        b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert read_body(TopicRoute, text) == ROUTE
