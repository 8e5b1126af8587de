"""Routes of a broker's endpoint: its own queues, and those of other brokers that have one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from roquet.broker.broker import Broker
from roquet.clock import SystemClock
from roquet.grpc.codes import Code, MessageType
from roquet.grpc.in_broker import remote_topics
from roquet.grpc.in_broker.server import serve_grpc
from roquet.grpc.schema import Message, pb
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.host import Address
from tests.support.grpc_client import GrpcTestClient, grpc_client
from tests.support.grpc_requests import ENDPOINTS, GROUP
from tests.support.live_cluster import LiveCluster, live_cluster

SEVERAL = pb.Endpoints(
    scheme=1,
    addresses=[pb.Address(host="10.0.0.1", port=8081), pb.Address(host="10.0.0.2", port=8081)],
)
A, B = Address("10.0.0.1", 8081), Address("10.0.0.2", 8081)
TYPED = {"+message.type": "FIFO"}

Places = dict[str, list[tuple[str, int]]]


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LiveCluster]:
    monkeypatch.setattr(remote_topics, "FRESH_S", 0.0)
    async with live_cluster(tmp_path) as cluster:
        yield cluster


async def started(cluster: LiveCluster, name: str, place: Address | None = None) -> Broker:
    """With a topic of two queues, and registered with an endpoint that no test connects to."""
    broker = cluster.brokers.get(name) or await cluster.start_broker(name)
    topic = TopicConfig(
        topic_name="orders", read_queue_nums=2, write_queue_nums=2, attributes=TYPED
    )
    broker.tables.topics.update(topic)
    if place is not None:
        broker.registrar.register_endpoint(place)
    await broker.registrar.until_registered()
    return broker


@asynccontextmanager
async def client_of(broker: Broker) -> AsyncIterator[GrpcTestClient]:
    async with AsyncExitStack() as stack:
        place = Address("127.0.0.1", 0)
        serving = serve_grpc(place, broker, lambda: broker, SystemClock())
        port = await stack.enter_async_context(serving)
        yield await stack.enter_async_context(grpc_client(port))


def route(endpoints: Message = ENDPOINTS) -> Message:
    return pb.QueryRouteRequest(topic=pb.Resource(name="orders"), endpoints=endpoints)


def places_in(queues: Any) -> Places:
    found: Places = {}
    for queue in queues:
        addresses = [(each.host, each.port) for each in queue.broker.endpoints.addresses]
        found[queue.broker.name] = addresses
    return found


async def test_a_route_has_the_queues_of_all_brokers_that_have_endpoints(
    cluster: LiveCluster,
) -> None:
    broker = await started(cluster, "broker-a", A)
    await started(cluster, "broker-b", B)
    async with client_of(broker) as client:
        queues = (await client.call("QueryRoute", route())).message_queues
    assert places_in(queues) == {
        "broker-a": [("mapped.example", 30081)],
        "broker-b": [("10.0.0.2", 8081)],
    }
    assert [each.id for each in queues] == [0, 1, 0, 1]
    assert {tuple(each.accept_message_types) for each in queues} == {(MessageType.FIFO,)}


async def test_a_client_that_names_all_endpoints_learns_which_is_whose(
    cluster: LiveCluster,
) -> None:
    broker = await started(cluster, "broker-b", B)
    await started(cluster, "broker-a", A)
    async with client_of(broker) as client:
        queues = (await client.call("QueryRoute", route(SEVERAL))).message_queues
        request = pb.QueryAssignmentRequest(
            topic=pb.Resource(name="orders"), group=pb.Resource(name=GROUP), endpoints=SEVERAL
        )
        assignments = (await client.call("QueryAssignment", request)).assignments
    wanted = {"broker-a": [("10.0.0.1", 8081)], "broker-b": [("10.0.0.2", 8081)]}
    assert places_in(queues) == wanted
    assert places_in(each.message_queue for each in assignments) == wanted


async def test_the_only_endpoint_may_have_several_addresses(cluster: LiveCluster) -> None:
    broker = await started(cluster, "broker-a", A)
    async with client_of(broker) as client:
        queues = (await client.call("QueryRoute", route(SEVERAL))).message_queues
    assert places_in(queues) == {"broker-a": [("10.0.0.1", 8081), ("10.0.0.2", 8081)]}


async def test_a_broker_without_an_endpoint_is_left_out_and_named_in_the_log(
    cluster: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await started(cluster, "broker-a", A)
    await started(cluster, "broker-b")
    async with client_of(broker) as client:
        queues = (await client.call("QueryRoute", route())).message_queues
    assert list(places_in(queues)) == ["broker-a"]
    (record,) = [each for each in caplog.records if each.name == remote_topics.__name__]
    assert "broker-b" in record.getMessage()


async def test_a_topic_of_another_broker_is_found_with_its_type(cluster: LiveCluster) -> None:
    broker = await cluster.start_broker("broker-a")
    await started(cluster, "broker-b", B)
    async with client_of(broker) as client:
        (queue, _) = (await client.call("QueryRoute", route())).message_queues
    assert places_in([queue]) == {"broker-b": [("10.0.0.2", 8081)]}
    assert list(queue.accept_message_types) == [MessageType.FIFO]


async def test_a_topic_of_a_broker_without_an_endpoint_is_not_found(cluster: LiveCluster) -> None:
    broker = await cluster.start_broker("broker-a")
    await started(cluster, "broker-b")
    async with client_of(broker) as client:
        assert await client.refused("QueryRoute", route()) == Code.TOPIC_NOT_FOUND


async def test_without_a_name_server_the_last_route_stays(cluster: LiveCluster) -> None:
    broker = await started(cluster, "broker-a", A)
    await started(cluster, "broker-b", B)
    async with client_of(broker) as client:
        before = await client.call("QueryRoute", route())
        await cluster.stop_names()
        assert await client.call("QueryRoute", route()) == before
    await cluster.start_names()
