"""Messages followed through every state, at live brokers whose clock can be put forward."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.deliveries import DeliveryState, GroupDelivery
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.producer import AsyncProducer
from roquet.client.pull.consumer import AsyncPullConsumer
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.listeners import OneListener
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message
from roquet.testing.cluster import Cluster

TOPIC = "orders"
GROUP = "billing"
QUEUE = QueueRef(TOPIC, "broker-a", 0)
STATE = DeliveryState
# The first retry waits so long, and the clocks of broker and test are not quite the same.
FIRST_DELAY = timedelta(seconds=10)
TOLERANCE = timedelta(seconds=9)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(brokers=2) as cluster:
        await cluster.new_topic(TOPIC, queues=1)
        yield cluster


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(cluster.name_server) as admin:
        yield admin


async def sent(cluster: Cluster, admin: AsyncAdmin, tags: str = "new") -> ReceivedMessage:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        receipt = await producer.send(Message(TOPIC, b"1", tags, ("k",)), queue=QUEUE)
    return await admin.message(TOPIC, receipt.message_id)


async def delivery(admin: AsyncAdmin, message: ReceivedMessage) -> GroupDelivery:
    (found,) = (await admin.deliveries(message)).groups
    return found


async def until(
    admin: AsyncAdmin,
    message: ReceivedMessage,
    state: DeliveryState,
    retry: int | None = None,
    note: str | None = None,
) -> GroupDelivery:
    """The state comes about by what brokers and consumers do; a test that waits in vain fails."""
    async with asyncio.timeout(60):
        while True:
            groups = (await admin.deliveries(message)).groups
            if [(each.state, each.retry) for each in groups] == [(state, retry)] and (
                note in (None, groups[0].note)
            ):
                return groups[0]
            await asyncio.sleep(0.02)


async def accepting(_message: ReceivedMessage) -> None:
    """A listener that is done with everything."""


async def failing(_message: ReceivedMessage) -> None:
    raise ValueError("no such customer")


@asynccontextmanager
async def reading(
    cluster: Cluster, listener: OneListener, tags: str | None = None
) -> AsyncIterator[None]:
    consumer = AsyncPushConsumer(
        cluster.name_server, GROUP, listener, start_from=StartFrom.FIRST, retry_count_max=1
    )
    consumer.subscribe(TOPIC, tags=tags)
    async with consumer:
        yield


async def test_a_message_that_is_not_read_has_no_groups(
    cluster: Cluster, admin: AsyncAdmin
) -> None:
    assert (await admin.deliveries(await sent(cluster, admin))).groups == ()


async def test_offsets_show_what_waits_and_what_is_consumed(
    cluster: Cluster, admin: AsyncAdmin
) -> None:
    first, second = await sent(cluster, admin), await sent(cluster, admin)
    plan = await admin.plan_reset(GROUP, TOPIC, {QUEUE: 1})
    await admin.apply_reset(plan)
    assert (await delivery(admin, first)).state is STATE.CONSUMED
    assert (await delivery(admin, second)).state is STATE.WAITING


async def test_a_subscription_that_excludes_a_message_is_reported(
    cluster: Cluster, admin: AsyncAdmin
) -> None:
    message = await sent(cluster, admin, "old")
    async with reading(cluster, accepting, "new"):
        await until(admin, message, STATE.FILTERED)


async def test_a_failed_message_waits_for_its_retry_and_becomes_a_dead_letter(
    cluster: Cluster, admin: AsyncAdmin
) -> None:
    message = await sent(cluster, admin)
    async with reading(cluster, failing):
        waits = await until(admin, message, STATE.WAITS_FOR_RETRY, retry=1)
    assert waits.until is not None
    assert abs(waits.until - message.stored - FIRST_DELAY) < TOLERANCE
    # Due, and no member to take it.
    cluster.clock.advance(FIRST_DELAY)
    await until(admin, message, STATE.WAITS_FOR_RETRY, retry=1, note="ready to be delivered")
    async with reading(cluster, failing):
        await until(admin, message, STATE.DEAD_LETTER, retry=1)


async def test_a_message_that_a_retry_consumed_is_consumed(
    cluster: Cluster, admin: AsyncAdmin
) -> None:
    message = await sent(cluster, admin)
    async with reading(cluster, failing):
        await until(admin, message, STATE.WAITS_FOR_RETRY, retry=1)
    cluster.clock.advance(FIRST_DELAY)
    async with reading(cluster, accepting):
        await until(admin, message, STATE.CONSUMED, retry=1)


async def test_a_group_that_never_committed_is_asked_where_it_starts(
    cluster: Cluster, admin: AsyncAdmin
) -> None:
    message = await sent(cluster, admin)
    consumer = AsyncPullConsumer(
        cluster.name_server, GROUP, start_from=StartFrom.FIRST, auto_commit=False
    )
    consumer.subscribe(TOPIC)
    async with consumer:
        await consumer.poll(timeout_s=30)
        assert (await delivery(admin, message)).state is STATE.WAITING
