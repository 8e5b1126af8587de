"""A transport without a socket: the test decides when the other side reads."""

import asyncio

from roquet.net.connection import Connection
from roquet.protocol.command import Command, decode_command
from roquet.protocol.frame_decoder import FrameDecoder


class SlowTransport(asyncio.Transport):
    """Holds what is written until the test lets the peer read it."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Connection
        self.is_reading_paused = False
        self.is_closed = False
        self.is_aborted = False
        self._unread = bytearray()
        self._read = bytearray()
        self._high = 0
        self._low = 0
        self._is_protocol_paused = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return len(self._unread)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self._unread += data
        if len(self._unread) > self._high and not self._is_protocol_paused:
            self._is_protocol_paused = True
            self.protocol.pause_writing()

    def let_the_peer_read(self, size: int) -> None:
        self._read += self._unread[:size]
        del self._unread[:size]
        if self._is_protocol_paused and len(self._unread) <= self._low:
            self._is_protocol_paused = False
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    @property
    def responses(self) -> list[Command]:
        while self._unread:
            self.let_the_peer_read(len(self._unread))
        return [decode_command(frame) for frame in FrameDecoder().cut(bytes(self._read))]


class AnyOwner:
    """Owns a connection and does not care."""

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...
