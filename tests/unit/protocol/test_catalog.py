import importlib
import pkgutil
from collections.abc import Iterator

import pytest

from roquet.protocol import headers
from roquet.protocol.bodies.body import DataVersion, MessageQueue, QueueTable, write_body
from roquet.protocol.bodies.name_server import (
    BrokerRegistration,
    write_compressed_registration,
)
from roquet.protocol.bodies.offsets import (
    ResetOffset,
    ResetOffsetList,
    ResetOffsets,
)
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from roquet.protocol.catalog import (
    CATALOG,
    UNDECLARED_CODES,
    UNUSED_CODES,
    decode_reply,
    decode_request,
)
from roquet.protocol.codes import VERSION_3_0_11, VERSION_OURS, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadBody, BadHeaderField, BadMessage
from roquet.protocol.fields import Header, NoFields, TopicAddressedHeader, fields_of, fields_text
from roquet.protocol.headers.groups import ResetOffsetHeader
from roquet.protocol.headers.messages import (
    PullMessageReplyHeader,
    SendMessageHeader,
    SendMessageHeaderV2,
)
from roquet.protocol.headers.name_server import RegisterBrokerHeader
from roquet.protocol.messages.batch import BatchItem
from roquet.protocol.messages.batch_writing import encode_batch
from tests.support.records import PLAIN_DRAFT, record_of


def test_every_code_is_in_the_table_or_named_outside_of_it() -> None:
    assert CATALOG.keys() | UNDECLARED_CODES | UNUSED_CODES == set(RequestCode)
    assert len(CATALOG) + len(UNDECLARED_CODES) + len(UNUSED_CODES) == len(RequestCode)


def test_every_declared_header_has_its_place_in_the_table() -> None:
    used = {header for entry in CATALOG.values() for header in (entry.header, entry.reply_header)}
    bases = {base for header in used for base in header.__mro__}
    assert not [h.__name__ for h in _declared_headers() if h not in used | bases]


def _declared_headers() -> Iterator[type[Header]]:
    for module_info in pkgutil.iter_modules(headers.__path__, f"{headers.__name__}."):
        module = importlib.import_module(module_info.name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Header) and value is not Header:
                yield value


def send_header(header_type: type[SendMessageHeader], *, batch: bool) -> SendMessageHeader:
    return header_type(
        producer_group="g",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        batch=batch,
    )


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE])
def test_the_header_and_not_the_code_says_that_a_send_is_a_batch(code: RequestCode) -> None:
    items = [BatchItem(0, b"one", b""), BatchItem(7, b"two", b"KEYS\x01k")]
    body = encode_batch(items)
    batch = send_header(SendMessageHeaderV2, batch=True)
    single = send_header(SendMessageHeaderV2, batch=False)
    assert decode_request(Command(code, fields=fields_of(batch), body=body)) == (batch, items)
    assert decode_request(Command(code, fields=fields_of(single), body=body)) == (single, body)


def test_a_broken_batch_is_refused() -> None:
    fields = fields_of(send_header(SendMessageHeader, batch=True))
    with pytest.raises(BadMessage):
        decode_request(Command(RequestCode.SEND_MESSAGE, fields=fields, body=b"\0\0\0\x16half"))


REGISTER_FIELDS = fields_of(
    RegisterBrokerHeader(
        broker_name="b", broker_addr="a:1", cluster_name="c", ha_server_addr="a:2", broker_id=0
    )
)
REGISTRATION = BrokerRegistration(
    topics=TopicConfigTable(
        data_version=DataVersion(timestamp=5, counter=6),
        topic_config_table={"T": TopicConfig(topic_name="T", attributes={})},
    )
)


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (VERSION_OURS, write_body(REGISTRATION)),
        (VERSION_OURS + 100, write_compressed_registration(REGISTRATION, VERSION_OURS + 100)),
        (VERSION_3_0_11 - 1, write_body(REGISTRATION.topics)),
    ],
    ids=["plain", "zlib", "before filter servers"],
)
def test_a_registration_is_read_in_each_of_its_forms(version: int, body: bytes) -> None:
    request = Command(
        RequestCode.REGISTER_BROKER, version=version, fields=REGISTER_FIELDS, body=body
    )
    assert decode_request(request).body == REGISTRATION


QUEUE = MessageQueue(topic="T", broker_name="b", queue_id=3)


@pytest.mark.parametrize(
    "body",
    [
        ResetOffsets(offset_table=QueueTable({QUEUE: 17})),
        ResetOffsetList(
            offset_table=[ResetOffset(topic="T", broker_name="b", queue_id=3, offset=17)]
        ),
    ],
    ids=["table", "list for C++"],
)
def test_reset_offsets_are_read_in_both_forms(body: object) -> None:
    header = ResetOffsetHeader(topic="T", group="g", timestamp=-1, is_force=True)
    request = Command(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields=fields_of(header), body=write_body(body)
    )
    assert decode_request(request).body == body


PULL_REPLY = PullMessageReplyHeader(
    suggest_which_broker_id=0, next_begin_offset=1, min_offset=0, max_offset=1
)


def test_a_pull_reply_holds_messages() -> None:
    reply = Command(0, fields=fields_of(PULL_REPLY), body=record_of(PLAIN_DRAFT))
    header, body = decode_reply(RequestCode.PULL_MESSAGE, reply)
    assert header == PULL_REPLY
    assert isinstance(body, list)
    assert [message.body for message in body] == [PLAIN_DRAFT.body]


def test_an_empty_pull_has_its_header_and_no_body() -> None:
    reply = Command(ResponseCode.PULL_NOT_FOUND, fields=fields_of(PULL_REPLY))
    assert decode_reply(RequestCode.PULL_MESSAGE, reply) == (PULL_REPLY, None)


def test_a_refusal_needs_no_header() -> None:
    reply = Command(ResponseCode.SYSTEM_ERROR, remark="no")
    assert decode_reply(RequestCode.PULL_MESSAGE, reply) == (NoFields(), None)


@pytest.mark.parametrize("code", [999, -1, RequestCode.SUSPEND_CONSUMER])
def test_undefined_codes_keep_their_body_as_bytes(code: int) -> None:
    command = Command(code, fields=fields_text({"x": "1"}), body=b"{}")
    assert decode_request(command) == (NoFields(), b"{}")
    assert decode_reply(code, command) == (NoFields(), b"{}")


def test_a_body_that_is_not_what_the_code_declares_is_refused() -> None:
    with pytest.raises(BadBody):
        decode_request(Command(RequestCode.HEART_BEAT, body=b"[1"))


def test_a_missing_field_is_named() -> None:
    with pytest.raises(BadHeaderField) as refusal:
        decode_request(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC))
    assert (refusal.value.header, refusal.value.field) == ("GetRouteHeader", "topic")


def test_fields_of_forwarded_requests_are_read_everywhere_they_may_occur() -> None:
    texts = {"topic": "T", "queueId": "1", "bname": "b", "ns": "n", "nsd": "true", "lo": "false"}
    header, _ = decode_request(Command(RequestCode.GET_MIN_OFFSET, fields=fields_text(texts)))
    assert isinstance(header, TopicAddressedHeader)
    assert (header.broker_name, header.namespace) == ("b", "n")
    assert (header.is_namespaced, header.is_logical, header.is_oneway) == (True, False, None)
