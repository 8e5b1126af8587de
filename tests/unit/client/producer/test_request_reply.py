"""Requests and their replies, and everything that may come between them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from roquet import AsyncProducer, Message
from roquet.client.arguments import utc
from roquet.client.errors import BadArgument, NoReply, SendFailed
from roquet.client.producer.request_reply import (
    PendingReplies,
    ReplyMessage,
    accept_reply,
    reply_to,
)
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage, received_messages
from roquet.net.connection import Connection
from roquet.net.peers import Peers
from roquet.net.router import Reply, Request, Router
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.messages import PushReplyHeader
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.properties import property_of
from tests.support.echo_server import running_echo_server
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.golden_frames import GoldenFrame, golden_frames
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises
from tests.support.stores import EVERYTHING

TOPIC = "prices"
PATIENT_S = 10.0
# For a request without a reply, to a broker that is not connected yet.
ENOUGH_TO_SEND_S = 1.0
Requests = Callable[[], list[ReceivedMessage]]


@pytest.fixture
async def asker(cluster: LiveCluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(cluster.name_server, "askers") as producer:
        yield producer


@pytest.fixture
async def replier(cluster: LiveCluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(cluster.name_server, "repliers") as producer:
        yield producer


@pytest.fixture
def requests(cluster: LiveCluster) -> Requests:
    """What a consumer would be given."""

    def received() -> list[ReceivedMessage]:
        store = cluster.brokers["broker-a"].store
        return [
            message
            for queue_id in range(4)
            for message in received_messages(
                b"".join(store.read(TOPIC, queue_id, 0, EVERYTHING).records),
                QueueRef(TOPIC, "broker-a", queue_id),
            )
        ]

    return received


async def test_a_request_gets_its_reply(
    asker: AsyncProducer, replier: AsyncProducer, requests: Requests
) -> None:
    asking = asyncio.create_task(asker.request(Message(TOPIC, b"coffee"), timeout_s=PATIENT_S))
    await eventually(requests)
    (request,) = requests()
    reply = reply_to(request, b"2.40", tags="cheap", keys=("k",), properties={"currency": "EUR"})
    await replier.send(reply)
    received = await asking
    assert (received.body, received.tags, received.keys) == (b"2.40", "cheap", ("k",))
    assert received.properties["currency"] == "EUR"
    assert Property.ARRIVE_TIME in received.properties
    assert request.body == b"coffee"


async def test_many_requests_get_their_own_replies_in_any_order(
    asker: AsyncProducer, replier: AsyncProducer, requests: Requests
) -> None:
    asking = [
        asyncio.create_task(asker.request(Message(TOPIC, b"%d" % number), timeout_s=PATIENT_S))
        for number in range(20)
    ]
    await eventually(lambda: len(requests()) == 20)
    for request in reversed(requests()):
        await replier.send(reply_to(request, b"re: " + request.body))
    replies = await asyncio.gather(*asking)
    assert [reply.body for reply in replies] == [b"re: %d" % number for number in range(20)]


async def test_a_large_reply_is_decompressed(
    asker: AsyncProducer, replier: AsyncProducer, requests: Requests
) -> None:
    asking = asyncio.create_task(asker.request(Message(TOPIC, b"all"), timeout_s=PATIENT_S))
    await eventually(requests)
    await replier.send(reply_to(requests()[0], b"0123456789" * 10_000))
    assert (await asking).body == b"0123456789" * 10_000


async def test_only_the_first_of_two_replies_counts(
    asker: AsyncProducer, replier: AsyncProducer, requests: Requests
) -> None:
    asking = asyncio.create_task(asker.request(Message(TOPIC, b"x"), timeout_s=PATIENT_S))
    await eventually(requests)
    await replier.send(reply_to(requests()[0], b"first"))
    await replier.send(reply_to(requests()[0], b"second"))
    assert (await asking).body == b"first"


@pytest.mark.slow
async def test_without_a_reply_the_request_ends_with_its_time(
    asker: AsyncProducer, replier: AsyncProducer, requests: Requests
) -> None:
    with raises(NoReply, topic=TOPIC, timeout_s=ENOUGH_TO_SEND_S) as failure:
        await asker.request(Message(TOPIC, b"x"), timeout_s=ENOUGH_TO_SEND_S)
    assert failure.value.receipt.queue.topic == TOPIC
    await replier.send(reply_to(requests()[0], b"too late"))


async def test_a_request_that_cannot_be_sent_says_so(
    asker: AsyncProducer, cluster: LiveCluster
) -> None:
    await cluster.stop_broker("broker-a")
    with pytest.raises(SendFailed):
        await asker.request(Message(TOPIC, b"x"), timeout_s=1.0)


@pytest.mark.slow
async def test_requests_continue_when_the_broker_was_restarted(
    asker: AsyncProducer, cluster: LiveCluster, requests: Requests
) -> None:
    with pytest.raises(NoReply):
        await asker.request(Message(TOPIC, b"before"), timeout_s=ENOUGH_TO_SEND_S)
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")
    asking = asyncio.create_task(asker.request(Message(TOPIC, b"after"), timeout_s=PATIENT_S))
    await eventually(lambda: len(requests()) == 2)
    (request,) = (each for each in requests() if each.body == b"after")
    async with AsyncProducer(cluster.name_server, "repliers") as replier:
        await replier.send(reply_to(request, b"yes"))
    assert (await asking).body == b"yes"


async def test_a_plain_message_cannot_be_replied_to(
    asker: AsyncProducer, requests: Requests
) -> None:
    await asker.send(Message(TOPIC, b"x"))
    with raises(BadArgument, argument="request"):
        reply_to(requests()[0], b"x")


async def test_replies_are_not_sent_in_batches(asker: AsyncProducer) -> None:
    with raises(BadArgument, argument="topic"):
        await asker.send_batch([ReplyMessage("C_REPLY_TOPIC", b"x", broker_name="a")])


async def test_what_leads_a_reply_back_is_not_for_users_to_set(asker: AsyncProducer) -> None:
    message = Message(TOPIC, b"x", properties={Property.CORRELATION_ID: "7"})
    with raises(BadArgument, argument="properties"):
        await asker.request(message)


@pytest.mark.parametrize(
    "golden",
    [
        each
        for each in golden_frames()
        if each.request_code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT and each.kind == "request"
    ],
    ids=lambda golden: golden.place,
)
async def test_replies_are_read_as_apache_pushes_them(golden: GoldenFrame) -> None:
    command = golden.command
    header = read_header(PushReplyHeader, command.fields)
    correlation_id = property_of(header.properties or "", Property.CORRELATION_ID)
    assert correlation_id is not None
    pending = PendingReplies(FakeClock())
    async with running_echo_server() as server, dialed(server.port) as connection:
        with pending.expected("10.9.7.1@drv", 8.0) as (properties, waiting):
            # The golden reply is to another request, so it takes the place of that.
            pending._waiting[correlation_id] = pending._waiting[properties[Property.CORRELATION_ID]]
            assert accept_reply(pending, Request(header, command, connection)) == Reply()
            reply = await waiting
    assert (reply.body, reply.topic) == (command.body, "DefaultCluster_REPLY_TOPIC")
    assert (reply.tags, reply.stored) == ("ReplyTag", utc(header.store_timestamp))
    assert str(reply.record.born_address) == header.born_host


@asynccontextmanager
async def dialed(port: int) -> AsyncIterator[Connection]:
    peers = Peers(Router(None, ()), FakeClock())
    yield await peers.connect(f"127.0.0.1:{port}")
    await peers.close()
