"""One call of gRPC: a stream of HTTP/2 with messages in both directions.

    HEADERS   :path /apache.rocketmq.v2.MessagingService/SendMessage, grpc-timeout, metadata
    DATA      0 (not compressed), size in four bytes, message; again for each message
    HEADERS   grpc-status, grpc-message: the end of an answer

A call is answered at once, or later by whoever keeps it. One that the client cancels, or whose
connection is lost, is closed, and answers have no effect any more. `on_closed` is called when the
stream is closed, with whether its end was sent.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, Protocol, final
from urllib.parse import quote

MESSAGE_HEAD_SIZE: Final = 5

_UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)
# What answers start and end with, if nothing has failed.
HEADERS: Final = ((b":status", b"200"), (b"content-type", b"application/grpc"))
OK: Final = ((b"grpc-status", b"0"),)
_STATUS_START_SIZE: Final = 4
# Of a status message; it is a header.
_TEXT_SIZE_MAX: Final = 1024


class GrpcStatus(IntEnum):
    """The end of a call. Refusals of RocketMQ are answers, with a status of their own."""

    OK = 0
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class CallConnection(Protocol):
    """What a call needs of its connection."""

    peer_ip: str
    peer_host: bytes
    peer: str

    def answer(
        self,
        stream_id: int,
        headers: tuple[tuple[bytes, bytes], ...],
        data: bytes,
        trailers: tuple[tuple[bytes, bytes], ...],
    ) -> None: ...

    def respond(self, stream_id: int, headers: tuple[tuple[bytes, bytes], ...]) -> None: ...

    def send(self, stream_id: int, data: bytes) -> None: ...

    def finish(self, stream_id: int, trailers: tuple[tuple[bytes, bytes], ...]) -> None: ...


# How a call ended: with the start of a status of RocketMQ, with one of gRPC, or None if the client
# did not wait for its end.
Outcome = bytes | GrpcStatus | None


@final
class EndpointFigures:
    """What happens at an endpoint, counted for /metrics; `metrics` has the names."""

    def __init__(self) -> None:
        # By method.
        self.begun: Counter[str] = Counter()
        self.ended: Counter[tuple[str, Outcome]] = Counter()
        # Those of no method that there is: their names are chosen by peers.
        self.unknown_count = 0
        self.renewed_count = 0
        # Of the server.
        self.connection_count: Callable[[], int] = int


@final
class Call:
    """Of one client, from its headers to its end. `figures` count it, if they are set."""

    __slots__ = (
        "_has_headers",
        "_outcome",
        "connection",
        "figures",
        "is_open",
        "metadata",
        "method",
        "on_closed",
        "since_s",
        "stream_id",
    )

    def __init__(
        self,
        connection: CallConnection,
        stream_id: int,
        method: str,
        metadata: Mapping[str, str],
        since_s: float,
    ) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.method = method
        self.metadata = metadata
        self.since_s = since_s
        self.is_open = True
        self._has_headers = False
        self._outcome: Outcome = None
        self.figures: EndpointFigures | None = None
        self.on_closed: Callable[[bool], None] | None = None

    @property
    def client_id(self) -> str:
        return self.metadata.get("x-mq-client-id", "")

    @property
    def timeout_s(self) -> float | None:
        """What its client waits from `since_s` on; None without a limit."""
        return read_timeout(self.metadata.get("grpc-timeout"))

    def answer(self, message: bytes) -> None:
        """The only message of an answer, and its end."""
        self.answer_framed(message, ())

    def answer_framed(self, first: bytes, framed: Iterable[bytes]) -> None:
        """All messages of an answer, and its end; those after the first have their heads."""
        if not self.is_open:
            return
        data = b"".join((with_head(first), *framed))
        self._outcome = status_start(first)
        if self._has_headers:
            self.connection.send(self.stream_id, data)
            self.finish()
            return
        self._has_headers = True
        self.is_open = False
        self.connection.answer(self.stream_id, HEADERS, data, OK)

    def send(self, message: bytes) -> None:
        """One of several messages."""
        if self.is_open:
            self._start()
            self.connection.send(self.stream_id, with_head(message))

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        if self.is_open:
            self._start()
            self.is_open = False
            if self._outcome is None:
                self._outcome = status
            self.connection.finish(self.stream_id, trailers_of(status, text))

    def close(self, *, is_complete: bool) -> None:
        """The stream is over; the client got all of it, or does not want it any more."""
        self.is_open = False
        if self.figures is not None:
            self.figures.ended[self.method, self._outcome if is_complete else None] += 1
        if self.on_closed is not None:
            on_closed, self.on_closed = self.on_closed, None
            on_closed(is_complete)

    def _start(self) -> None:
        if not self._has_headers:
            self._has_headers = True
            self.connection.respond(self.stream_id, HEADERS)


def trailers_of(status: GrpcStatus, text: str) -> tuple[tuple[bytes, bytes], ...]:
    """The end of an answer."""
    if not status:
        return OK
    shown = quote(text[:_TEXT_SIZE_MAX], safe=" !#$&'()*+,/:;=?@[]-._~\"<>").encode()
    return ((b"grpc-status", b"%d" % status), (b"grpc-message", shown))


def with_head(message: bytes) -> bytes:
    """As it goes into DATA."""
    return len(message).to_bytes(MESSAGE_HEAD_SIZE) + message


def status_start(message: bytes) -> bytes:
    """The number of the status of an answer, as it stands there: the status is its first field.

    0x0a, the size of the status in one or two bytes, 0x08, the number in three bytes.
    """
    start = 3 if message[1] & 0x80 else 2
    return message[start : start + _STATUS_START_SIZE]


def is_whole(data: bytes) -> bool:
    """Whether DATA is one message that is not compressed."""
    # The first byte has to be 0, and is part of the number.
    return int.from_bytes(data[:MESSAGE_HEAD_SIZE]) == len(data) - MESSAGE_HEAD_SIZE


def read_timeout(text: str | None) -> float | None:
    """In seconds, as gRPC writes it; None if there is none, or it cannot be read."""
    found = _TIMEOUT.fullmatch(text or "")
    return None if found is None else int(found[1]) * _UNITS_S[found[2]]
