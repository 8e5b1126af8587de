"""The official Python SDK of 5.x at a cluster of two brokers, each with an endpoint."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from roquet import Admin, TopicSettings
from roquet.grpc.schema import pb
from tests.support.apache import ApacheNameServer
from tests.support.eventually import wait_until
from tests.support.grpc_client import grpc_client
from tests.support.grpc_requests import ENDPOINTS
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurBroker, OurCluster
from tests.support.ports import free_port
from tests.support.sdk_programs import SdkProgram, python_command

pytestmark = pytest.mark.xdist_group("python-sdk")

BODIES = [f"spread {index:02}" for index in range(16)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OurCluster]:
    with OurCluster(tmp_path, "--brokers", "2", "--grpc", "127.0.0.1:0") as cluster:
        with Admin(cluster.name_server) as admin:
            settings = TopicSettings(
                read_queue_count=2, write_queue_count=2, attributes={"message.type": "NORMAL"}
            )
            admin.create_topic("normal", settings)
        yield cluster


ONE = pytest.param(1, marks=pytest.mark.full("like the one with both, with a route of its own"))


@pytest.mark.parametrize("named_count", [ONE, 2])
def test_a_client_sends_to_all_brokers_and_receives_from_all(
    cluster: OurCluster, named_count: int, tmp_path: Path
) -> None:
    endpoints = ";".join(cluster.ready_line.partition("grpc=")[2].split(",")[:named_count])
    with SdkProgram(python_command(), tmp_path / "sdk", endpoints) as sdk:
        assert sdk.run("spread", "normal", "readers") == [BODIES, BODIES]
    with Admin(cluster.name_server) as admin:
        queues = admin.topic_statistics("normal").queues
    assert {each.queue.broker_name for each in queues if each.message_count} == {
        "broker-a",
        "broker-b",
    }


@pytest.mark.java
@pytest.mark.parametrize("version", list(ApacheVersion), ids=str)
def test_routes_name_all_endpoints_with_a_name_server_of_apache(
    version: ApacheVersion, tmp_path: Path
) -> None:
    ports = [free_port(), free_port()]
    with ApacheNameServer(version, tmp_path / "names") as names, ExitStack() as stack:
        for name, port in zip(("broker-a", "broker-b"), ports, strict=True):
            settings = {"brokerName": name, "grpcPort": str(port)}
            broker = OurBroker(tmp_path / name, names.address, configuration=settings)
            stack.enter_context(broker)
        plain = OurBroker(tmp_path / "c", names.address, configuration={"brokerName": "broker-c"})
        stack.enter_context(plain)
        with Admin(names.address) as admin:
            admin.create_topic("orders")
            # Clients of remoting read the same route.
            assert len(admin.topic_route("orders")) == 3
        wait_until(lambda: asyncio.run(routed(ports[0])) == {"broker-a", "broker-b"})


async def routed(port: int) -> set[str]:
    request = pb.QueryRouteRequest(topic=pb.Resource(name="orders"), endpoints=ENDPOINTS)
    async with grpc_client(port) as client:
        route = await client.call("QueryRoute", request)
    return {each.broker.name for each in route.message_queues}
