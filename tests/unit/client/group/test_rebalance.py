"""How a member looks for its share, again and again."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from roquet import AsyncProducer, Message, QueueRef
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.links import LinkSettings, Participant
from roquet.client.group import rebalance
from roquet.client.group.allocation import Allocation, average
from roquet.client.group.readiness import Readiness
from roquet.client.group.rebalance import Rebalance, share_of
from roquet.clock import SystemClock
from roquet.net.address_server import read_source
from roquet.protocol.bodies.clients import ConsumerData, Heartbeat
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster

TOPIC = "orders"
GROUP = "billing"


@pytest.fixture
async def instance(cluster: LiveCluster) -> AsyncIterator[ClientInstance]:
    """Its brokers know it as a member of the group when they get."""
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        await producer.send(Message(TOPIC, b"x"))

    def heartbeat(client_id: str) -> Heartbeat:
        return Heartbeat(client_id=client_id, consumer_data_set=[ConsumerData(group_name=GROUP)])

    settings = LinkSettings(read_source(cluster.name_server))
    instance = ClientInstance(Participant("member", heartbeat), settings, SystemClock())
    await instance.open()
    yield instance
    await instance.close()


class Member:
    """A queue owner that records its shares, and returns the answers; the last answer stays."""

    def __init__(
        self, instance: ClientInstance, *answers: bool, allocation: Allocation | None = average
    ) -> None:
        self.shares: list[tuple[Sequence[QueueRef], Sequence[QueueRef]]] = []
        self.unknown_count = 0
        self._answers = list(answers)
        self.rebalance = Rebalance(
            Brokers(instance.requests, instance.routes),
            instance.routes,
            (GROUP, instance.id),
            allocation,
            Readiness("the test", lambda: 0.0),
            on_unknown=self._on_unknown,
        )

    def topics(self) -> list[str]:
        return [TOPIC]

    async def registered(self) -> None: ...

    async def until_started(self) -> None: ...

    async def save(self) -> None: ...

    async def share(
        self, _topic: str, queues: Sequence[QueueRef], share: Sequence[QueueRef]
    ) -> bool:
        self.shares.append((queues, share))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def _on_unknown(self) -> None:
        self.unknown_count += 1


async def test_a_member_alone_reads_everything(instance: ClientInstance) -> None:
    await instance.routes.existing(TOPIC)
    await instance.heartbeats.beat()
    member = Member(instance, True)
    assert await member.rebalance.balance(member)
    ((queues, share),) = member.shares
    assert share == queues == [QueueRef(TOPIC, "broker-a", number) for number in range(4)]
    assert member.rebalance.has_started.is_set()


async def test_a_member_that_brokers_do_not_know_registers_and_keeps_its_queues(
    instance: ClientInstance,
) -> None:
    member = Member(instance, True)
    assert not await member.rebalance.balance(member)
    assert member.unknown_count == 1
    assert not member.shares


async def test_broadcasting_sends_no_request(instance: ClientInstance) -> None:
    member = Member(instance, True, allocation=None)
    assert await member.rebalance.balance(member)
    ((queues, share),) = member.shares
    assert share == queues
    assert not member.unknown_count


async def test_what_could_not_be_taken_is_tried_again_soon(
    instance: ClientInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance, "_RETRY_S", 0.01)
    member = Member(instance, False, False, True, allocation=None)
    balancing = asyncio.create_task(member.rebalance.keep_balanced(member, period_s=60.0))
    await eventually(lambda: len(member.shares) == 3)
    member.rebalance.wake()
    await eventually(lambda: len(member.shares) == 4)
    balancing.cancel()


async def test_shares_are_looked_for_after_each_period(instance: ClientInstance) -> None:
    member = Member(instance, True, allocation=None)
    balancing = asyncio.create_task(member.rebalance.keep_balanced(member, period_s=0.01))
    await eventually(lambda: len(member.shares) == 3)
    balancing.cancel()


async def test_a_topic_that_is_unknown_changes_nothing(
    cluster: LiveCluster, instance: ClientInstance
) -> None:
    await cluster.stop_names()
    member = Member(instance, True, allocation=None)
    assert not await member.rebalance.balance(member)
    assert not member.shares
    await cluster.start_names()


def test_a_client_that_is_no_member_has_no_share() -> None:
    queues = [QueueRef(TOPIC, "a", 0)]
    assert share_of(average, "me", queues, ["you"]) == ()
    assert share_of(average, "me", [], ["me"]) == ()
    assert share_of(average, "me", queues, ["me", "you"]) == queues
