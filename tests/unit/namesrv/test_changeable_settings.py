"""Every setting that may be changed while a name server runs changes something, and stays so."""

import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.disk import SystemDisk
from roquet.namesrv.config import CHANGEABLE, NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.settings.changes import FILE_NAME
from roquet.state_file import unsealed
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.names import Names, registration, request
from tests.support.raw_peer import RawPeer


async def change(peer: RawPeer, settings: bytes) -> None:
    reply = await peer.ask(Command(RequestCode.UPDATE_NAMESRV_CONFIG, body=settings))
    assert reply.code == ResponseCode.SUCCESS, reply.remark


async def order_of_route(peer: RawPeer) -> bool:
    reply = await peer.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}))
    return b"a:4" in reply.body


async def order_for_brokers(peer: RawPeer) -> bool:
    return b"a:4" in (await peer.ask(registration())).body


# For each key that is a truth, what a peer sees of it.
EFFECTS: dict[str, Callable[[RawPeer], Awaitable[bool]]] = {
    "orderMessageEnable": order_of_route,
    "returnOrderTopicConfigToBroker": order_for_brokers,
}


async def test_the_log_says_as_much_as_is_wanted(peer: RawPeer) -> None:
    try:
        for level in ("ERROR", "DEBUG"):
            await change(peer, f"logLevel={level}\n".encode())
            level_now = logging.getLogger("roquet.namesrv").getEffectiveLevel()
            assert logging.getLevelName(level_now) == level
    finally:
        logging.getLogger("roquet").setLevel(logging.NOTSET)


def test_no_setting_is_forgotten() -> None:
    assert {*EFFECTS, "logLevel"} == CHANGEABLE


@pytest.mark.parametrize("key", sorted(EFFECTS))
async def test_a_changed_setting_has_an_effect(peer: RawPeer, key: str) -> None:
    has_order = EFFECTS[key]
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t", "value": "a:4"}
    await peer.ask(request(RequestCode.PUT_KV_CONFIG, order))
    await peer.ask(registration())
    for value in (True, False, True):
        await change(peer, f"{key}={str(value).lower()}\n".encode())
        assert await has_order(peer) is value


async def test_a_change_is_on_disk_when_it_is_answered_and_survives_a_restart(
    names: Names, peer: RawPeer
) -> None:
    await change(peer, b"orderMessageEnable=true\nserverWorkerThreads=8\n")
    file = names.kv_config_path.with_name(FILE_NAME)
    assert json.loads(unsealed(file.read_bytes())) == {
        "orderMessageEnable": {"value": "true", "started_with": "false"}
    }
    config = NameServerConfig(port=0, kv_config_path=names.kv_config_path)
    async with serve_names(config, FakeClock(), SystemDisk()) as restarted:
        assert restarted.config.routes_show_order
    # What the server is started with is new, and wins for good.
    for routes_show_order in (True, False):
        changed = replace(config, routes_show_order=routes_show_order)
        async with serve_names(changed, FakeClock(), SystemDisk()) as restarted:
            assert restarted.config.routes_show_order is routes_show_order


async def test_a_change_that_cannot_be_saved_is_reported(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "kvConfig.json")
    async with (
        serve_names(config, FakeClock(), disk) as server,
        await RawPeer.connect(server.config.port) as peer,
    ):
        disk.is_full = True
        body = b"orderMessageEnable=true\n"
        reply = await peer.ask(Command(RequestCode.UPDATE_NAMESRV_CONFIG, body=body))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "changed, but not saved" in (reply.remark or "")
        assert server.config.routes_show_order
