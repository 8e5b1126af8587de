"""Metrics of the endpoint: what became of calls, and what is still open."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.grpc.calls import EndpointFigures
from roquet.grpc.codes import Code
from roquet.grpc.in_broker.server import serve_grpc
from roquet.grpc.metrics import METRICS, measure_endpoint
from roquet.grpc.schema import pb
from roquet.monitoring.exposition import Exposition
from roquet.protocol.host import Address
from tests.support.broker_bed import BrokerBed
from tests.support.eventually import eventually
from tests.support.grpc_client import GrpcTestClient, grpc_client
from tests.support.grpc_requests import as_consumer, message, receive_request, sent
from tests.support.http_asking import page_of
from tests.support.our_cluster import OurCluster
from tests.support.scraped import Scraped, scraped

CALLS, IN_FLIGHT = "roquet_grpc_calls_total", "roquet_grpc_calls_in_flight"


@pytest.fixture
def figures() -> EndpointFigures:
    return EndpointFigures()


@pytest.fixture
async def port(bed: BrokerBed, figures: EndpointFigures) -> AsyncIterator[int]:
    place, broker = Address("127.0.0.1", 0), bed.broker
    async with serve_grpc(place, broker, lambda: broker, bed.clock, figures=figures) as port:
        yield port


def measured(figures: EndpointFigures) -> Scraped:
    exposition = Exposition()
    measure_endpoint(figures, {}, exposition)
    return scraped(exposition.text())


async def test_every_exposed_metric_is_declared(
    figures: EndpointFigures, client: GrpcTestClient
) -> None:
    await sent(client, message())
    kinds = {metric.name: metric.kind.value for metric in METRICS}
    assert measured(figures).kinds == kinds


async def test_calls_are_counted_by_method_and_status(
    figures: EndpointFigures, client: GrpcTestClient
) -> None:
    for topic in ("normal", "normal", "unheard-of"):
        await sent(client, message(topic))
    # A text of more than a hundred bytes makes the size of the status two bytes long.
    assert (
        await client.refused("SendMessage", pb.SendMessageRequest(messages=[message("n" * 126)]))
        == Code.TOPIC_NOT_FOUND
    )
    await client.finished(client.start("NoSuchMethod", b""))
    await client.finished(client.start("SendMessage", b"\xff"))
    found = measured(figures)
    assert found.value(CALLS, method="SendMessage", status="ok") == 2
    assert found.value(CALLS, method="SendMessage", status="topic_not_found") == 2
    assert found.value(CALLS, method="SendMessage", status="grpc_invalid_argument") == 1
    assert found.value(CALLS, method="unknown", status="grpc_unimplemented") == 1
    assert found.value(IN_FLIGHT, method="SendMessage") == 0


async def test_a_long_poll_is_in_flight_until_its_client_cancels_it(
    figures: EndpointFigures, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    stream = client.start(
        "ReceiveMessage", receive_request(long_polling_timeout=pb.Duration(seconds=20))
    )
    await sent(client, message("fifo"))  # When it is answered, the receive waits.
    found = measured(figures)
    assert found.value(IN_FLIGHT, method="ReceiveMessage") == 1
    assert found.value(IN_FLIGHT, method="Telemetry") == 1
    client.reset(stream)
    await sent(client, message("fifo"))
    found = measured(figures)
    assert found.value(IN_FLIGHT, method="ReceiveMessage") == 0
    assert found.value(CALLS, method="ReceiveMessage", status="cancelled") == 1


async def test_connections_are_counted_while_they_are_open(
    figures: EndpointFigures, port: int
) -> None:
    async with grpc_client(port) as one, grpc_client(port):
        await sent(one, message())
        assert measured(figures).value("roquet_grpc_connections") == 2
    await eventually(lambda: figures.connection_count() == 0)


def test_a_broker_with_an_endpoint_shows_it_among_its_metrics(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0") as cluster:
        address = cluster.ready_line.partition(" http=")[2].partition(" ")[0]
        found = scraped(page_of(address, "/metrics").body)
    assert found.value("roquet_grpc_connections", node_id="broker-a") == 0
