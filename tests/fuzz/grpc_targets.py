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

from roquet.grpc.calls import read_timeout
from roquet.grpc.errors import Http2Broken
from roquet.grpc.http2 import Http2Session
from roquet.grpc.message_form import ms_of
from roquet.grpc.methods import UNIMPLEMENTED
from roquet.grpc.schema import MESSAGES, SERVICE, pb
from roquet.net.errors import BadProxyHeader
from roquet.net.proxy_protocol import ProxyHeader
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.pop_receipt import Receipt

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
                if isinstance(value, dict):
                    read_timeout(value.get("grpc-timeout", ""))
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
            if isinstance(value, dict):
                read_timeout(value.get("grpc-timeout", ""))


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


def proxy_headers(data: bytes) -> None:
    with suppress(BadProxyHeader):
        ProxyHeader().take(data)


def proxy_headers_corpus() -> Iterable[bytes]:
    yield b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 8081\r\nPRI"
    start = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"
    yield start + b"\xc0\x00\x02\x07\x0a\x00\x00\x01\xc3\x50\x1f\x91PRI"
