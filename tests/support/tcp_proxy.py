"""A network that fails on demand: a proxy between a client and a server.

A name server tells clients the address that a broker gave it, so the broker has to give that of
the proxy. The proxy takes the broker's port on another address of this machine:

    Cluster(settings={"brokerIP1": PROXY_HOST}), TcpProxy(PROXY_HOST, cluster.broker_address())
"""

import asyncio
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Final, Self

from roquet.net.addresses import split_address

PROXY_HOST: Final = "127.0.0.2"
_CHUNK_SIZE: Final = 65_536
_CLOSE_TIMEOUT_S: Final = 10.0


class Direction(Enum):
    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


class TcpProxy:
    """Passes bytes on while the block runs, as soon as its faults let it.

    `target` is the address of the server; the proxy listens at `host`, on the same port.
    """

    def __init__(self, host: str, target: str) -> None:
        self._host = host
        self._target = split_address(target)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_delivering = {direction: asyncio.Event() for direction in Direction}
        # Every piece waits so long; pieces keep their order.
        self.delay_s = 0.0
        self.connection_count = 0
        # Who wants to know what passes, both ways together, puts a list here.
        self.overheard: list[bytes] | None = None
        self.resume()

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.refuse()
        self.cut()
        self.resume()
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await asyncio.gather(*self._tasks)

    async def accept(self) -> None:
        """New connections are taken, as they are from the start."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, self._host, self._target[1])

    def refuse(self) -> None:
        """New connections are refused; those that are there go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def cut(self) -> None:
        """All connections are reset; what was on its way is lost."""
        for writer in self._writers:
            writer.transport.abort()

    def silence(self, direction: Direction) -> None:
        """Nothing arrives there any more. It is kept for later, as by those who send again."""
        self._is_delivering[direction].clear()

    def resume(self) -> None:
        """Ends silence and delay."""
        self.delay_s = 0.0
        for is_delivering in self._is_delivering.values():
            is_delivering.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with suppress(OSError):
                await self._join(reader, writer)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection(*self._target)
        self.connection_count += 1
        self._writers.add(their_writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, their_writer, Direction.TO_SERVER))
                group.create_task(self._pass_on(their_reader, writer, Direction.TO_CLIENT))
        except* OSError:
            pass  # Reset by one of the two, or cut.
        finally:
            their_writer.transport.abort()
            self._writers.discard(their_writer)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        while data := await reader.read(_CHUNK_SIZE):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            await self._is_delivering[direction].wait()
            if self.overheard is not None:
                self.overheard.append(data)
            writer.write(data)
            await writer.drain()
        writer.close()
