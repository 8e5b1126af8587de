"""A broker introduces itself to real name servers of ours."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.broker.registration import OwnIdentity, Registered, Registrar
from roquet.broker.server import serve_broker
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock, SystemClock
from roquet.disk import SystemDisk
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.namesrv.state import NameServer
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.ports import free_port
from tests.support.stores import small_config

IDENTITY = OwnIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")


class Topics:
    def __init__(self) -> None:
        self.table = TopicConfigTable(data_version=DataVersion(counter=1))
        self.add("orders")
        self.add("bills")

    def add(self, name: str) -> None:
        self.table.topic_config_table[name] = TopicConfig(topic_name=name)
        self.table.data_version.counter += 1


@pytest.fixture
async def name_server(tmp_path: Path) -> AsyncIterator[NameServer]:
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "kv.json")
    async with serve_names(config, SystemClock(), SystemDisk()) as server:
        yield server


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    peers = Peers(Router(None, ()), SystemClock())
    yield peers
    await peers.close()


def registrar(
    peers: Peers, topics: Topics, *addresses: str, clock: Clock | None = None
) -> Registrar:
    return Registrar(
        peers,
        clock or SystemClock(),
        addresses,
        IDENTITY,
        lambda: topics.table,
        timeout_s=lambda: 3.0,
    )


def address_of(server: NameServer) -> str:
    return f"127.0.0.1:{server.config.port}"


def route_names(server: NameServer, topic: str) -> list[str]:
    route = server.routes.route(topic)
    return [] if route is None else [queue.broker_name for queue in route.queue_datas]


async def test_topics_can_be_found_once_the_broker_has_registered(
    name_server: NameServer, peers: Peers
) -> None:
    answers = await registrar(peers, Topics(), address_of(name_server)).register()
    assert answers == [Registered(frozenset())]
    assert route_names(name_server, "orders") == ["broker-a"]


async def test_a_name_server_that_is_down_is_warned_of_once_and_stops_nothing_else(
    name_server: NameServer, peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    # Port 1 of loopback: nothing listens there.
    broker = registrar(peers, Topics(), "127.0.0.1:1", address_of(name_server))
    for _ in range(3):
        assert len(await broker.register()) == 1
    assert route_names(name_server, "bills") == ["broker-a"]
    assert [record.levelname for record in caplog.records if "127.0.0.1:1:" in record.message] == [
        "WARNING"
    ]


async def test_a_broker_that_no_name_server_knows_logs_it_now_and_then_and_when_it_is_over(
    tmp_path: Path, peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "roquet.broker.registration")
    clock = FakeClock()
    port = free_port()
    address = f"127.0.0.1:{port}"
    broker = registrar(peers, Topics(), address, clock=clock)

    async def said_after(seconds: float) -> list[tuple[str, str]]:
        caplog.clear()
        clock.advance(seconds)
        await broker.register()
        return [(record.levelname, record.message) for record in caplog.records]

    unknown = ("WARNING", f"no name server knows this broker, so no client finds it: {address}")
    assert unknown in await said_after(0)
    assert await said_after(599) == []
    assert unknown in await said_after(1)
    config = NameServerConfig(port=port, kv_config_path=tmp_path / "kv.json")
    async with serve_names(config, SystemClock(), SystemDisk()):
        assert await said_after(1) == [
            ("INFO", f"registered at {address} again"),
            ("INFO", "clients find this broker again"),
        ]
        assert await said_after(1) == []
    assert unknown in await said_after(1)


async def test_a_broker_without_name_servers_says_how_to_name_them(
    peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    await registrar(peers, Topics()).register()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.message.endswith("none is named in namesrvAddr")


async def test_a_change_is_registered_at_once_and_not_after_the_period(
    name_server: NameServer, peers: Peers
) -> None:
    topics = Topics()
    broker = registrar(peers, topics, address_of(name_server))
    await broker.register()
    answers: list[list[Registered]] = []
    keeping = asyncio.create_task(broker.keep_registered(lambda: 3600.0, answers.append))
    topics.add("refunds")
    broker.refresh_soon()
    await eventually(lambda: route_names(name_server, "refunds") and len(answers) == 1)
    keeping.cancel()


async def test_the_pace_is_asked_for_before_each_wait(
    name_server: NameServer, peers: Peers
) -> None:
    broker = registrar(peers, Topics(), address_of(name_server))
    paces_s = [0.001, 0.001, 3600.0]
    answers: list[list[Registered]] = []
    keeping = asyncio.create_task(broker.keep_registered(lambda: paces_s.pop(0), answers.append))
    await eventually(lambda: not paces_s)
    assert len(answers) == 2
    keeping.cancel()


def counted_registrar(
    peers: Peers, topics: Topics, name_server: NameServer
) -> tuple[Registrar, list[int]]:
    """The list gets the number of topics of each round."""
    rounds: list[int] = []

    def topic_table() -> TopicConfigTable:
        rounds.append(len(topics.table.topic_config_table))
        return topics.table

    addresses = [address_of(name_server)]
    broker = Registrar(peers, SystemClock(), addresses, IDENTITY, topic_table, timeout_s=lambda: 3)
    return broker, rounds


async def test_waiters_for_a_registration_share_a_round(
    name_server: NameServer, peers: Peers
) -> None:
    topics = Topics()
    broker, rounds = counted_registrar(peers, topics, name_server)

    async def tell(name: str) -> list[str]:
        topics.add(name)
        broker.refresh_soon()
        await broker.until_registered()
        return route_names(name_server, name)

    found = await asyncio.gather(*(tell(f"new{number}") for number in range(20)))
    assert found == [["broker-a"]] * 20
    # All but the first came during the registration.
    assert len(rounds) == 2
    assert not broker.has_news


async def test_a_change_that_is_awaited_is_registered_once(
    name_server: NameServer, peers: Peers
) -> None:
    topics = Topics()
    broker, rounds = counted_registrar(peers, topics, name_server)
    keeping = asyncio.create_task(broker.keep_registered(lambda: 3600.0, lambda _: None))
    for number in range(3):
        await asyncio.sleep(0)  # The keeper waits for a change.
        topics.add(f"new{number}")
        broker.refresh_soon()
        await broker.until_registered()
        assert route_names(name_server, f"new{number}") == ["broker-a"]
        await asyncio.sleep(0.02)  # A second round would come at once.
    assert len(rounds) == 3
    keeping.cancel()


async def test_order_topics_of_the_operator_are_learnt(
    name_server: NameServer, peers: Peers
) -> None:
    name_server.kv_config.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4")
    (answer,) = await registrar(peers, Topics(), address_of(name_server)).register()
    assert answer.order_topics == {"orders"}


async def test_an_unregistered_broker_is_forgotten_at_once(
    name_server: NameServer, peers: Peers
) -> None:
    broker = registrar(peers, Topics(), address_of(name_server), "127.0.0.1:1")
    await broker.register()
    await broker.unregister()
    assert route_names(name_server, "orders") == []


async def test_a_broker_registers_at_whatever_servers_a_page_names(
    name_server: NameServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.net.address_server._AGAIN_S", 0.01)
    texts = [b""]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + texts[-1])
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as page:
        port = page.sockets[0].getsockname()[1]
        config = BrokerConfig(
            store=small_config(tmp_path / "store"),
            broker_name="broker-a",
            name_servers=(f"http://127.0.0.1:{port}/rocketmq/nsaddr",),
            listen_port=0,
        )
        async with serve_broker(config, SystemClock(), SystemDisk()):
            assert not route_names(name_server, "TBW102")
            texts.append(address_of(name_server).encode())
            await eventually(lambda: route_names(name_server, "TBW102") == ["broker-a"])


async def test_new_name_servers_get_a_registration_soon_and_the_same_ones_do_not(
    name_server: NameServer, peers: Peers
) -> None:
    registering = registrar(peers, Topics())
    registering.use([address_of(name_server)])
    assert registering.has_news
    await registering.until_registered()
    assert route_names(name_server, "orders") == ["broker-a"]
    registering.use([address_of(name_server)])
    assert not registering.has_news
