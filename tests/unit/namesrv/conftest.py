"""A name server on a real socket, with a clock that the test moves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from tests.support.fake_clock import FakeClock
from tests.support.names import Names
from tests.support.raw_peer import RawPeer


@pytest.fixture
async def names(tmp_path: Path) -> AsyncIterator[Names]:
    clock = FakeClock()
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "names" / "kvConfig.json")
    async with serve_names(config, clock, SystemDisk()) as server:
        yield Names(server, clock, config.kv_config_path)


@pytest.fixture
async def peer(names: Names) -> AsyncIterator[RawPeer]:
    async with await names.connect() as peer:
        yield peer
