"""Clients on a network that fails: cut, refused, slow, deaf in one direction.

What was acknowledged is there, at least once; and clients go on by themselves when they can.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from roquet import AsyncProducer, Message
from roquet.client.errors import SendError
from roquet.client.group.start_offset import StartFrom
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.received import ReceivedMessage
from roquet.testing import Cluster
from tests.support.eventually import eventually
from tests.support.inner_parts import broker_of
from tests.support.stores import bodies
from tests.support.tcp_proxy import PROXY_HOST, Direction, TcpProxy

pytestmark = pytest.mark.xdist_group("chaos")

BROKER = "broker-a"
QUEUE_COUNT = 4
SENDERS = 8
ROUNDS = 3
# So many messages have to pass before and after a fault.
ENOUGH = 20
SEND_TIMEOUT_S = 0.3


@dataclass
class Net:
    """A cluster whose broker is reached through the proxy only."""

    cluster: Cluster
    proxy: TcpProxy
    topic: str

    def stored(self) -> dict[int, list[bytes]]:
        """Bodies by queue."""
        store = broker_of(self.cluster, BROKER).store
        return {queue: bodies(store, self.topic, queue) for queue in range(QUEUE_COUNT)}


@pytest.fixture
async def net() -> AsyncIterator[Net]:
    async with (
        Cluster(settings={"brokerIP1": PROXY_HOST}) as cluster,
        TcpProxy(PROXY_HOST, cluster.broker_address()) as proxy,
    ):
        yield Net(cluster, proxy, await cluster.new_topic(queues=QUEUE_COUNT))


@dataclass
class Ledger:
    attempted: set[bytes] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)
    failures: list[SendError] = field(default_factory=list)

    async def until_more_pass(self) -> None:
        enough = len(self.acknowledged) + ENOUGH
        await eventually(lambda: len(self.acknowledged) >= enough, patience_s=20)

    async def until_more_fail(self) -> None:
        enough = len(self.failures) + 1
        await eventually(lambda: len(self.failures) >= enough, patience_s=20)


@asynccontextmanager
async def sending(net: Net) -> AsyncIterator[Ledger]:
    """Some senders that never stop while the block runs."""
    ledger = Ledger()
    async with AsyncProducer(net.cluster.name_server, "shop") as producer:
        tasks = [
            asyncio.create_task(keep_sending(producer, net.topic, number, ledger))
            for number in range(SENDERS)
        ]
        try:
            yield ledger
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), outcomes


async def keep_sending(producer: AsyncProducer, topic: str, sender: int, ledger: Ledger) -> None:
    number = 0
    while True:
        body = b"%d-%d" % (sender, number)
        number += 1
        ledger.attempted.add(body)
        try:
            await producer.send(Message(topic, body), timeout_s=SEND_TIMEOUT_S)
        except SendError as error:
            ledger.failures.append(error)
        else:
            ledger.acknowledged.add(body)


async def cut(net: Net, _ledger: Ledger) -> None:
    net.proxy.cut()


async def refuse(net: Net, ledger: Ledger) -> None:
    net.proxy.refuse()
    net.proxy.cut()
    await ledger.until_more_fail()
    await net.proxy.accept()


async def delay(net: Net, ledger: Ledger) -> None:
    net.proxy.delay_s = 0.05
    await ledger.until_more_pass()
    net.proxy.resume()


async def delay_for_too_long(net: Net, ledger: Ledger) -> None:
    net.proxy.delay_s = 2 * SEND_TIMEOUT_S
    await ledger.until_more_fail()
    net.proxy.resume()


async def silence(direction: Direction, net: Net, ledger: Ledger) -> None:
    net.proxy.silence(direction)
    await ledger.until_more_fail()
    net.proxy.resume()


async def silence_and_cut(direction: Direction, net: Net, ledger: Ledger) -> None:
    net.proxy.silence(direction)
    await ledger.until_more_fail()
    net.proxy.cut()
    net.proxy.resume()


async def restart_broker(net: Net, _ledger: Ledger) -> None:
    await net.cluster.restart_broker()


async def lose_name_server(net: Net, ledger: Ledger) -> None:
    await net.cluster.stop_name_server()
    net.proxy.cut()
    await ledger.until_more_pass()
    await net.cluster.start_name_server()


FAULTS: dict[str, Callable[[Net, Ledger], Awaitable[None]]] = {
    "connections are cut": cut,
    "connections are refused": refuse,
    "the network is slow": delay,
    "the network is too slow": delay_for_too_long,
    "the broker hears nothing": partial(silence, Direction.TO_SERVER),
    "the client hears nothing": partial(silence, Direction.TO_CLIENT),
    "the broker hears nothing, then the cut": partial(silence_and_cut, Direction.TO_SERVER),
    "the client hears nothing, then the cut": partial(silence_and_cut, Direction.TO_CLIENT),
    "the broker is restarted": restart_broker,
    "the name server is gone": lose_name_server,
}


any_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


@any_fault
async def test_what_was_acknowledged_to_a_producer_is_stored(
    net: Net, fault: Callable[[Net, Ledger], Awaitable[None]]
) -> None:
    async with sending(net) as ledger:
        for _ in range(ROUNDS):
            await ledger.until_more_pass()
            await fault(net, ledger)
            # By itself: nothing was opened again.
            await ledger.until_more_pass()
    assert net.proxy.connection_count  # Nobody went around it.
    stored = {body for queue in net.stored().values() for body in queue}
    assert ledger.acknowledged <= stored
    assert stored <= ledger.attempted


@dataclass
class Received:
    """Bodies by offset and queue, in the order of their first delivery."""

    queues: dict[int, dict[int, bytes]] = field(
        default_factory=lambda: {queue: {} for queue in range(QUEUE_COUNT)}
    )

    async def note(self, message: ReceivedMessage) -> None:
        self.queues[message.queue.queue_id].setdefault(message.queue_offset, message.body)

    @property
    def count(self) -> int:
        return sum(map(len, self.queues.values()))

    @property
    def by_offset(self) -> dict[int, list[bytes]]:
        return {
            queue: [found[offset] for offset in sorted(found)]
            for queue, found in self.queues.items()
        }

    @property
    def is_in_order(self) -> bool:
        return all(list(found) == sorted(found) for found in self.queues.values())

    async def until_more_come(self) -> None:
        enough = self.count + ENOUGH
        await eventually(lambda: self.count >= enough, patience_s=20)


@asynccontextmanager
async def receiving(net: Net, *, orderly: bool) -> AsyncIterator[Received]:
    """A consumer of everything, while the block runs."""
    received = Received()
    consumer = AsyncPushConsumer(
        net.cluster.name_server,
        "billing",
        received.note,
        start_from=StartFrom.FIRST,
        orderly=orderly,
        # So that it looks again soon after it was hurt.
        error_pause_s=0.05,
        balance_interval_s=0.2,
    )
    consumer.subscribe(net.topic)
    async with consumer:
        yield received


@any_fault
@pytest.mark.parametrize("orderly", [False, True], ids=["in any order", "in order"])
async def test_a_consumer_continues_by_itself_and_misses_nothing(
    net: Net, fault: Callable[[Net, Ledger], Awaitable[None]], orderly: bool
) -> None:
    async with receiving(net, orderly=orderly) as received:
        async with sending(net) as ledger:
            for _ in range(ROUNDS):
                await ledger.until_more_pass()
                await fault(net, ledger)
                await ledger.until_more_pass()
                await received.until_more_come()
        await eventually(lambda: received.by_offset == net.stored(), patience_s=20)
    assert received.is_in_order or not orderly
