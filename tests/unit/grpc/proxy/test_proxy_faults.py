"""What clients of a proxy are told, and get, while servers come and go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roquet.access.account_store import AccountPaths
from roquet.clock import SystemClock
from roquet.grpc.codes import ClientType, Code, MessageType
from roquet.grpc.proxy.server import ProxyConfig, serve_proxy
from roquet.grpc.schema import pb
from roquet.net.tls.contexts import ServerTls
from roquet.net.tls.settings import TlsSettings
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.host import Address
from tests.support.eventually import eventually
from tests.support.grpc_client import GrpcTestClient, grpc_client
from tests.support.grpc_requests import (
    ENDPOINTS,
    GROUP,
    ack,
    as_consumer,
    message,
    receive_request,
    received,
    sent,
)
from tests.support.live_cluster import LiveCluster, live_cluster

PATIENT = pb.Duration(seconds=15)
ROUTE = pb.QueryRouteRequest(topic=pb.Resource(name="normal"), endpoints=ENDPOINTS)


@asynccontextmanager
async def proxy(name_server: str, accounts: Path | None = None) -> AsyncIterator[GrpcTestClient]:
    clock = SystemClock()
    config = ProxyConfig(
        place=Address("127.0.0.1", 0),
        name_server=name_server,
        timeout_s=1.0,
        accounts_file=accounts,
    )
    async with (
        serve_proxy(config, ServerTls(TlsSettings(), clock), clock) as place,
        grpc_client(place.port) as client,
    ):
        yield client


async def test_without_a_name_server_calls_get_that_reason() -> None:
    async with proxy("127.0.0.1:9") as client:
        answer = await client.call("QueryRoute", ROUTE)
    assert answer.status.code == Code.INTERNAL_SERVER_ERROR
    assert "127.0.0.1:9" in answer.status.message


async def test_a_name_server_that_goes_leaves_known_routes(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    assert await client.refused("QueryRoute", ROUTE) == Code.OK
    await cluster.stop_names()
    assert await client.refused("QueryRoute", ROUTE) == Code.OK
    assert (await sent(client, message())).status.code == Code.OK


async def test_a_topic_whose_broker_is_away_is_not_reported_as_missing(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    await cluster.stop_broker("broker-a")
    await eventually(lambda: cluster.names.routes.route("normal") is None)
    answer = await client.call("QueryRoute", ROUTE)
    assert answer.status.code == Code.INTERNAL_SERVER_ERROR
    assert "no master is registered" in answer.status.message


async def test_a_broker_that_is_gone_is_named(cluster: LiveCluster, client: GrpcTestClient) -> None:
    assert (await sent(client, message())).status.code == Code.OK
    await cluster.stop_names()
    await cluster.stop_broker("broker-a")
    answer = await sent(client, message())
    assert answer.status.code == Code.INTERNAL_SERVER_ERROR
    assert "cannot connect" in answer.status.message
    stream = client.start("ReceiveMessage", receive_request())
    (refusal,) = (await client.finished(stream)).messages
    status = pb.ReceiveMessageResponse.FromString(refusal).status
    assert status.code == Code.INTERNAL_SERVER_ERROR
    assert "cannot connect" in status.message


async def test_another_broker_takes_what_one_that_is_gone_cannot(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    other = await cluster.start_broker("broker-b")
    other.tables.topics.find_or_create("normal", 2)
    await eventually(lambda: len(cluster.names.routes.route("normal").broker_datas) == 2)  # type: ignore[union-attr]
    assert await client.refused("QueryRoute", ROUTE) == Code.OK
    await cluster.stop_names()
    await cluster.stop_broker("broker-b")
    answers = [await sent(client, message()) for _ in range(4)]
    assert [each.status.code for each in answers] == [Code.OK] * 4
    assert len(cluster.all_stored("normal")) == 4


async def test_another_proxy_knows_handles_and_transactions(cluster: LiveCluster) -> None:
    async with proxy(cluster.name_server) as client:
        await sent(client, message())
        (found,) = await received(client, receive_request(long_polling_timeout=PATIENT))
        given = message("transaction", message_type=MessageType.TRANSACTION)
        transaction_id = (await sent(client, given)).entries[0].transaction_id
    async with proxy(cluster.name_server) as client:
        assert await client.refused("AckMessage", ack(found)) == Code.OK
        request = pb.EndTransactionRequest(
            topic=pb.Resource(name="transaction"),
            message_id="0102FC01",
            transaction_id=transaction_id,
            resolution=1,
        )
        assert await client.refused("EndTransaction", request) == Code.OK
    assert cluster.brokers["broker-a"].waiting.pops.in_flight.count == 0
    assert len(cluster.all_stored("transaction")) == 1


async def test_a_broker_asks_a_client_about_a_transaction(tmp_path: Path) -> None:
    quick = {"transaction_check_interval_ms": 200, "transaction_timeout_ms": 100}
    topic = TopicConfig(topic_name="orders", attributes={"+message.type": "TRANSACTION"})
    publishing = pb.Publishing(topics=[pb.Resource(name="orders")])
    async with live_cluster(tmp_path) as cluster:
        broker = await cluster.start_broker("broker-a", **quick)
        broker.tables.topics.update(topic)
        async with proxy(cluster.name_server) as client:
            stream = await client.settings(client_type=ClientType.PRODUCER, publishing=publishing)
            await sent(client, message("orders", message_type=MessageType.TRANSACTION, tag="new"))
            command = pb.TelemetryCommand.FromString(await client.message(stream, 1))
            check = command.recover_orphaned_transaction_command
            assert check.message.system_properties.message_id == "0102FC01"
            assert check.message.topic.name == "orders"
            request = pb.EndTransactionRequest(
                topic=pb.Resource(name="orders"),
                message_id="0102FC01",
                transaction_id=check.transaction_id,
                resolution=1,
                source=2,
            )
            assert await client.refused("EndTransaction", request) == Code.OK
            assert len(cluster.all_stored("orders")) == 1


async def test_messages_of_a_connection_that_is_cut_come_to_others(
    cluster: LiveCluster, port: int, client: GrpcTestClient
) -> None:
    polls = cluster.brokers["broker-a"].waiting.pop_polls
    async with grpc_client(port, "cut@1@0@b") as other:
        other.start("ReceiveMessage", receive_request(long_polling_timeout=PATIENT))
        await eventually(lambda: polls.count == 1)
        other.writer.transport.abort()
    await sent(client, message())
    async with asyncio.timeout(5):
        (found,) = await received(client, receive_request(long_polling_timeout=PATIENT))
    assert found.system_properties.delivery_attempt == 1


async def test_held_messages_are_renewed_and_acknowledged_with_the_first_handle(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.grpc.proxy.server.RENEWAL_PAUSE_S", 0.05)
    monkeypatch.setattr("roquet.grpc.proxy.receiving.RENEW_BEFORE_MS", 61_000)
    async with proxy(cluster.name_server) as client:
        await as_consumer(client)
        await sent(client, message())
        request = receive_request(auto_renew=True, long_polling_timeout=PATIENT)
        (found,) = await received(client, request)
        in_flight = cluster.brokers["broker-a"].waiting.pops.in_flight
        first_due_ms = in_flight.next_due_ms
        assert first_due_ms is not None
        await eventually(lambda: (in_flight.next_due_ms or 0) > first_due_ms)
        assert await client.refused("AckMessage", ack(found)) == Code.OK
        await eventually(lambda: in_flight.count == 0)


async def test_accounts_of_the_proxy_say_who_may_call(cluster: LiveCluster, tmp_path: Path) -> None:
    accounts = AccountPaths(tmp_path / "plain_acl.yml").file
    accounts.write_text(
        "accounts:\n- accessKey: reader-key\n  secretKey: its-secret\n  admin: true\n"
    )
    async with proxy(cluster.name_server, accounts) as client:
        assert await client.refused("QueryRoute", ROUTE) == Code.UNAUTHORIZED


async def test_a_silent_client_is_forgotten(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.grpc.proxy.server.RENEWAL_PAUSE_S", 0.05)
    monkeypatch.setattr("roquet.grpc.clients.SILENT_S_MAX", 0.1)
    request = pb.HeartbeatRequest(group=pb.Resource(name=GROUP))
    async with proxy(cluster.name_server) as client:
        await as_consumer(client)
        async with asyncio.timeout(10):
            while await client.refused("Heartbeat", request) == Code.OK:
                # Each heartbeat is a sign of life.
                await received(
                    client, receive_request(long_polling_timeout=pb.Duration(nanos=300_000_000))
                )
