"""What real name servers and brokers say of the brokers of one name."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from roquet.broker.registration import OwnIdentity
from roquet.broker.replication.other_brokers import OtherBroker, OtherBrokers
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.supervisor import supervised_broker
from roquet.clock import SystemClock
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.net.peers import Peers
from roquet.net.router import Router
from tests.support.drafts import draft
from tests.support.quick_disk import QuickDisk
from tests.support.stores import small_config

HOST = "127.0.0.1"
NOWHERE = "127.0.0.1:1"


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[tuple[OtherBrokers, OtherBroker]]:
    """Who asks, and what there is to be found."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of many bytes")
    names = NameServerConfig(host=HOST, port=0, kv_config_path=tmp_path / "kv.json")
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve_names(names, SystemClock(), QuickDisk()))
        name_server = f"{HOST}:{server.config.port}"
        config = BrokerConfig(
            store=small_config(tmp_path / "store"),
            broker_name="broker-a",
            listen_port=0,
            name_servers=(name_server,),
            replication_secret_file=secret,
        )
        life = await stack.enter_async_context(
            supervised_broker(config, SystemClock(), QuickDisk())
        )
        life.broker.store.append(draft(b"something"))
        peers = Peers(Router(None, ()), SystemClock())
        stack.push_async_callback(peers.close)
        identity = OwnIdentity(config.cluster_name, "broker-a", 0, NOWHERE, NOWHERE)
        address = f"{HOST}:{life.broker.config.listen_port}"
        found = OtherBroker(address, 1, life.broker.store.log_end)
        # One name server that is not there stops nothing.
        yield OtherBrokers(peers, None, identity, lambda: (NOWHERE, name_server)), found


async def test_another_master_of_the_name_is_found(
    asked: tuple[OtherBrokers, OtherBroker],
) -> None:
    others, found = asked
    assert await others.masters() == [found]
    assert await others.all() == [found]
    assert await others.addresses() == {found.address: 0}


async def test_this_broker_itself_is_no_other(asked: tuple[OtherBrokers, OtherBroker]) -> None:
    others, found = asked
    others.identity = OwnIdentity("DefaultCluster", "broker-a", 0, found.address, NOWHERE)
    assert await others.masters() == []
    assert await others.addresses() == {}


async def test_brokers_of_another_name_are_no_others(
    asked: tuple[OtherBrokers, OtherBroker],
) -> None:
    others, _ = asked
    others.identity = OwnIdentity("DefaultCluster", "broker-b", 0, NOWHERE, NOWHERE)
    assert await others.masters() == await others.all() == []
