"""Encrypts the connections of a server that knows nothing of it."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

# Made for these tests, for 127.0.0.1, valid for a hundred years; its key is known to everybody.
CERTIFICATE = Path(__file__).parent / "certificate.pem"


@asynccontextmanager
async def encrypted(port: int, *, asks_for_certificate: bool = False) -> AsyncIterator[int]:
    """A port that leads to `port` of this machine, for clients that encrypt."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    if asks_for_certificate:
        context.load_verify_locations(CERTIFICATE)
        context.verify_mode = ssl.CERT_REQUIRED
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, inner_writer))
                group.create_task(_pump(inner_reader, writer))
        finally:
            connections.discard(task)
            inner_writer.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
