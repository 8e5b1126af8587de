"""Apache's tool of 5.5.0 shows clients of gRPC: as members of their group, and as producers."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from roquet import Admin
from roquet.grpc.schema import pb
from tests.support.grpc_client import grpc_client
from tests.support.grpc_requests import GROUP, as_consumer
from tests.support.jars import ApacheVersion
from tests.support.java_driver import JavaDriver
from tests.support.our_cluster import OurCluster

pytestmark = pytest.mark.java

CONSUMER, PRODUCER = "vm@1@0@reader", "vm@1@1@shop"


async def test_connections(
    java_drivers: Callable[[ApacheVersion], JavaDriver], tmp_path: Path
) -> None:
    with OurCluster(tmp_path, "--grpc", "127.0.0.1:0") as cluster:
        with Admin(cluster.name_server) as admin:
            admin.create_topic("normal")
        port = int(cluster.ready_line.rpartition(":")[2])

        async def said(*words: str) -> str:
            run = java_drivers(ApacheVersion.V5_5_0).mqadmin
            return (await asyncio.to_thread(run, *words, "-n", cluster.name_server)).output

        async with grpc_client(port, CONSUMER) as reader, grpc_client(port, PRODUCER) as writer:
            await as_consumer(reader)
            await writer.settings(publishing=pb.Publishing(topics=[pb.Resource(name="normal")]))
            consumers = await said("consumerConnection", "-g", GROUP)
            assert CONSUMER in consumers
            assert "normal" in consumers
            assert PRODUCER in await said("producerConnection", "-g", "normal", "-t", "normal")
