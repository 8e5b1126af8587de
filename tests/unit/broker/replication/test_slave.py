"""A slave and its master, whatever becomes of the link between them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roquet.broker.replication.frames import encode_header
from roquet.net.listening import free_port
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.golden_replication import SIZES, log_bytes, master_store, recorded
from tests.support.replicas import HOST, Master, running_slave, serving_master
from tests.support.stores import bodies


def fill(master: Master, count: int) -> None:
    for number in range(count):
        master.store.append(draft(b"%d" % number * 100))


async def test_a_slave_gets_all_there_is_and_all_that_comes(tmp_path: Path) -> None:
    async with serving_master(tmp_path / "master") as master:
        fill(master, 50)
        async with running_slave(tmp_path / "slave", master.address) as slave:
            await eventually(lambda: slave.store.log_end == master.store.log_end)
            fill(master, 50)
            await eventually(lambda: slave.store.log_end == master.store.log_end)
            await eventually(lambda: master.replicas.confirmed_end == master.store.log_end)
            assert bodies(slave.store) == bodies(master.store)
            assert slave.grown[0].queues == {(b"TopicA", 0)}
            assert slave.link.master == master.address


async def test_a_slave_that_was_away_continues_where_it_was(tmp_path: Path) -> None:
    async with serving_master(tmp_path / "master") as master:
        end = 0
        for _ in range(3):
            fill(master, 20)
            async with running_slave(tmp_path / "slave", master.address) as slave:
                assert slave.store.log_end == end
                await eventually(lambda: slave.store.log_end == master.store.log_end)
                assert bodies(slave.store) == bodies(master.store)
                end = slave.store.log_end
    # What it reports first is where its master starts to send.
    other = ScriptedMaster()
    async with other as address, running_slave(tmp_path / "slave", address):
        await eventually(lambda: len(other.received) >= 8)
        assert other.received.startswith(end.to_bytes(8))


async def test_a_master_that_returns_is_followed_again(tmp_path: Path) -> None:
    port = free_port(HOST)
    async with running_slave(tmp_path / "slave", f"{HOST}:{port}") as slave:
        for _ in range(2):
            async with serving_master(tmp_path / "master") as master:
                master.links.stop()
                master.links.start(replace(master.config, ha_listen_port=port))
                fill(master, 20)
                end = master.store.log_end
                await eventually(lambda: slave.store.log_end == end)  # noqa: B023
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")


async def test_a_slave_without_a_master_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[None] = []

    def no_master() -> None:
        asked.append(None)

    async with running_slave(tmp_path, no_master):
        await eventually(lambda: len(asked) > 5)
    assert caplog.text.count("haMasterAddress") == 1


class ScriptedMaster:
    """Sends given bytes, and keeps what it receives."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.received = b""
        self.link_count = 0
        self.port = free_port(HOST)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.link_count += 1
        self.received = b""
        for piece in self._pieces:
            writer.write(piece)
        while data := await reader.read(100):
            self.received += data
        writer.close()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self.serve, HOST, self.port)
        return f"{HOST}:{self.port}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()


async def test_our_slave_makes_the_store_of_an_apache_master(tmp_path: Path) -> None:
    original = master_store(tmp_path)
    apache = ScriptedMaster(*recorded("master"))
    async with apache as address, running_slave(tmp_path / "slave", address, SIZES) as slave:
        await eventually(lambda: slave.store.log_end == 50817)
        await eventually(lambda: apache.received.endswith((50817).to_bytes(8)))
        assert apache.received.startswith(bytes(8))
    assert log_bytes(tmp_path / "slave") == log_bytes(original)


@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        (encode_header(-1, 0), "invalid frame"),
        (encode_header(100, 1) + b"x", "mappedFileSizeCommitLog"),
    ],
)
async def test_invalid_frames_cost_the_link_and_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, piece: bytes, reason: str
) -> None:
    async with ScriptedMaster(piece) as address, running_slave(tmp_path, address):
        await eventually(lambda: reason in caplog.text)


async def test_a_silent_master_is_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    silent = ScriptedMaster()
    settings: dict[str, Any] = {"ha_silence_ms_max": 100, "ha_heartbeat_interval_ms": 30}
    async with silent as address, running_slave(tmp_path, address, **settings):
        await eventually(lambda: "nothing received" in caplog.text)
        await eventually(lambda: silent.link_count > 1)
