"""Calls of accounts: the signature, and the rights."""

import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from roquet.grpc.codes import Code
from roquet.grpc.in_broker.server import serve_grpc
from roquet.grpc.schema import pb
from roquet.protocol.host import Address
from tests.support.broker_bed import broker_bed
from tests.support.fake_clock import START_MS
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


@asynccontextmanager
async def endpoint(directory: Path, **settings: Any) -> AsyncIterator[GrpcTestClient]:
    async with broker_bed(directory, **settings) as bed:
        broker = bed.broker
        for topic in ("orders", "others"):
            broker.tables.topics.find_or_create(topic, 1)
        place = Address("127.0.0.1", 0)
        async with (
            serve_grpc(place, broker, lambda: broker, bed.clock) as port,
            grpc_client(port) as client,
        ):
            yield client


@pytest.fixture
def accounts_file(tmp_path: Path) -> Path:
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    return accounts


@pytest.fixture
async def client(tmp_path: Path, accounts_file: Path) -> AsyncIterator[GrpcTestClient]:
    settings = {"access_control": True, "accounts_file": accounts_file}
    async with endpoint(tmp_path, **settings) as client:
        yield client


def signed(key: str = "senders", secret: str = SECRET, time: str = TIME) -> dict[str, str]:
    signature = hmac.new(secret.encode(), time.encode(), hashlib.sha1).hexdigest().upper()
    credential = f"Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"authorization": f"MQv2-HMAC-SHA1 {credential}", "x_mq_date_time": time}


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
async def test_a_call_without_a_client_id_is_refused(
    client: GrpcTestClient, headers: dict[str, str]
) -> None:
    assert await client.refused("QueryRoute", route("orders"), **headers) == Code.UNAUTHORIZED


async def test_settings_of_no_client_are_refused(client: GrpcTestClient) -> None:
    stream = client.start("Telemetry")
    publishing = pb.Publishing(topics=[pb.Resource(name="orders")])
    client.send(stream, pb.TelemetryCommand(settings=pb.Settings(publishing=publishing)))
    found = await client.finished(stream)
    assert "UNAUTHORIZED" in found.headers["grpc-message"]


async def test_a_user_has_the_rights_of_its_policies(tmp_path: Path) -> None:
    users = tmp_path / "users.yml"
    users.write_text(USERS)
    settings = {"authentication": True, "authorization": True, "users_file": users}
    async with endpoint(tmp_path, **settings) as client:
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


@pytest.mark.parametrize(
    ("age_s", "code"),
    [
        (0, Code.OK),
        (60, Code.OK),
        (-60, Code.OK),
        (61, Code.UNAUTHORIZED),
        (-61, Code.UNAUTHORIZED),
    ],
)
async def test_a_signature_is_accepted_for_as_long_as_it_is_configured(
    tmp_path: Path, accounts_file: Path, age_s: int, code: Code
) -> None:
    settings = {
        "access_control": True,
        "accounts_file": accounts_file,
        "grpc_signature_age_s_max": 60,
    }
    moment = datetime.fromtimestamp(START_MS // 1000 - age_s, UTC)
    headers = signed(time=f"{moment:%Y%m%dT%H%M%SZ}")
    async with endpoint(tmp_path, **settings) as client:
        assert await client.refused("QueryRoute", route("orders"), **headers) == code
        timeless = signed(time="today")
        assert await client.refused("QueryRoute", route("orders"), **timeless) == Code.UNAUTHORIZED
