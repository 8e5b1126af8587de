"""A socket held by hand: sends any bytes, reads frames, sees the other side close."""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self, cast

from roquet.protocol.command import Command, decode_command, encode_command
from roquet.protocol.frame_decoder import FrameDecoder

PATIENCE_S = 30.0


class RawPeer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # A StreamReader reads ahead by itself, so the transport is what can be stopped.
        self._transport = cast("asyncio.Transport", writer.transport)
        self._frames = FrameDecoder()
        self._commands: deque[Command] = deque()

    @classmethod
    async def connect(cls, port: int, host: str = "127.0.0.1") -> Self:
        return cls(*await asyncio.open_connection(host, port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Our own end, as the other side sees it."""
        host, port = self._writer.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    def send(self, *pieces: bytes | Command) -> None:
        for piece in pieces:
            self._writer.write(piece if isinstance(piece, bytes) else encode_command(piece))

    async def receive(self) -> Command:
        async with asyncio.timeout(PATIENCE_S):
            while not self._commands:
                data = await self._reader.read(1 << 20)
                if not data:
                    raise ConnectionResetError("closed while a frame was awaited")
                self._commands += map(decode_command, self._frames.cut(data))
        return self._commands.popleft()

    async def ask(self, command: Command) -> Command:
        self.send(command)
        return await self.receive()

    async def until_sent(self) -> None:
        """Returns when the system has taken what was sent."""
        async with asyncio.timeout(PATIENCE_S):
            await self._writer.drain()

    def end_sending(self) -> None:
        """Nothing more comes from here; what the other side says can still be read."""
        self._writer.write_eof()

    async def until_closed(self, patience_s: float = PATIENCE_S) -> bytes:
        """All bytes that came before the other side closed the connection."""
        async with asyncio.timeout(patience_s):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    @property
    def is_closing(self) -> bool:
        """Whether what is sent goes nowhere any more."""
        return self._transport.is_closing()

    def stop_reading(self) -> None:
        self._transport.pause_reading()

    def go_on_reading(self) -> None:
        self._transport.resume_reading()

    def close(self) -> None:
        self._transport.abort()
