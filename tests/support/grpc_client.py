"""A client of gRPC that does what a test says, by an HTTP/2 library that is not ours."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import h2.config
import h2.connection
import h2.events

from roquet.grpc.schema import SERVICE, pb

PATIENCE_S = 30.0
TOPIC_HEADERS = (("content-type", "application/grpc"), ("te", "trailers"))


class CallFailed(ConnectionError):
    """A call has no answer: its connection is gone, or it ended with a status of gRPC."""


class GrpcStream:
    """One call: its messages so far, and how it ended."""

    def __init__(self) -> None:
        self.data = b""
        self.headers: dict[str, str] = {}
        self.is_over = False
        self.reset_code: int | None = None

    @property
    def messages(self) -> list[bytes]:
        found, rest = [], self.data
        while len(rest) >= 5:
            end = 5 + int.from_bytes(rest[1:5])
            found.append(rest[5:end])
            rest = rest[end:]
        return found

    @property
    def status(self) -> int:
        return int(self.headers["grpc-status"])


class GrpcTestClient:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str
    ) -> None:
        self._reader = reader
        self.writer = writer
        self.client_id = client_id
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.streams: dict[int, GrpcStream] = {}
        self.is_closed = False
        self.goaway_code: int | None = None

    async def call(self, name: str, request: Any, **headers: str) -> Any:
        """The only message of the answer."""
        stream = await self.finished(self.start(name, request, **headers))
        if stream.headers.get("grpc-status") != "0":
            raise CallFailed(f"{name}: {stream.headers}")
        response: Any = getattr(pb, f"{name}Response")
        return response.FromString(stream.messages[0])

    async def refused(self, name: str, request: Any, **headers: str) -> int:
        """The code of the status of the answer."""
        answer = await self.call(name, request, **headers)
        return int(answer.status.code)

    def start(self, name: str, request: Any = None, **headers: str) -> int:
        """The stream of a call; without a request it stays open."""
        stream_id = self.h2.get_next_available_stream_id()
        given = {"x-mq-client-id": self.client_id, **headers}
        self.h2.send_headers(
            stream_id,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", SERVICE + name),
                (":authority", "test"),
                *TOPIC_HEADERS,
                *((key.replace("_", "-"), value) for key, value in given.items()),
            ],
        )
        self.streams[stream_id] = GrpcStream()
        if request is not None:
            self.send(stream_id, request)
            self.h2.end_stream(stream_id)
        self.flush()
        return stream_id

    def send(self, stream_id: int, request: Any) -> None:
        data = request if isinstance(request, bytes) else request.SerializeToString()
        self.h2.send_data(stream_id, len(data).to_bytes(5) + data)
        self.flush()

    def reset(self, stream_id: int) -> None:
        self.h2.reset_stream(stream_id)
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    async def finished(self, stream_id: int) -> GrpcStream:
        stream = self.streams[stream_id]
        await self.until(lambda: stream.is_over)
        return stream

    async def message(self, stream_id: int, index: int = 0) -> bytes:
        stream = self.streams[stream_id]
        await self.until(lambda: len(stream.messages) > index)
        return stream.messages[index]

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                data = await self._reader.read(65536)
                if not data:
                    self.is_closed = True
                    if not condition():
                        raise CallFailed("the connection was closed")
                    return
                self._take(self.h2.receive_data(data))
                self.flush()

    async def until_closed(self) -> None:
        """By the server, maybe before it has read everything."""
        with suppress(ConnectionError):
            await self.until(lambda: self.is_closed)

    async def read_without_window(self) -> None:
        """Until the server closes the connection; nothing that was read is acknowledged."""
        with suppress(ConnectionError):
            while await self._reader.read(65536):
                pass

    def _take(self, events: Sequence[Any]) -> None:
        for event in events:
            if isinstance(event, h2.events.ConnectionTerminated):
                self.goaway_code = int(event.error_code or 0)
                continue
            stream = self.streams.get(getattr(event, "stream_id", None) or 0)
            if stream is None:
                continue
            if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                stream.headers |= {str(name): str(value) for name, value in event.headers or ()}
            elif isinstance(event, h2.events.DataReceived):
                stream.data += event.data or b""
                size = event.flow_controlled_length or 0
                self.h2.acknowledge_received_data(size, event.stream_id or 0)
            elif isinstance(event, h2.events.StreamEnded):
                stream.is_over = True
            elif isinstance(event, h2.events.StreamReset):
                stream.is_over = True
                stream.reset_code = int(event.error_code or 0)

    async def settings(self, **members: Any) -> int:
        """Opens the stream of commands, and tells the settings; the stream, once answered."""
        stream_id = self.start("Telemetry")
        self.send(stream_id, pb.TelemetryCommand(settings=pb.Settings(**members)))
        await self.message(stream_id)
        return stream_id

    def close(self) -> None:
        self.writer.close()

    @classmethod
    async def connect(cls, port: int, client_id: str = "test@1@0@a") -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client = cls(reader, writer, client_id)
        client.h2.initiate_connection()
        client.flush()
        return client


@asynccontextmanager
async def grpc_client(port: int, client_id: str = "test@1@0@a") -> AsyncIterator[GrpcTestClient]:
    client = await GrpcTestClient.connect(port, client_id)
    try:
        yield client
    finally:
        client.close()
        with suppress(ConnectionError):
            await client.writer.wait_closed()
