"""What the gRPC endpoint reads: HTTP/2, its messages, and the header of a load balancer.

Frames, header compression and flow control are nghttp2's; what is ours there is the layer above it.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import h2.config
import h2.connection
from google.protobuf.message import DecodeError
from hpack import Encoder

from roquet.grpc.ack_request import usual_offsets
from roquet.grpc.calls import read_timeout, with_head
from roquet.grpc.codes import MessageType
from roquet.grpc.errors import Http2Broken
from roquet.grpc.header_block import HeaderBlock
from roquet.grpc.http2 import Http2Session, Request
from roquet.grpc.message_form import ms_of, put_message, resource_of
from roquet.grpc.methods import UNIMPLEMENTED
from roquet.grpc.outgoing import checked_kind
from roquet.grpc.schema import MESSAGES, SERVICE, pb
from roquet.grpc.sent_message import is_usual_send
from roquet.grpc.shown_records import shown_records
from roquet.net.errors import BadProxyHeader
from roquet.net.proxy_protocol import ProxyHeader
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID, Receipt, TopicKind
from roquet.protocol.messages.record import read_record

_TOPIC: Final = resource_of("orders").SerializeToString()
_RECEIPT: Final = b"17 1794934487260 60000 0 0 broker-a 3 "
_ATTEMPTS_MAX: Final = 17
_NAMES: Final = [line.partition(":")[0] for line in MESSAGES.strip().splitlines()]
_STREAM_COUNT_MAX: Final = 16
_HEADER_SIZE_MAX: Final = 16 * 1024
_WINDOW_SIZE: Final = 64 * 1024
# What a client starts with: settings without a value.
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
# Of a block of headers, in its first frame.
_FIRST_SIZE: Final = 16


def http2(data: bytes) -> None:
    """The first byte says where the network cut the rest; every stream is answered."""
    session = Http2Session(_STREAM_COUNT_MAX, _HEADER_SIZE_MAX, _WINDOW_SIZE)
    cut = data[0] if data else 0
    with suppress(Http2Broken):
        for piece in (data[1 : 1 + cut], data[1 + cut :]):
            for _, stream_id, value in session.receive(piece):
                if (headers := _headers_in(value)) is not None:
                    read_timeout(headers.texts().get("grpc-timeout", ""))
                    _answer(session, stream_id)
            session.to_send()
            session.events()


def hpack(data: bytes) -> None:
    """Header blocks of two streams; the first byte says where the second one starts.

    They share the table of the connection, and their frames are whole whatever is in them.
    """
    session = Http2Session(_STREAM_COUNT_MAX, _HEADER_SIZE_MAX, _WINDOW_SIZE)
    cut = data[0] if data else 0
    stream = _PREFACE
    for stream_id, block in ((1, data[1 : 1 + cut]), (3, data[1 + cut :])):
        # A frame of headers, and another one with the rest of the block.
        for kind, flags, part in ((1, 1, block[:_FIRST_SIZE]), (9, 4, block[_FIRST_SIZE:])):
            stream += len(part).to_bytes(3) + bytes((kind, flags)) + stream_id.to_bytes(4) + part
    with suppress(Http2Broken):
        for _, _, value in session.receive(stream):
            if (headers := _headers_in(value)) is not None:
                read_timeout(headers.texts().get("grpc-timeout", ""))


def _headers_in(value: object) -> HeaderBlock | None:
    """Of an event of a session."""
    if isinstance(value, Request):
        return value.headers
    return value if isinstance(value, HeaderBlock) else None


def hpack_corpus() -> Iterable[bytes]:
    """The second block refers to what the first has put into the table."""
    encoder = Encoder()
    first, second = (encoder.encode(_request_headers("SendMessage")) for _ in range(2))
    yield bytes([len(first)]) + first + second


def _request_headers(method: str) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", SERVICE + method),
        (":authority", "test"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", "3S"),
    ]


def _answer(session: Http2Session, stream_id: int) -> None:
    """In one, or step by step."""
    headers, trailers = ((b":status", b"200"),), ((b"grpc-status", b"0"),)
    if stream_id % 4 == 1:
        session.answer(stream_id, headers, b"answer", trailers)
        return
    session.respond(stream_id, headers)
    session.send(stream_id, b"answer")
    session.finish(stream_id, trailers)


def http2_corpus() -> Iterable[bytes]:
    """Of a client that is not ours."""
    config = h2.config.H2Configuration(client_side=True)
    client = h2.connection.H2Connection(config)
    client.initiate_connection()
    for stream_id, name in enumerate(("SendMessage", *UNIMPLEMENTED)):
        client.send_headers(2 * stream_id + 1, _request_headers(name))
        client.send_data(2 * stream_id + 1, b"\0\0\0\0\0", end_stream=True)
    client.reset_stream(1)
    client.ping(b"12345678")
    yield b"\x40" + client.data_to_send()


def messages(data: bytes) -> None:
    """The first byte chooses a message. What is read is written again, and read the same."""
    name = _NAMES[data[0] % len(_NAMES)] if data else _NAMES[0]
    kind: Any = getattr(pb, name)
    try:
        message = kind.FromString(data[1:])
    except DecodeError:
        return
    # Not a number equals nothing, itself included.
    again = kind.FromString(message.SerializeToString())
    assert again.SerializeToString() == message.SerializeToString()
    if name in ("Timestamp", "Duration"):
        ms_of(message)
    with suppress(BadMessage):
        Receipt.read(getattr(message, "receipt_handle", ""))


def messages_corpus() -> Iterable[bytes]:
    for index, name in enumerate(_NAMES):
        message = getattr(pb, name)()
        for field in message.DESCRIPTOR.fields:
            if field.cpp_type == field.CPPTYPE_STRING and field.type == field.TYPE_STRING:
                value = "0 1 10000 3 0 broker-a 2 0"
                if field.is_repeated:
                    getattr(message, field.name).append(value)
                else:
                    setattr(message, field.name, value)
        yield bytes([index]) + message.SerializeToString()


def sent_messages(data: bytes) -> None:
    """What compiled code takes for a usual message can be read, and is one that may be sent."""
    if not is_usual_send(data):
        return
    (message,) = pb.SendMessageRequest.FromString(data).messages
    kind = checked_kind("", (MessageType.NORMAL, MessageType.FIFO), message, 0)
    assert (kind is MessageType.FIFO) == bool(message.system_properties.message_group)


def sent_messages_corpus() -> Iterable[bytes]:
    system = pb.SystemProperties(
        tag="new",
        keys=["k1", "k2"],
        message_id="0102FC01",
        message_type=MessageType.NORMAL,
        born_timestamp=pb.Timestamp(seconds=1_794_934_487, nanos=260_000_000),
        born_host="laptop",
        body_encoding=1,
        body_digest=pb.Digest(type=2, checksum="00FF"),
        queue_id=3,
        trace_context="trace",
    )
    message = pb.Message(
        topic=pb.Resource(name="orders", resource_namespace="ns"),
        system_properties=system,
        user_properties=[pb.UserProperty(key="city", value="Rome")],
        body=b"hello",
    )
    yield pb.SendMessageRequest(messages=[message]).SerializeToString()
    system.message_group = "group"
    yield pb.SendMessageRequest(messages=[message]).SerializeToString()


def acks(data: bytes) -> None:
    """What compiled code takes for usual acks has readable receipts, of the topic itself."""
    offsets = usual_offsets(data)
    if offsets is None:
        return
    request = pb.AckMessageRequest.FromString(data)
    receipts = [Receipt.read(each.receipt_handle) for each in request.entries]
    assert [each.offset for each in receipts] == offsets
    assert {each.kind for each in receipts} == {TopicKind.TOPIC}
    assert ORDERED_QUEUE_ID not in {each.revive_queue_id for each in receipts}


def acks_corpus() -> Iterable[bytes]:
    entry = pb.AckMessageEntry(message_id="01AB", receipt_handle="0 1 10000 3 0 broker-a 2 0")
    group, topic = pb.Resource(name="group"), pb.Resource(name="topic")
    request = pb.AckMessageRequest(group=group, topic=topic, entries=[entry, entry])
    yield request.SerializeToString()


def shown_as_stored(data: bytes) -> None:
    """A record that is shown in one pass is shown as all others are."""
    (shown,), _ = shown_records([data], (), _TOPIC, _RECEIPT, None, _ATTEMPTS_MAX)
    if shown is not None:
        message = read_record(data)
        answer = pb.ReceiveMessageResponse()
        receipt = f"{_RECEIPT.decode()}{message.queue_offset}"
        put_message(answer.message, message, "orders", receipt)
        assert shown == with_head(answer.SerializeToString())


def proxy_headers(data: bytes) -> None:
    with suppress(BadProxyHeader):
        ProxyHeader().take(data)


def proxy_headers_corpus() -> Iterable[bytes]:
    yield b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 8081\r\nPRI"
    start = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"
    yield start + b"\xc0\x00\x02\x07\x0a\x00\x00\x01\xc3\x50\x1f\x91PRI"
