"""Settings by namespace and key: what is acknowledged is on disk."""

from pathlib import Path

import msgspec
import pytest

from roquet.disk import SystemDisk
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.namesrv.state import KvConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts, fields_text
from roquet.state_file import BadStateFile, StateFile
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.names import Names, request
from tests.support.raising import raises
from tests.support.raw_peer import RawPeer


def put(key: str, value: str, opaque: int = 0) -> Command:
    fields = fields_text({"namespace": "n", "key": key, "value": value})
    return Command(RequestCode.PUT_KV_CONFIG, opaque, fields=fields)


def get(key: str) -> Command:
    return request(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": key})


def delete(key: str) -> Command:
    return request(RequestCode.DELETE_KV_CONFIG, {"namespace": "n", "key": key})


async def test_an_acknowledged_setting_is_in_the_file_that_apache_reads(
    names: Names, peer: RawPeer
) -> None:
    assert (await peer.ask(put("k", "v é"))).code == ResponseCode.SUCCESS
    content = msgspec.json.decode(names.kv_config_path.read_bytes())
    assert content["configTable"] == {"n": {"k": "v é"}}


async def test_settings_are_found_again_after_a_restart(names: Names, peer: RawPeer) -> None:
    await peer.ask(put("k", "v"))
    await peer.ask(put("gone", "x"))
    await peer.ask(delete("gone"))
    await peer.ask(delete("never there"))
    restarted = KvConfig(StateFile(SystemDisk(), names.kv_config_path))
    assert restarted.table("n") == {"k": "v"}


async def test_many_changes_at_once_are_all_acknowledged(names: Names, peer: RawPeer) -> None:
    peer.send(*(put(f"k{number}", str(number), opaque=number) for number in range(50)))
    replies = [await peer.receive() for _ in range(50)]
    assert [reply.opaque for reply in replies] == list(range(50))
    assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}
    content = msgspec.json.decode(names.kv_config_path.read_bytes())
    assert content["configTable"]["n"] == {f"k{number}": str(number) for number in range(50)}


async def test_a_missing_setting_is_not_found(peer: RawPeer) -> None:
    reply = await peer.ask(get("k"))
    assert reply.code == ResponseCode.QUERY_NOT_FOUND
    await peer.ask(put("k", "v"))
    assert field_texts((await peer.ask(get("k"))).fields) == {"value": "v"}


async def test_a_client_that_leaves_before_the_save_is_not_missed(
    names: Names, peer: RawPeer
) -> None:
    async with await names.connect() as impatient:
        impatient.send(put("k", "v"))
        await eventually(lambda: names.server.kv_config.get("n", "k"))
    assert (await peer.ask(put("other", "w"))).code == ResponseCode.SUCCESS
    content = msgspec.json.decode(names.kv_config_path.read_bytes())
    assert content["configTable"]["n"] == {"k": "v", "other": "w"}


async def test_a_setting_that_cannot_be_saved_is_not_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk(tmp_path)
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "kvConfig.json")
    async with (
        serve_names(config, FakeClock(), disk) as server,
        await RawPeer.connect(server.config.port) as peer,
    ):
        disk.is_full = True
        reply = await peer.ask(put("k", "v"))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "not saved" in (reply.remark or "")
        assert "not saved" in caplog.text
        disk.is_full = False
        assert (await peer.ask(put("k", "w"))).code == ResponseCode.SUCCESS


async def test_a_damaged_file_keeps_the_server_from_starting(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b'{"configTable":')
    config = NameServerConfig(port=0, kv_config_path=path)
    with raises(BadStateFile, path=path):
        async with serve_names(config, FakeClock(), SystemDisk()):
            pass


async def test_all_settings_together_have_a_bound(tmp_path: Path) -> None:
    config = NameServerConfig(
        port=0, kv_config_path=tmp_path / "kvConfig.json", kv_config_size_max=2_000
    )
    async with (
        serve_names(config, FakeClock(), SystemDisk()) as server,
        await RawPeer.connect(server.config.port) as peer,
    ):
        replies = [await peer.ask(put(f"k{each}", "v" * 500)) for each in range(4)]
        assert [each.code for each in replies] == [ResponseCode.SUCCESS] * 2 + [
            ResponseCode.SYSTEM_BUSY
        ] * 2
        assert "maxKvConfigBytes" in (replies[-1].remark or "")
        assert (await peer.ask(put("k0", "short"))).code == ResponseCode.SUCCESS
        assert (await peer.ask(delete("k1"))).code == ResponseCode.SUCCESS
        assert (await peer.ask(put("k2", "v" * 500))).code == ResponseCode.SUCCESS
        size = server.kv_config.size
    async with serve_names(config, FakeClock(), SystemDisk()) as server:
        assert server.kv_config.size == size
