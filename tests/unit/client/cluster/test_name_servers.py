"""Which name servers a client asks."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from roquet import AsyncAdmin, AsyncProducer, Message, NoNameServer
from roquet.client.cluster.name_servers import NameServers, name_server_source
from roquet.client.errors import BadArgument
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, NoFields
from tests.support.eventually import eventually
from tests.support.inner_parts import instance_of
from tests.support.live_cluster import LiveCluster


class AddressPage(ThreadingHTTPServer):
    """Says `text` to whoever asks."""

    text = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/rocketmq/nsaddr"


class _Answer(BaseHTTPRequestHandler):
    server: AddressPage

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  Not our word.
        """Nothing is reported."""


@pytest.fixture
def address_page() -> Iterator[AddressPage]:
    page = AddressPage(("127.0.0.1", 0), _Answer)
    thread = Thread(target=page.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield page
    page.shutdown()
    thread.join()
    page.server_close()


async def test_where_no_address_is_given_the_environment_names_one(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", cluster.name_server)
    async with AsyncProducer(None, "shop") as producer, AsyncAdmin() as admin:
        await producer.send(Message("orders", b"x"))
        assert "orders" in await admin.topics()


def test_without_an_address_and_an_environment_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(BadArgument, match="NAMESRV_ADDR"):
        name_server_source(None)


async def test_a_page_names_the_servers_and_may_name_others_later(
    cluster: LiveCluster, address_page: AddressPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.net.address_server.ASK_PERIOD_S", 0.01)
    address_page.text = "127.0.0.1:1"
    async with AsyncProducer(address_page.url, "shop") as producer:
        with pytest.raises(NoNameServer):
            await producer.queues("orders")
        address_page.text = cluster.name_server
        names = instance_of(producer).names
        await eventually(lambda: names.addresses == (cluster.name_server,))
        await producer.send(Message("orders", b"x"))


async def test_a_page_that_is_empty_at_first_is_asked_on(
    cluster: LiveCluster, address_page: AddressPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.net.address_server._AGAIN_S", 0.01)
    async with AsyncProducer(address_page.url, "shop") as producer:
        with pytest.raises(NoNameServer, match="has not named any yet"):
            await producer.queues("orders")
        address_page.text = cluster.name_server
        names = instance_of(producer).names
        await eventually(lambda: names.addresses)
        await producer.send(Message("orders", b"x"))


async def _refuse(address: str, _code: RequestCode, _header: Header, _timeout_s: float) -> Command:
    return Command(0, remark=address)


async def test_the_server_that_is_asked_stays_when_the_list_changes() -> None:
    servers = NameServers(_refuse, ("a:1",))
    servers.use(["b:1", "a:1", "c:1"])
    reply = await servers.call(RequestCode.GET_KV_CONFIG, NoFields(), 1.0)
    assert reply.remark == "a:1"
    assert set(servers.addresses) == {"a:1", "b:1", "c:1"}
    servers.use(["b:1"])
    assert servers.addresses == ("b:1",)
