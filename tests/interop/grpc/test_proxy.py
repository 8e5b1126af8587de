"""Our proxy in front of clusters of Apache, and the Java SDK through it."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from roquet import Admin, TopicSettings
from roquet.grpc.codes import ClientType, Code, MessageType
from roquet.grpc.schema import Message, pb
from roquet.protocol.codes import ResponseCode
from tests.support.apache import ApacheBroker
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
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurNameServer, OurProxy
from tests.support.sdk_programs import SdkProgram, java_command
from tests.support.sdk_stories import STORIES, SdkWorld

pytestmark = [
    pytest.mark.full("a JVM for each version, and one for the SDK"),
    pytest.mark.java,
    pytest.mark.xdist_group("proxy"),
]

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
PATIENT = pb.Duration(seconds=20)
# Apache redelivers up to ten seconds late.
PATIENT_COUNT = 3


class Proxied(NamedTuple):
    version: ApacheVersion
    port: int


BOTH = pytest.mark.parametrize("proxied", list(ApacheVersion), indirect=True, ids=str)
ONLY_4 = pytest.mark.parametrize("proxied", [ApacheVersion.V4_9_7], indirect=True, ids=str)
# With POP and timers.
ONLY_5 = pytest.mark.parametrize("proxied", [ApacheVersion.V5_5_0], indirect=True, ids=str)


@pytest.fixture(scope="module")
def proxied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    directory = tmp_path_factory.mktemp("proxied")
    settings = {"timerWheelEnable": "true", "recallMessageEnable": "true"}
    version: ApacheVersion = request.param
    with (
        OurNameServer(directory / "names") as names,
        ApacheBroker(version, directory / "broker", names.address, configuration=settings),
        OurProxy(directory / "proxy", names.address) as proxy,
    ):
        with Admin(names.address) as admin:
            for kind in TYPES:
                attributes = {"message.type": kind} if version is ApacheVersion.V5_5_0 else {}
                admin.create_topic(kind.lower(), TopicSettings(attributes=attributes))
        yield Proxied(version, int(proxy.endpoint.rpartition(":")[2]))


@pytest.fixture
async def client(proxied: Proxied) -> AsyncIterator[GrpcTestClient]:
    async with grpc_client(proxied.port) as client:
        yield client


async def patiently(client: GrpcTestClient, request: Message) -> list[Message]:
    for _ in range(PATIENT_COUNT):
        if found := await received(client, request):
            return found
    return []


@ONLY_5
@pytest.mark.usefixtures("proxied")
async def test_an_apache_cluster_is_served(client: GrpcTestClient) -> None:
    request = pb.QueryRouteRequest(topic=pb.Resource(name="normal"), endpoints=ENDPOINTS)
    route = await client.call("QueryRoute", request)
    assert {each.broker.name for each in route.message_queues} == {"apache-broker"}
    assert list(route.message_queues[0].accept_message_types) == [MessageType.NORMAL]
    await as_consumer(client)
    answer = await sent(client, message(tag="new", keys=["k1"]))
    assert answer.status.code == Code.OK
    (found,) = await patiently(client, receive_request(long_polling_timeout=PATIENT))
    assert (found.body, found.system_properties.tag) == (b"hello", "new")
    assert [(each.key, each.value) for each in found.user_properties] == [("city", "Rome")]
    request = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name="normal"),
        receipt_handle=found.system_properties.receipt_handle,
        invisible_duration=pb.Duration(seconds=1),
    )
    assert await client.refused("ChangeInvisibleDuration", request) == Code.OK
    (again,) = await patiently(client, receive_request(long_polling_timeout=PATIENT))
    assert again.system_properties.delivery_attempt == 2
    assert await client.refused("AckMessage", ack(again)) == Code.OK
    assert await received(client, receive_request()) == []


@ONLY_5
@pytest.mark.usefixtures("proxied")
async def test_a_receive_that_is_cancelled_hides_nothing(client: GrpcTestClient) -> None:
    request = receive_request("fifo", long_polling_timeout=PATIENT)
    stream = client.start("ReceiveMessage", request)
    await sent(client, message("delay"))  # Refused; when it is, the receive waits at the broker.
    client.reset(stream)
    answer = await sent(client, message("fifo", message_group="g"))
    assert answer.status.code == Code.OK
    (found,) = await patiently(client, request)
    assert found.system_properties.delivery_attempt == 1
    assert await client.refused("AckMessage", ack(found, topic="fifo")) == Code.OK


@BOTH
async def test_a_transaction_is_asked_about_and_ended_once(
    proxied: Proxied, client: GrpcTestClient
) -> None:
    publishing = pb.Publishing(topics=[pb.Resource(name="transaction")])
    stream = await client.settings(client_type=ClientType.PRODUCER, publishing=publishing)
    given = message("transaction", message_type=MessageType.TRANSACTION)
    given.system_properties.born_timestamp.seconds = int(time.time())
    assert (await sent(client, given)).status.code == Code.OK
    command = pb.TelemetryCommand.FromString(await client.message(stream, 1))
    question = command.recover_orphaned_transaction_command
    assert question.message.system_properties.message_id == "0102FC01"
    request = pb.EndTransactionRequest(
        topic=pb.Resource(name="transaction"),
        message_id="0102FC01",
        transaction_id=question.transaction_id,
        resolution=1,
        source=2,
    )
    for _ in range(2):
        assert await client.refused("EndTransaction", request) == Code.OK
    if proxied.version is ApacheVersion.V5_5_0:
        wanted = receive_request("transaction", long_polling_timeout=PATIENT)
        (found,) = await patiently(client, wanted)
        assert await client.refused("AckMessage", ack(found, topic="transaction")) == Code.OK
        assert await received(client, receive_request("transaction")) == []


@BOTH
async def test_delays_and_recalls(proxied: Proxied, client: GrpcTestClient) -> None:
    due_s = int(time.time()) + 600
    given = message("delay", delivery_timestamp=pb.Timestamp(seconds=due_s))
    answer = await sent(client, given)
    if proxied.version is not ApacheVersion.V5_5_0:
        assert answer.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        return
    handle = answer.entries[0].recall_handle
    request = pb.RecallMessageRequest(topic=pb.Resource(name="delay"), recall_handle=handle)
    recalled = await client.call("RecallMessage", request)
    assert (recalled.status.code, recalled.message_id) == (Code.OK, "0102FC01")


@ONLY_4
@pytest.mark.usefixtures("proxied")
async def test_a_broker_without_pop_is_told_to_have_none(client: GrpcTestClient) -> None:
    assert (await sent(client, message())).status.code == Code.OK
    assert (await sent(client, message(message_group="g"))).status.code == Code.OK
    await as_consumer(client)
    stream = client.start("ReceiveMessage", receive_request())
    (answer,) = (await client.finished(stream)).messages
    status = pb.ReceiveMessageResponse.FromString(answer).status
    assert status.code == Code.NOT_IMPLEMENTED
    assert "POP" in status.message
    assert f"answered {ResponseCode.REQUEST_CODE_NOT_SUPPORTED}" not in status.message


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SdkWorld]:
    with SdkWorld(tmp_path_factory.mktemp("proxied-world"), has_proxy=True) as world:
        yield world


@pytest.fixture(scope="module")
def java_sdk(world: SdkWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SdkProgram]:
    home: Path = tmp_path_factory.mktemp("java-sdk")
    with SdkProgram(java_command(home), home, world.endpoint) as program:
        yield program


@pytest.mark.parametrize("story", STORIES)
def test_the_java_sdk_can_do(story: str, world: SdkWorld, java_sdk: SdkProgram) -> None:
    assert world.outcome(java_sdk, story) == STORIES[story].expected
