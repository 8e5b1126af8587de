"""Calls of accounts: the signature, and the rights."""

import hashlib
import hmac
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.grpc.codes import Code
from roquet.grpc.schema import pb
from roquet.grpc.server import serve_grpc
from roquet.protocol.host import Address
from tests.support.broker_bed import broker_bed
from tests.support.grpc_client import GrpcTestClient, grpc_client

TIME = "20261118T093000Z"
SECRET = "12345678"
ACCOUNTS = f"""
accounts:
- accessKey: senders
  secretKey: {SECRET}
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [orders=PUB]
"""

USERS = f"""
users:
- {{username: ann, password: {SECRET}}}
- {{username: root, password: {SECRET}, userType: Super}}
- {{username: gone, password: {SECRET}, userType: Super, userStatus: disable}}
acls:
- subject: User:ann
  policies:
  - entries:
    - {{resource: Topic:orders, actions: [Pub], decision: Allow}}
"""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GrpcTestClient]:
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    async with broker_bed(tmp_path, access_control=True, accounts_file=accounts) as bed:
        broker = bed.broker
        for topic in ("orders", "others"):
            broker.tables.topics.find_or_create(topic, 1)
        place = Address("127.0.0.1", 0)
        async with (
            serve_grpc(place, broker, lambda: broker, bed.clock) as port,
            grpc_client(port) as client,
        ):
            yield client


def signed(key: str = "senders", secret: str = SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), TIME.encode(), hashlib.sha1).hexdigest().upper()
    credential = f"Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"authorization": f"MQv2-HMAC-SHA1 {credential}", "x_mq_date_time": TIME}


def route(topic: str) -> object:
    return pb.QueryRouteRequest(topic=pb.Resource(name=topic))


async def test_a_signed_call_is_allowed_where_its_account_has_the_right(
    client: GrpcTestClient,
) -> None:
    assert await client.refused("QueryRoute", route("orders"), **signed()) == Code.OK
    assert await client.refused("QueryRoute", route("others"), **signed()) == Code.UNAUTHORIZED


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed(secret="wrong"),
        signed(key="nobody"),
        signed(key=""),
        {"authorization": "Basic abc"},
    ],
)
async def test_a_call_of_nobody_is_refused(client: GrpcTestClient, headers: dict[str, str]) -> None:
    assert await client.refused("QueryRoute", route("orders"), **headers) == Code.UNAUTHORIZED


async def test_settings_of_nobody_are_refused(client: GrpcTestClient) -> None:
    stream = client.start("Telemetry")
    publishing = pb.Publishing(topics=[pb.Resource(name="orders")])
    client.send(stream, pb.TelemetryCommand(settings=pb.Settings(publishing=publishing)))
    found = await client.finished(stream)
    assert "UNAUTHORIZED" in found.headers["grpc-message"]


async def test_a_user_has_the_rights_of_its_policies(tmp_path: Path) -> None:
    users = tmp_path / "users.yml"
    users.write_text(USERS)
    async with broker_bed(
        tmp_path, authentication=True, authorization=True, users_file=users
    ) as bed:
        broker = bed.broker
        for topic in ("orders", "others"):
            broker.tables.topics.find_or_create(topic, 1)
        place = Address("127.0.0.1", 0)
        async with (
            serve_grpc(place, broker, lambda: broker, bed.clock) as port,
            grpc_client(port) as client,
        ):
            for topic, key, secret, code in (
                ("orders", "ann", SECRET, Code.OK),
                ("others", "ann", SECRET, Code.UNAUTHORIZED),
                ("others", "root", SECRET, Code.OK),
                ("orders", "gone", SECRET, Code.UNAUTHORIZED),
                ("orders", "ann", "wrong", Code.UNAUTHORIZED),
                ("orders", "nobody", SECRET, Code.UNAUTHORIZED),
            ):
                headers = signed(key, secret)
                assert await client.refused("QueryRoute", route(topic), **headers) == code
