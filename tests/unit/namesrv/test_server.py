"""The life of a name server: brokers that vanish, expire, and the end."""

import asyncio
import errno
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.disk import SystemDisk
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import expire_brokers, serve_names
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.names import Names, registration
from tests.support.raising import raises
from tests.support.raw_peer import RawPeer


async def test_a_closed_connection_takes_its_broker_along(
    names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    async with await names.connect() as broker:
        await broker.ask(registration())
        assert names.server.routes.route("t") is not None
    await eventually(lambda: names.server.routes.route("t") is None)
    assert "removed broker c/a/0 at 10.0.0.1:10911: its connection is closed" in caplog.text


async def test_a_silent_broker_is_forgotten_and_its_connection_closed(
    names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    async with await names.connect() as broker:
        await broker.ask(registration(heartbeatTimeoutMillis="50000"))
        names.clock.advance(51)
        expire_brokers(names.server)
        assert names.server.routes.route("t") is None
        assert await broker.until_closed() == b""
    assert caplog.text.count("removed broker c/a/0") == 1


async def test_expiry_happens_by_itself(tmp_path: Path) -> None:
    clock = FakeClock()
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "kvConfig.json", expiry_period_ms=1)
    async with (
        serve_names(config, clock, SystemDisk()) as server,
        await RawPeer.connect(server.config.port) as broker,
    ):
        await broker.ask(registration(heartbeatTimeoutMillis="50000"))
        clock.advance(51)
        await eventually(lambda: server.routes.route("t") is None)


async def test_name_servers_side_by_side_know_nothing_of_each_other(
    names: Names, tmp_path: Path
) -> None:
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "second.json")
    async with (
        serve_names(config, FakeClock(), SystemDisk()) as second,
        await names.connect() as broker,
    ):
        await broker.ask(registration())
        assert names.server.routes.route("t") is not None
        assert second.routes.route("t") is None


async def test_a_taken_port_is_an_error_and_leaves_nothing_running(
    names: Names, tmp_path: Path
) -> None:
    config = replace(names.server.config, kv_config_path=tmp_path / "other.json")
    task_count = len(asyncio.all_tasks())
    with raises(OSError, errno=errno.EADDRINUSE):
        async with serve_names(config, FakeClock(), SystemDisk()):
            pass
    assert len(asyncio.all_tasks()) == task_count


async def test_stopping_closes_connections_and_ends_all_tasks(tmp_path: Path) -> None:
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "kvConfig.json")
    task_count = len(asyncio.all_tasks())
    async with serve_names(config, FakeClock(), SystemDisk()) as server:
        client = await RawPeer.connect(server.config.port)
        await client.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
    assert await client.until_closed() == b""
    client.close()
    assert len(asyncio.all_tasks()) == task_count
