"""Encrypted connections: whom a client trusts, and what it says when it cannot."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet import AsyncProducer, Message, TlsConfig
from roquet.client.config import tls_context
from roquet.client.errors import BadArgument, SendFailed
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.tls_server import CERTIFICATE, encrypted

TRUSTING = TlsConfig(ca_file=CERTIFICATE)


@pytest.fixture
async def name_server(scripted: ScriptedCluster) -> AsyncIterator[str]:
    """Of a cluster that speaks nothing but TLS."""
    async with (
        encrypted(scripted.names.port) as names_port,
        encrypted(scripted.brokers[0].port) as broker_port,
    ):
        del scripted.names.route.broker_datas[1], scripted.names.route.queue_datas[1]
        scripted.names.route.broker_datas[0].broker_addrs = {0: f"127.0.0.1:{broker_port}"}
        yield f"127.0.0.1:{names_port}"


@pytest.mark.parametrize(
    "tls", [TRUSTING, TlsConfig(verify=False)], ids=["trusts the certificate", "trusts everybody"]
)
async def test_messages_arrive_encrypted(
    scripted: ScriptedCluster, name_server: str, tls: TlsConfig
) -> None:
    async with AsyncProducer(name_server, "shop", tls=tls) as producer:
        await producer.send(Message("orders", b"0" * 100_000))
        await producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
    assert len(scripted.brokers[0].sends) == 2


@pytest.mark.parametrize("tls", [True, TlsConfig()])
async def test_a_server_that_the_system_does_not_trust_is_not_talked_to(
    name_server: str, tls: TlsConfig | bool
) -> None:
    async with AsyncProducer(name_server, "shop", tls=tls) as producer:
        with pytest.raises(SendFailed, match="self-signed certificate"):
            await producer.send(Message("orders", b"x"))


async def test_the_certificate_of_a_server_has_to_name_the_host(name_server: str) -> None:
    elsewhere = name_server.replace("127.0.0.1", "localhost")
    async with AsyncProducer(elsewhere, "shop", tls=TRUSTING) as producer:
        with pytest.raises(SendFailed, match="not valid for 'localhost'"):
            await producer.send(Message("orders", b"x"))
    careless = TlsConfig(ca_file=CERTIFICATE, check_host=False)
    async with AsyncProducer(elsewhere, "shop", tls=careless) as producer:
        await producer.send(Message("orders", b"x"))


async def test_a_client_shows_its_own_certificate(scripted: ScriptedCluster) -> None:
    async with encrypted(scripted.names.port, asks_for_certificate=True) as port:
        known = TlsConfig(ca_file=CERTIFICATE, cert_file=CERTIFICATE)
        async with AsyncProducer(f"127.0.0.1:{port}", "shop", tls=known) as producer:
            assert await producer.queues("orders")


async def test_a_plain_client_gets_nothing_from_an_encrypted_server(name_server: str) -> None:
    async with AsyncProducer(name_server, "shop") as producer:
        with pytest.raises(SendFailed):
            await producer.send(Message("orders", b"x"), timeout_s=1.0)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    for config in (
        TlsConfig(ca_file=tmp_path / "missing.pem"),
        TlsConfig(ca_file=garbage),
        TlsConfig(cert_file=garbage, key_password="secret"),
    ):
        with raises(BadArgument, argument="tls") as failure:
            tls_context(config)
        assert "secret" not in str(failure.value)


def test_an_unrequested_connection_is_not_encrypted() -> None:
    assert tls_context(False) is None
    context = tls_context(True)
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
