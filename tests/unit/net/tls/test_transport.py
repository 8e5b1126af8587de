"""Bytes between a connection and its socket, encrypted: how they end, and what is not believed."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.net.tls.contexts import client_context
from roquet.net.tls.settings import TlsFiles, TlsMode, TlsSettings
from roquet.protocol.command import encode_command
from tests.support.certificates import Authority
from tests.support.echo_server import EchoServer, echo_request, running_echo_server
from tests.support.eventually import eventually
from tests.support.raw_peer import RawPeer


class HandHeldTls:
    """A client whose encrypted bytes can be changed on their way."""

    def __init__(self, peer: RawPeer, context: ssl.SSLContext) -> None:
        self.peer = peer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    async def handshake(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.peer.send(self.encrypted())
                await self.hear()
            else:
                return

    def encrypted(self, data: bytes = b"") -> bytes:
        if data:
            self.tls.write(data)
        return self._outgoing.read()

    async def hear(self) -> None:
        async with asyncio.timeout(30):
            self._incoming.write(await self.peer._reader.read(65536))

    async def read(self) -> bytes:
        while True:
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                await self.hear()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EchoServer]:
    files = Authority(tmp_path).vouch_for().files
    settings = TlsSettings(mode=TlsMode.ENFORCING, server=files)
    async with running_echo_server(tls=settings) as running:
        yield running


@pytest.fixture
async def client(server: EchoServer, tmp_path: Path) -> AsyncIterator[HandHeldTls]:
    files = TlsFiles(trusted=tmp_path / "authority.pem")
    context = client_context(files, check_host=True, verify=True)
    async with await RawPeer.connect(server.port) as peer:
        held = HandHeldTls(peer, context)
        await held.handshake()
        yield held


REQUEST = encode_command(echo_request("said"))


async def test_a_request_right_behind_the_handshake_is_answered(
    server: EchoServer, client: HandHeldTls
) -> None:
    client.peer.send(client.encrypted(REQUEST))
    assert b"said" in await client.read()


async def test_it_does_not_matter_how_the_network_cuts_it(
    server: EchoServer, client: HandHeldTls
) -> None:
    for byte in client.encrypted(REQUEST):
        client.peer.send(bytes([byte]))
        await client.peer.until_sent()
    assert b"said" in await client.read()
    assert server.served == ["said"]


async def test_a_stream_that_was_tampered_with_is_closed(
    server: EchoServer, client: HandHeldTls
) -> None:
    client.peer.send(client.encrypted(REQUEST))
    await eventually(lambda: server.served == ["said"])
    changed = bytearray(client.encrypted(REQUEST))
    changed[-1] ^= 1
    client.peer.send(bytes(changed))
    await client.peer.until_closed()
    await eventually(lambda: len(server.closed) == 1)
    assert server.served == ["said"]


async def test_plain_bytes_in_an_encrypted_stream_are_ignored(
    server: EchoServer, client: HandHeldTls
) -> None:
    client.peer.send(client.encrypted(), REQUEST)
    await client.peer.until_closed()
    assert server.served == []


async def test_a_goodbye_is_answered_with_the_end(server: EchoServer, client: HandHeldTls) -> None:
    client.peer.send(client.encrypted(REQUEST))
    assert b"said" in await client.read()
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.peer.send(client.encrypted())
    await client.peer.until_closed()
    await eventually(lambda: len(server.closed) == 1)


async def test_a_server_that_closes_says_goodbye(server: EchoServer, client: HandHeldTls) -> None:
    client.peer.send(client.encrypted(REQUEST))
    assert b"said" in await client.read()
    server.connections[0].close("enough")
    assert await client.read() == b""
    assert await client.peer.until_closed() == b""


async def test_what_is_written_after_the_end_goes_nowhere(
    server: EchoServer, client: HandHeldTls
) -> None:
    client.peer.send(client.encrypted(REQUEST))
    await eventually(lambda: server.served == ["said"])
    transport = server.connections[0]._transport
    server.connections[0].abort("enough")
    transport.write(b"late")
    transport.close()
    assert transport.is_closing()
    await eventually(lambda: len(server.closed) == 1)
