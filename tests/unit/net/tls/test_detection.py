"""The first bytes of a peer, in the three modes: plain and encrypted ones on real sockets."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.clock import SystemClock
from roquet.net.errors import ConnectFailed, ConnectionLost, NetError
from roquet.net.limits import ConnectionLimits, ServerLimits
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.net.tls.contexts import client_context
from roquet.net.tls.settings import ClientCertificates, TlsFiles, TlsMode, TlsSettings
from tests.support.certificates import DAY, Authority
from tests.support.echo_server import EchoServer, echo_request, echoed_text, running_echo_server
from tests.support.eventually import eventually
from tests.support.raw_peer import RawPeer

TIMEOUT_S = 30.0
CLIENT_HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def settings(authority: Authority) -> TlsSettings:
    return TlsSettings(mode=TlsMode.ENFORCING, server=authority.vouch_for().files)


def trusting(authority: Authority, own: TlsFiles | None = None) -> ssl.SSLContext:
    files = replace(own or TlsFiles(), trusted=authority.certificate)
    return client_context(files, check_host=True, verify=True)


@asynccontextmanager
async def calling(context: ssl.SSLContext | None) -> AsyncIterator[Peers]:
    peers = Peers(Router(None, ()), SystemClock(), tls=lambda: context, connect_timeout_s=TIMEOUT_S)
    try:
        yield peers
    finally:
        await peers.close()


async def asked(peers: Peers, server: EchoServer, text: str, body_size: int = 0) -> str:
    request = echo_request(text, body_size=body_size)
    response = await peers.call(f"127.0.0.1:{server.port}", request, TIMEOUT_S)
    assert len(response.body) == body_size
    return echoed_text(response)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of this room: clients of other tests may have something to say, too."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and record.name.startswith("roquet.net")
    ]


@pytest.mark.parametrize("body_size", [0, 1, 16_384, 5_000_000])
async def test_an_encrypted_peer_is_answered(
    authority: Authority, settings: TlsSettings, body_size: int
) -> None:
    async with running_echo_server(tls=settings) as server, calling(trusting(authority)) as peers:
        assert await asked(peers, server, "a" * 100, body_size) == "a" * 100


async def test_many_calls_at_once_keep_their_order(
    authority: Authority, settings: TlsSettings
) -> None:
    async with running_echo_server(tls=settings) as server, calling(trusting(authority)) as peers:
        texts = [f"{number}" * 50 for number in range(500)]
        assert await asyncio.gather(*(asked(peers, server, text) for text in texts)) == texts
        assert server.served == texts
    assert server.closed == [server.connections[0]]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_are_spoken(
    authority: Authority, settings: TlsSettings, version: ssl.TLSVersion
) -> None:
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    async with running_echo_server(tls=settings) as server, calling(context) as peers:
        assert await asked(peers, server, "x") == "x"


async def test_a_peer_that_asks_may_encrypt_where_it_is_permitted(
    authority: Authority, settings: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    permissive = replace(settings, mode=TlsMode.PERMISSIVE)
    async with (
        running_echo_server(tls=permissive) as server,
        calling(trusting(authority)) as encrypted,
        calling(None) as plain,
    ):
        assert await asked(encrypted, server, "secret") == "secret"
        assert await asked(plain, server, "open") == "open"
    assert warnings(caplog) == []


async def test_without_certificates_a_server_creates_one_that_cannot_be_verified() -> None:
    careless = client_context(TlsFiles(), check_host=False, verify=False)
    careful = client_context(TlsFiles(), check_host=False, verify=True)
    async with (
        running_echo_server(tls=TlsSettings()) as server,
        calling(careless) as peers,
        calling(careful) as others,
    ):
        assert await asked(peers, server, "x") == "x"
        with pytest.raises(ConnectFailed, match="self-signed"):
            await asked(others, server, "x")


async def test_a_plain_peer_is_refused_where_tls_is_enforced(
    settings: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_echo_server(tls=settings) as server:
        for _ in range(3):
            async with await RawPeer.connect(server.port) as peer:
                peer.send(echo_request("open"))
                assert await peer.until_closed() == b""
        assert server.served == []
        await eventually(lambda: server.listener.connection_count == 0)
    (warning,) = warnings(caplog)
    assert "it does not speak TLS" in warning


async def test_an_encrypted_peer_is_refused_where_tls_is_disabled(
    authority: Authority, settings: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    disabled = replace(settings, mode=TlsMode.DISABLED)
    async with running_echo_server(tls=disabled) as server, calling(trusting(authority)) as peers:
        for _ in range(3):
            with pytest.raises(ConnectFailed):
                await asked(peers, server, "x")
        async with calling(None) as plain:
            assert await asked(plain, server, "open") == "open"
    (warning,) = warnings(caplog)
    assert warning.endswith("it speaks TLS, which is disabled here")


async def test_a_client_that_trusts_another_authority_is_logged_once(
    tmp_path: Path, settings: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path, "stranger")
    async with running_echo_server(tls=settings) as server, calling(trusting(stranger)) as peers:
        for _ in range(3):
            with pytest.raises(ConnectFailed, match="certificate verify failed"):
                await asked(peers, server, "x")
        await eventually(lambda: server.listener.connection_count == 0)
    assert len(warnings(caplog)) == 1


async def test_an_expired_certificate_is_seen_by_clients(
    authority: Authority, settings: TlsSettings
) -> None:
    expired = replace(settings, server=authority.vouch_for(lifetime=-DAY).files)
    async with running_echo_server(tls=expired) as server, calling(trusting(authority)) as peers:
        with pytest.raises(ConnectFailed, match="expired"):
            await asked(peers, server, "x")


async def test_clients_have_to_show_a_certificate_where_it_is_required(
    tmp_path: Path, authority: Authority, settings: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    strict = replace(
        settings,
        server=replace(settings.server, trusted=authority.certificate),
        client_certificates=ClientCertificates.REQUIRED,
    )
    stranger = Authority(tmp_path, "stranger").vouch_for("client of a stranger").files
    known = authority.vouch_for("known client").files
    late = authority.vouch_for("late client", lifetime=-DAY).files
    async with running_echo_server(tls=strict) as server:
        for nobody in (None, stranger, late):
            async with calling(trusting(authority, nobody)) as peers:
                # With TLS 1.3 the client believes to be in before the server has looked.
                with pytest.raises((ConnectFailed, ConnectionLost)):
                    await asked(peers, server, "x")
        async with calling(trusting(authority, known)) as peers:
            assert await asked(peers, server, "x") == "x"
    assert server.served == ["x"]
    assert len(warnings(caplog)) == 1


async def test_a_reload_shows_the_new_certificate_and_closes_no_connection(
    authority: Authority, settings: TlsSettings
) -> None:
    async with running_echo_server(tls=settings) as server, calling(trusting(authority)) as peers:
        assert server.tls is not None
        done: list[str] = []
        stop = asyncio.Event()

        async def traffic() -> None:
            while not stop.is_set():
                done.append(await asked(peers, server, str(len(done)), 1000))

        async with asyncio.TaskGroup() as group:
            group.create_task(traffic())
            await eventually(lambda: len(done) > 10)
            first = await shown_certificate(server, authority)
            authority.vouch_for()
            server.tls.reload()
            assert await shown_certificate(server, authority) != first
            count = len(done)
            await eventually(lambda: len(done) > count + 10)
            stop.set()
        assert len({id(each) for each in server.connections}) == 1


async def shown_certificate(server: EchoServer, authority: Authority) -> bytes | None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting(authority))
    certificate: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return certificate


async def test_a_handshake_that_takes_too_long_is_cut_off(
    settings: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ConnectionLimits(handshake_timeout_s=5.0)
    async with (
        running_echo_server(limits, tls=settings) as server,
        await RawPeer.connect(server.port) as peer,
    ):
        for byte in CLIENT_HELLO_BEGINS:  # One by one, and never the end.
            peer.send(bytes([byte]))
            await peer.until_sent()
        await eventually(lambda: is_shaking_hands(server))
        server.clock.advance(6.0)
        server.listener.sweep()
        assert await peer.until_closed() == b""
        await eventually(lambda: server.listener.connection_count == 0)
    (warning,) = warnings(caplog)
    assert warning.endswith("it did not complete a TLS handshake within 5 s")


def is_shaking_hands(server: EchoServer) -> bool:
    (detector,) = server.listener._deadlines._members
    return detector.deadline_s < server.clock.monotonic_s() + 10.0


async def test_a_silent_peer_is_closed_like_others(
    settings: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        running_echo_server(tls=settings) as server,
        await RawPeer.connect(server.port) as peer,
    ):
        await eventually(lambda: server.listener.connection_count == 1)
        server.clock.advance(121.0)
        server.listener.sweep()
        assert await peer.until_closed() == b""
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(CLIENT_HELLO_BEGINS + bytes(600), id="no hello"),
        pytest.param(b"\x16GET / HTTP/1.1\r\n\r\n", id="no record"),
        pytest.param(b"\x16\x03\x01\x00\x00", id="nothing in it"),
    ],
)
async def test_what_only_looks_like_tls_costs_its_own_connection(
    authority: Authority,
    settings: TlsSettings,
    garbage: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        running_echo_server(tls=settings) as server,
        calling(trusting(authority)) as peers,
        await RawPeer.connect(server.port) as hostile,
    ):
        assert await asked(peers, server, "before") == "before"
        hostile.send(garbage)
        hostile.end_sending()
        await hostile.until_closed()
        assert await asked(peers, server, "after") == "after"
        await eventually(lambda: server.listener.connection_count == 1)
    assert len(warnings(caplog)) == 1


async def test_doors_count_as_connections(authority: Authority, settings: TlsSettings) -> None:
    async with (
        running_echo_server(
            tls=settings, server_limits=ServerLimits(connection_count_max=2, local_count_max=0)
        ) as server,
        await RawPeer.connect(server.port),
        calling(trusting(authority)) as peers,
    ):
        await eventually(lambda: server.listener.connection_count == 1)
        assert await asked(peers, server, "second") == "second"
        async with calling(trusting(authority)) as late:
            with pytest.raises(NetError):
                await asked(late, server, "third")


async def test_a_server_that_stops_closes_doors_too(settings: TlsSettings) -> None:
    async with (
        running_echo_server(tls=settings) as server,
        await RawPeer.connect(server.port) as silent,
        await RawPeer.connect(server.port) as slow,
    ):
        slow.send(CLIENT_HELLO_BEGINS)
        await eventually(lambda: server.listener.connection_count == 2)
        await server.listener.stop()
        assert await silent.until_closed() == b""
        await slow.until_closed()


async def test_a_certificate_that_cannot_be_made_use_of_refuses_the_peer_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = TlsSettings(server=TlsFiles(trusted=tmp_path / "missing.pem"))
    careless = client_context(TlsFiles(), check_host=False, verify=False)
    async with (
        running_echo_server(tls=missing) as server,
        calling(careless) as encrypted,
        calling(None) as plain,
    ):
        with pytest.raises(ConnectFailed):
            await asked(encrypted, server, "x")
        assert await asked(plain, server, "open") == "open"
    assert "missing.pem" in caplog.text


async def test_unread_answers_stop_the_reading_of_an_encrypted_peer(
    authority: Authority, settings: TlsSettings
) -> None:
    limits = ConnectionLimits(unread_size_high=100_000)
    async with running_echo_server(limits, tls=settings) as server:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trusting(authority)
        )
        peer = RawPeer(reader, writer)
        async with peer:
            peer.stop_reading()
            count = 200
            peer.send(
                *(echo_request(str(each), body_size=100_000, opaque=each) for each in range(count))
            )
            await eventually(lambda: bool(server.connections) and server.connections[0].is_stalled)
            assert len(server.served) < count
            peer.go_on_reading()
            responses = [await peer.receive() for _ in range(count)]
    assert [response.opaque for response in responses] == list(range(count))


async def test_a_peer_that_leaves_before_there_is_a_certificate_is_forgotten() -> None:
    async with running_echo_server(tls=TlsSettings()) as server:
        async with await RawPeer.connect(server.port) as peer:
            peer.send(CLIENT_HELLO_BEGINS)
            await eventually(lambda: server.listener.connection_count == 1)
        await server.listener.stop()
        assert server.listener.connection_count == 0
