"""A name server and a broker inside this process, a proxy in front of them, and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.clock import SystemClock
from roquet.grpc.proxy.server import ProxyConfig, serve_proxy
from roquet.net.tls.contexts import ServerTls
from roquet.net.tls.settings import TlsSettings
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.host import Address
from tests.support.eventually import eventually
from tests.support.grpc_client import GrpcTestClient, grpc_client
from tests.support.live_cluster import LiveCluster, live_cluster

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LiveCluster]:
    async with live_cluster(tmp_path) as cluster:
        broker = await cluster.start_broker("broker-a", sql_filters=True)
        for kind in TYPES:
            broker.tables.topics.update(
                TopicConfig(
                    topic_name=kind.lower(),
                    read_queue_nums=2,
                    write_queue_nums=2,
                    attributes={"+message.type": kind},
                )
            )
        await eventually(lambda: cluster.names.routes.route("transaction") is not None)
        yield cluster


@pytest.fixture
async def port(cluster: LiveCluster) -> AsyncIterator[int]:
    clock = SystemClock()
    config = ProxyConfig(
        place=Address("127.0.0.1", 0), name_server=cluster.name_server, timeout_s=3.0
    )
    async with serve_proxy(config, ServerTls(TlsSettings(), clock), clock) as place:
        yield place.port


@pytest.fixture
async def client(port: int) -> AsyncIterator[GrpcTestClient]:
    async with grpc_client(port) as client:
        yield client
