"""What brokers and operators ask a push consumer."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from roquet import AsyncProducer, Message
from roquet.client.group.start_offset import StartFrom
from roquet.client.push.consumer import AsyncPushConsumer, Listener
from roquet.client.push.outcome import RetryLater
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.offset_table import ConsumerStatus, ResetOffset, ResetOffsetList
from roquet.protocol.bodies.running_info import ConsumerRunningInfo, DirectConsumeResult
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of
from roquet.protocol.headers.clients import ConsumeDirectlyHeader, RunningInfoHeader
from roquet.protocol.headers.offsets import ConsumerStatusHeader, ResetOffsetHeader
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster

TOPIC = "orders"
GROUP = "billing"
COUNT = 6


class Inbox:
    def __init__(self, error: Exception | None = None) -> None:
        self.messages: list[ReceivedMessage] = []
        self.error = error

    async def __call__(self, message: ReceivedMessage) -> None:
        self.messages.append(message)
        if self.error is not None:
            raise self.error


class Operator:
    """Asks the broker, which asks the consumer."""

    def __init__(self, cluster: LiveCluster, peers: Peers) -> None:
        self._broker = cluster.brokers["broker-a"]
        self._address = f"127.0.0.1:{self._broker.config.listen_port}"
        self._peers = peers

    @property
    def client_id(self) -> str:
        group = self._broker.consumers.find(GROUP)
        assert group is not None
        (client,) = group.members.values()
        return client.client_id

    async def ask(self, code: RequestCode, header: Header) -> Command:
        return await self._peers.call(self._address, Command(code, fields=fields_of(header)), 10.0)

    async def ask_consumer(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        """Without what the broker would make of it."""
        group = self._broker.consumers.find(GROUP)
        assert group is not None
        (connection,) = group.members
        return await connection.call(Command(code, fields=fields_of(header), body=body), 10.0)


@pytest.fixture
async def operator(cluster: LiveCluster) -> AsyncIterator[Operator]:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        for number in range(COUNT):
            await producer.send(Message(TOPIC, b"%d" % number))
    peers = Peers(Router(None, ()), SystemClock())
    yield Operator(cluster, peers)
    await peers.close()


def consumer(cluster: LiveCluster, listener: Listener | None, **options: Any) -> AsyncPushConsumer:
    made = AsyncPushConsumer(
        cluster.name_server, GROUP, listener, start_from=StartFrom.FIRST, **options
    )
    made.subscribe(TOPIC)
    return made


async def test_it_says_how_far_it_is(cluster: LiveCluster, operator: Operator) -> None:
    inbox = Inbox()
    async with consumer(cluster, inbox):
        await eventually(lambda: len(inbox.messages) == COUNT)
        reply = await operator.ask(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            ConsumerStatusHeader(topic=TOPIC, group=GROUP),
        )
        table = read_body(ConsumerStatus, reply.body).consumer_table[operator.client_id]
    assert sum(table.values()) == COUNT
    assert {queue.topic for queue in table} == {TOPIC}


@pytest.mark.parametrize("has_stacks", [True, False])
async def test_it_says_where_its_threads_are_if_asked(
    cluster: LiveCluster, operator: Operator, has_stacks: bool
) -> None:
    async with consumer(cluster, Inbox()) as reading:
        reading.pause()
        header = RunningInfoHeader(
            consumer_group=GROUP, client_id=operator.client_id, jstack_enable=has_stacks
        )
        reply = await operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        info = read_body(ConsumerRunningInfo, reply.body)
    assert ("MainThread" in (info.jstack or "")) is has_stacks
    assert info.properties["pause"] == "true"


@pytest.mark.parametrize(
    ("error", "result"),
    [(None, "CR_SUCCESS"), (RetryLater(), "CR_LATER"), (ValueError("oh"), "CR_THROW_EXCEPTION")],
    ids=repr,
)
async def test_it_consumes_a_message_out_of_turn(
    cluster: LiveCluster, operator: Operator, error: Exception | None, result: str
) -> None:
    inbox = Inbox()
    async with consumer(cluster, inbox):
        await eventually(lambda: len(inbox.messages) == COUNT)
        inbox.error = error
        header = ConsumeDirectlyHeader(
            consumer_group=GROUP,
            client_id=operator.client_id,
            msg_id=inbox.messages[0].offset_id,
        )
        reply = await operator.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        answer = read_body(DirectConsumeResult, reply.body)
    assert inbox.messages[-1].message_id == inbox.messages[0].message_id
    assert answer.consume_result == result
    assert ("oh" in (answer.remark or "")) is isinstance(error, ValueError)
    assert not cluster.all_stored(f"%RETRY%{GROUP}")


async def test_a_batch_listener_gets_it_as_a_batch(
    cluster: LiveCluster, operator: Operator
) -> None:
    batches: list[list[bytes]] = []

    async def listen(messages: list[ReceivedMessage]) -> None:
        batches.append([message.body for message in messages])

    (stored, *_) = cluster.all_stored(TOPIC)
    async with consumer(cluster, listen, batch_size=4):
        await eventually(lambda: sum(map(len, batches)) == COUNT)
        header = ConsumeDirectlyHeader(
            consumer_group=GROUP, client_id=operator.client_id, msg_id=stored.offset_id
        )
        await operator.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    assert batches[-1] == [stored.body]


async def test_without_a_listener_nothing_is_consumed_out_of_turn(
    cluster: LiveCluster, operator: Operator
) -> None:
    (stored, *_) = cluster.all_stored(TOPIC)
    async with consumer(cluster, None):
        header = ConsumeDirectlyHeader(
            consumer_group=GROUP, client_id=operator.client_id, msg_id=stored.offset_id
        )
        reply = await operator.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "no listener" in (reply.remark or "")


async def test_offsets_are_reset_in_either_form(cluster: LiveCluster, operator: Operator) -> None:
    inbox = Inbox()
    async with consumer(cluster, inbox) as reading:
        await eventually(lambda: len(inbox.messages) == COUNT)
        resets = [
            ResetOffset(broker_name="broker-a", offset=0, queue_id=queue.queue_id, topic=TOPIC)
            for queue in reading.queues()
        ]
        header = ResetOffsetHeader(topic=TOPIC, group=GROUP, timestamp=0, is_force=True)
        body = write_body(ResetOffsetList(offset_table=resets))
        await operator.ask_consumer(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        await eventually(lambda: len(inbox.messages) == 2 * COUNT)


async def test_who_asks_for_another_group_is_told(cluster: LiveCluster, operator: Operator) -> None:
    async with consumer(cluster, Inbox()):
        header = RunningInfoHeader(consumer_group="another", client_id="x")
        reply = await operator.ask_consumer(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "another" in (reply.remark or "")
