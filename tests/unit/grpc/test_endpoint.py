"""The endpoint of a whole broker: TLS and plain at one port, and what it says if it cannot be."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.clock import SystemClock
from roquet.grpc import load_endpoint
from roquet.grpc.codes import ClientType
from roquet.grpc.errors import GrpcMissing
from roquet.grpc.schema import pb
from roquet.protocol.host import Address
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.grpc_client import GrpcTestClient, grpc_client


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        bed.broker.tables.topics.find_or_create("orders", 1)
        yield bed


@pytest.fixture
async def port(bed: BrokerBed) -> AsyncIterator[int]:
    broker, place = bed.broker, Address("127.0.0.1", 0)
    async with load_endpoint()(place, broker, lambda: broker, SystemClock()) as port:
        yield port


async def route_count(client: GrpcTestClient) -> int:
    request = pb.QueryRouteRequest(topic=pb.Resource(name="orders"))
    return len((await client.call("QueryRoute", request)).message_queues)


async def test_encrypted_and_plain_clients_come_to_one_port(port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    encrypted = GrpcTestClient(reader, writer, "tls@1@0@a")
    encrypted.h2.initiate_connection()
    async with grpc_client(port) as plain:
        assert await route_count(encrypted) == await route_count(plain) == 1
    encrypted.close()
    await writer.wait_closed()


async def test_a_load_balancer_shows_who_its_client_is(bed: BrokerBed, port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 8081\r\n")
    client = GrpcTestClient(reader, writer, "far@1@0@a")
    client.h2.initiate_connection()
    publishing = pb.Publishing(topics=[pb.Resource(name="orders")])
    await client.settings(client_type=ClientType.PRODUCER, publishing=publishing)
    found = bed.broker.clients.producers.connection_of("far@1@0@a")
    assert found is not None
    assert found.peer == "192.0.2.7:50000"
    client.close()
    await writer.wait_closed()


async def test_a_broken_header_of_a_load_balancer_ends_the_connection(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PROXY TCP4 nowhere\r\n")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_calls_while_the_broker_restarts_get_that_reason(bed: BrokerBed) -> None:
    place = Address("127.0.0.1", 0)
    serving = load_endpoint()(place, bed.broker, lambda: None, SystemClock())
    async with serving as port, grpc_client(port) as client:
        stream = await client.finished(client.start("QueryRoute", b""))
        assert stream.headers["grpc-message"] == "the broker restarts"


@pytest.mark.parametrize(
    ("module", "remedy"),
    [("roquet.grpc.http2", "libnghttp2-dev"), ("google.protobuf", "roquet[grpc]")],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, remedy: str
) -> None:
    for name in list(sys.modules):
        if name.startswith(("roquet.grpc.", "google.protobuf")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(GrpcMissing) as caught:
        load_endpoint()
    assert remedy in caught.value.remedy
