"""The endpoint beside a broker that changes its role."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roquet import AsyncAdmin
from roquet.broker.replication.in_sync import AckPolicy
from roquet.broker.settings.config import BrokerRole
from roquet.broker.supervisor import BrokerSupervisor
from roquet.cli.serving.grpc_endpoint import grpc_endpoint
from roquet.clock import SystemClock
from roquet.grpc.codes import Code
from roquet.grpc.in_broker import remote_topics
from roquet.grpc.schema import pb
from roquet.net.tls.settings import TlsMode, TlsSettings
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.grpc_client import grpc_client
from tests.support.secret_place import SecretPlace, address, secret_place

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
ROUTE = pb.QueryRouteRequest(topic=pb.Resource(name="TopicA"))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SecretPlace]:
    async with secret_place(tmp_path) as place:
        yield place


@asynccontextmanager
async def endpoint(supervisor: BrokerSupervisor) -> AsyncIterator[int]:
    async with grpc_endpoint(HOST, 0, supervisor, SystemClock()) as port:
        assert port is not None
        yield port


async def demoted(place: SecretPlace, supervisor: BrokerSupervisor) -> None:
    async with AsyncAdmin(place.name_server) as admin:
        await admin.demote_broker(address(supervisor), 1, force=True)
    await eventually(lambda: supervisor.serving is not None and supervisor.broker.config.is_slave)


async def certificate_at(port: int) -> bytes:
    """What clients of this port see."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    _reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return bytes(shown)


async def test_after_a_restart_in_place_new_certificates_are_shown(
    place: SecretPlace, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    tls = TlsSettings(mode=TlsMode.PERMISSIVE, server=authority.vouch_for().files)
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1, tls=tls)
    async with endpoint(one) as port:
        await demoted(place, one)
        before = await certificate_at(port)
        authority.vouch_for()
        one.reload()
        assert await certificate_at(port) != before
        assert await certificate_at(port) == await certificate_at(one.broker.config.listen_port)


async def test_after_a_restart_in_place_the_endpoint_is_still_registered(
    place: SecretPlace,
) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    async with endpoint(one) as port:
        registered = one.broker.registrar.endpoint
        await demoted(place, one)
        assert one.broker.registrar.endpoint == registered
        assert one.broker.config.grpc_port == port


async def test_a_slave_sends_clients_to_its_master(
    place: SecretPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_topics, "FRESH_S", 0.0)
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1, ack_policy=AckPolicy.ONE)
    two = await place.start("two", BrokerRole.SLAVE, 2, ack_policy=AckPolicy.ONE)
    one.broker.tables.topics.find_or_create("TopicA", 1)
    await one.broker.registrar.until_registered()
    async with endpoint(two) as slave_port, grpc_client(slave_port) as client:
        assert await client.refused("QueryRoute", ROUTE) == Code.HA_NOT_AVAILABLE
        async with endpoint(one) as master_port:
            (queue,) = (await client.call("QueryRoute", ROUTE)).message_queues
            assert [each.port for each in queue.broker.endpoints.addresses] == [master_port]
