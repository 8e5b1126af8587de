"""What brokers and operators ask members of a group, whatever kind they are."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import pytest

from roquet import AsyncProducer, Message
from roquet.client.group.start_offset import StartFrom
from roquet.client.pull.consumer import AsyncPullConsumer
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.listeners import Listener
from roquet.client.push.outcome import RetryLater
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.protocol.bodies.body import MessageQueue, QueueTable, read_body, write_body
from roquet.protocol.bodies.clients import (
    ConsumerRunningInfo,
    ConsumeType,
    DirectConsumeResult,
)
from roquet.protocol.bodies.offsets import (
    ConsumerStatus,
    ResetOffset,
    ResetOffsetList,
    ResetOffsets,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of
from roquet.protocol.headers.groups import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    ResetOffsetHeader,
    RunningInfoHeader,
)
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
        group = self._broker.clients.consumers.find(GROUP)
        assert group is not None
        (client,) = group.members.values()
        return client.client_id

    async def ask(self, code: RequestCode, header: Header) -> Command:
        return await self._peers.call(self._address, Command(code, fields=fields_of(header)), 10.0)

    async def ask_consumer(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        """Without what the broker would make of it."""
        group = self._broker.clients.consumers.find(GROUP)
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


@asynccontextmanager
async def pushed(cluster: LiveCluster) -> AsyncIterator[list[bytes]]:
    inbox: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        inbox.append(message.body)

    async with consumer(cluster, listen):
        await eventually(lambda: len(inbox) == COUNT)
        yield inbox


@asynccontextmanager
async def polled(cluster: LiveCluster) -> AsyncIterator[list[bytes]]:
    inbox: list[bytes] = []
    reading = AsyncPullConsumer(cluster.name_server, GROUP, start_from=StartFrom.FIRST)
    reading.subscribe(TOPIC)

    async def poll() -> None:
        while True:
            inbox.extend(message.body for message in await reading.poll())

    async with reading:
        polling = asyncio.create_task(poll())
        try:
            await eventually(lambda: len(inbox) == COUNT)
            yield inbox
        finally:
            polling.cancel()


class Kind(NamedTuple):
    """A member of the group that has read everything once, and where it puts what it reads."""

    consume_type: ConsumeType
    reading: Callable[[LiveCluster], AbstractAsyncContextManager[list[bytes]]]


@pytest.fixture(params=["push", "pull"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "push":
        return Kind(ConsumeType.PUSH, pushed)
    return Kind(ConsumeType.PULL, polled)


async def test_it_says_how_far_it_is(kind: Kind, cluster: LiveCluster, operator: Operator) -> None:
    async with kind.reading(cluster):
        reply = await operator.ask(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            ConsumerStatusHeader(topic=TOPIC, group=GROUP),
        )
        table = read_body(ConsumerStatus, reply.body).consumer_table[operator.client_id]
    assert sum(table.values()) == COUNT
    assert {queue.topic for queue in table} == {TOPIC}


async def test_it_identifies_itself_in_words_that_tools_know(
    kind: Kind, cluster: LiveCluster, operator: Operator
) -> None:
    async with kind.reading(cluster):
        header = RunningInfoHeader(consumer_group=GROUP, client_id=operator.client_id)
        reply = await operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        info = read_body(ConsumerRunningInfo, reply.body)
    properties = info.properties
    assert properties["PROP_CONSUME_TYPE"] == kind.consume_type
    assert properties["PROP_CLIENT_VERSION"] == "V4_9_8"
    assert properties["PROP_NAMESERVER_ADDR"] == f"{cluster.name_server};"
    assert int(properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
    assert sum(each.commit_offset for each in info.mq_table.values()) == COUNT


@pytest.mark.parametrize("has_stacks", [True, False])
async def test_it_says_where_its_threads_are_if_asked(
    kind: Kind, cluster: LiveCluster, operator: Operator, has_stacks: bool
) -> None:
    async with kind.reading(cluster):
        header = RunningInfoHeader(
            consumer_group=GROUP, client_id=operator.client_id, jstack_enable=has_stacks
        )
        reply = await operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        info = read_body(ConsumerRunningInfo, reply.body)
    assert ("MainThread" in (info.jstack or "")) is has_stacks


async def test_it_says_that_it_rests(cluster: LiveCluster, operator: Operator) -> None:
    async with consumer(cluster, Inbox()) as reading:
        reading.pause()
        header = RunningInfoHeader(consumer_group=GROUP, client_id=operator.client_id)
        reply = await operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    assert read_body(ConsumerRunningInfo, reply.body).properties["pause"] == "true"


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


async def test_a_pull_consumer_consumes_nothing_out_of_turn(
    cluster: LiveCluster, operator: Operator
) -> None:
    (stored, *_) = cluster.all_stored(TOPIC)
    async with polled(cluster):
        header = ConsumeDirectlyHeader(
            consumer_group=GROUP, client_id=operator.client_id, msg_id=stored.offset_id
        )
        reply = await operator.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "no listener" in (reply.remark or "")


def as_list(offsets: dict[int, int]) -> bytes:
    """As brokers tell clients in C++."""
    resets = [
        ResetOffset(broker_name="broker-a", offset=offset, queue_id=queue_id, topic=TOPIC)
        for queue_id, offset in offsets.items()
    ]
    return write_body(ResetOffsetList(offset_table=resets))


def as_table(offsets: dict[int, int]) -> bytes:
    table = {
        MessageQueue(topic=TOPIC, broker_name="broker-a", queue_id=queue_id): offset
        for queue_id, offset in offsets.items()
    }
    return write_body(ResetOffsets(offset_table=QueueTable(table)))


@pytest.mark.parametrize("form", [as_list, as_table])
async def test_offsets_are_reset_in_either_form(
    kind: Kind, cluster: LiveCluster, operator: Operator, form: Callable[[dict[int, int]], bytes]
) -> None:
    async with kind.reading(cluster) as inbox:
        header = ResetOffsetHeader(topic=TOPIC, group=GROUP, timestamp=0, is_force=True)
        # The last one is not read here.
        body = form(dict.fromkeys([*range(4), 99], 0))
        reply = await operator.ask_consumer(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        assert reply.code == ResponseCode.SUCCESS
        await eventually(lambda: len(inbox) == 2 * COUNT)
    assert Counter(inbox) == Counter({b"%d" % number: 2 for number in range(COUNT)})


async def test_a_reset_is_kept_at_once_whichever_member_commits(
    cluster: LiveCluster, operator: Operator
) -> None:
    offsets = cluster.brokers["broker-a"].tables.offsets
    reading = AsyncPullConsumer(
        cluster.name_server,
        GROUP,
        start_from=StartFrom.FIRST,
        auto_commit=False,
        commit_interval_s=3600,
    )
    reading.subscribe(TOPIC)
    async with reading:
        count = 0
        while count < COUNT:
            count += len(await reading.poll())
        await reading.commit()
        header = ResetOffsetHeader(topic=TOPIC, group=GROUP, timestamp=0, is_force=True)
        body = as_table(dict.fromkeys(range(4), 0))
        await operator.ask_consumer(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        await eventually(
            lambda: {offsets.find(GROUP, TOPIC, queue_id) for queue_id in range(4)} == {0}
        )


async def test_a_client_that_asks_for_another_group_gets_an_error(
    kind: Kind, cluster: LiveCluster, operator: Operator
) -> None:
    async with kind.reading(cluster):
        header = RunningInfoHeader(consumer_group="another", client_id="x")
        reply = await operator.ask_consumer(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "another" in (reply.remark or "")
