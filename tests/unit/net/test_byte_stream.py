"""A stream between two servers, plain and encrypted, over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from roquet.clock import SystemClock
from roquet.net.byte_stream import ByteStream, accept_stream, connect_stream
from roquet.net.errors import TlsRefused
from roquet.net.tls.contexts import ServerTls
from roquet.net.tls.settings import ClientCertificates, TlsFiles, TlsMode, TlsSettings
from tests.support.certificates import Authority

PATIENCE_S = 30.0
HOST = "127.0.0.1"
MANY = bytes(range(256)) * 20_000  # More than any buffer between two sockets of a machine.


class Ends(NamedTuple):
    calling: ByteStream
    answering: ByteStream


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def settings(authority: Authority) -> TlsSettings:
    return TlsSettings(
        mode=TlsMode.PERMISSIVE,
        server=authority.vouch_for().files,
        encrypt_calls=True,
        client=TlsFiles(trusted=authority.certificate),
    )


@asynccontextmanager
async def sockets() -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for each in (ours, theirs):
            each.setblocking(False)
        yield ours, theirs


@asynccontextmanager
async def ends(calling: TlsSettings, answering: TlsSettings) -> AsyncIterator[Ends]:
    context = ServerTls(calling, SystemClock()).outgoing()
    tls = ServerTls(answering, SystemClock())
    async with sockets() as (ours, theirs), asyncio.timeout(PATIENCE_S):
        accepting = asyncio.ensure_future(accept_stream(theirs, tls))
        try:
            stream = await connect_stream(ours, HOST, context)
            if context is None:
                await stream.send_all(b"!")  # Its first byte says that it is plain.
            accepted = await accepting
            assert accepted.received == (b"!" if context is None else b"")
            yield Ends(stream, accepted.stream)
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)


@pytest.fixture(params=["plain", "encrypted"])
async def both(request: pytest.FixtureRequest, settings: TlsSettings) -> AsyncIterator[Ends]:
    calling = settings if request.param == "encrypted" else TlsSettings()
    async with ends(calling, settings) as made:
        yield made


async def received(stream: ByteStream, size: int, buffer_size: int = 50_000) -> bytes:
    buffer = memoryview(bytearray(buffer_size))
    found = b""
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < size:
            count = await stream.receive_into(buffer)
            assert count, "the end came too early"
            found += buffer[:count]
    return found


async def send_in_pieces(stream: ByteStream, data: bytes) -> None:
    """As a master does: a header and bytes where they lie, many at once."""
    rest = memoryview(data)
    while rest:
        size = stream.send_some([bytes(rest[:12]), rest[12:40_000], b"", rest[40_000:2_000_000]])
        rest = rest[size:]
        if stream.is_full:
            await stream.until_writable()
        else:
            await asyncio.sleep(0)


@pytest.mark.parametrize("buffer_size", [100, 50_000, 1_000_000])
async def test_all_that_was_sent_arrives_in_order(both: Ends, buffer_size: int) -> None:
    data = MANY[: 2_000 * buffer_size]
    sending = asyncio.ensure_future(send_in_pieces(both.answering, data))
    assert await received(both.calling, len(data), buffer_size) == data
    await sending


async def test_both_directions_do_not_disturb_each_other(both: Ends) -> None:
    there = asyncio.ensure_future(send_in_pieces(both.answering, MANY))
    back = asyncio.ensure_future(send_in_pieces(both.calling, MANY[::-1]))
    found = await asyncio.gather(
        received(both.calling, len(MANY)), received(both.answering, len(MANY))
    )
    assert tuple(found) == (MANY, MANY[::-1])
    await asyncio.gather(there, back)


async def test_a_peer_that_does_not_read_is_sent_no_more(both: Ends) -> None:
    taken = 0
    while not both.answering.is_full:
        taken += both.answering.send_some([MANY])
    assert 0 < taken < len(MANY)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await both.answering.until_writable()
    reading = asyncio.ensure_future(received(both.calling, taken))
    await both.answering.until_writable()
    await asyncio.wait([reading])
    assert both.answering.send_some([b"more"]) == 4
    assert await reading == MANY[:taken]


async def test_the_end_of_the_other_side_is_seen(both: Ends) -> None:
    await both.answering.send_all(b"hello")
    assert await received(both.calling, 5) == b"hello"
    await both.calling.send_all(b"last words")
    both.calling.close()
    assert await received(both.answering, 10) == b"last words"
    assert await both.answering.receive_into(memoryview(bytearray(10))) == 0


async def test_a_listener_on_the_network_cannot_read_it(settings: TlsSettings) -> None:
    text = b"a record of somebody's account"
    async with ends(settings, settings) as wires, sockets() as (tapped, other):
        # What leaves, as the network would see it.
        wires.answering._socket = tapped  # type: ignore[attr-defined]
        assert wires.answering.send_some([text, text]) == 2 * len(text)
        seen = other.recv(65536)
    assert len(seen) > 2 * len(text)
    assert text not in seen


async def test_a_stream_that_was_tampered_with_is_not_trusted(settings: TlsSettings) -> None:
    async with ends(settings, settings) as wires, sockets() as (tapped, other):
        wires.answering._socket, theirs = tapped, wires.answering._socket  # type: ignore[attr-defined]
        wires.answering.send_some([b"genuine"])
        seen = bytearray(other.recv(65536))
        seen[-1] ^= 1
        theirs.send(seen)
        with pytest.raises(TlsRefused, match="handshake failed"):
            await wires.calling.receive_into(memoryview(bytearray(100)))


async def refusals(calling: TlsSettings, answering: TlsSettings) -> list[str]:
    """What both sides say when one does not take the certificate of the other."""

    async def call(sock: socket.socket) -> None:
        with sock:
            stream = await connect_stream(sock, HOST, ServerTls(calling, SystemClock()).outgoing())
            # With TLS 1.3 who calls believes that all is well, until it hears something.
            await stream.receive_into(memoryview(bytearray(1)))

    async def answer(sock: socket.socket) -> None:
        with sock:
            await accept_stream(sock, ServerTls(answering, SystemClock()))

    async with sockets() as (ours, theirs), asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(call(ours), answer(theirs), return_exceptions=True)
    assert all(isinstance(each, TlsRefused) for each in outcomes), outcomes
    return list(map(str, outcomes))


async def test_a_server_of_another_authority_is_refused_in_words(
    settings: TlsSettings, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger").vouch_for("other").files
    said_calling, said_answering = await refusals(settings, TlsSettings(server=stranger))
    assert "authority to tls.client.trustCertPath" in said_calling
    assert "its tls.client.trustCertPath, or" in said_answering


@pytest.mark.parametrize("shows_one", [False, True])
async def test_a_client_without_a_trusted_certificate_is_refused_with_a_reason(
    authority: Authority, tmp_path: Path, *, shows_one: bool
) -> None:
    stranger = Authority(tmp_path, "stranger").vouch_for("other")
    server = authority.vouch_for()
    own = stranger.files if shows_one else TlsFiles()
    said_calling, said_answering = await refusals(
        TlsSettings(encrypt_calls=True, client=replace(own, trusted=authority.certificate)),
        TlsSettings(
            server=replace(server.files, trusted=authority.certificate),
            client_certificates=ClientCertificates.REQUIRED,
        ),
    )
    assert "tls.client.certPath, or a client's TlsConfig.cert_file, to one" in said_calling
    expected = "to tls.server.trustCertPath" if shows_one else "it presents no certificate"
    assert expected in said_answering


async def test_a_server_that_hangs_up_during_the_handshake_is_reported(
    settings: TlsSettings,
) -> None:
    async with sockets() as (ours, theirs):
        context = ServerTls(settings, SystemClock()).outgoing()
        calling = asyncio.ensure_future(connect_stream(ours, HOST, context))
        await asyncio.get_running_loop().sock_recv(theirs, 1000)
        theirs.close()
        with pytest.raises(TlsRefused, match=r"closed the connection|ECONNRESET"):
            await calling


async def test_a_certificate_is_made_when_the_first_one_asks() -> None:
    calling = TlsSettings(encrypt_calls=True)
    async with ends(calling, TlsSettings()) as wires:
        await wires.calling.send_all(b"hello")
        assert await received(wires.answering, 5) == b"hello"


async def test_a_peer_that_sent_nothing_when_it_leaves_was_plain() -> None:
    async with sockets() as (ours, theirs):
        ours.close()
        accepted = await accept_stream(theirs, None)
        assert accepted.received == b""
        assert await accepted.stream.receive_into(memoryview(bytearray(1))) == 0
