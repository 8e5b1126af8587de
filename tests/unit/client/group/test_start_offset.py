"""Where a group begins that was never there, in topics that are young, old or not there yet."""

import pytest
from msgspec.structs import replace

from roquet import AsyncProducer, StartFrom
from roquet.client.queue_ref import QueueRef
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import (
    GROUP,
    TOPIC,
    Inbox,
    committed,
    consumer,
    new_topic,
    numbers,
    send,
)


async def test_last_leaves_out_what_a_young_topic_has_already(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(5))
    inbox = Inbox()
    async with consumer(cluster, inbox, start_from=StartFrom.LAST):
        await send(producer, b"new")
        await inbox.has(1)
    assert inbox.bodies == [b"new"]


async def test_auto_takes_everything_of_a_young_topic(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(5))
    inbox = Inbox()
    async with consumer(cluster, inbox, start_from=StartFrom.AUTO):
        await inbox.has(5)


async def test_auto_leaves_out_what_an_old_topic_has_already(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    store = cluster.brokers["broker-a"].config.store
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a", store=replace(store, memory_size=0))
    await new_topic(cluster, 1)
    await send(producer, *numbers(5))
    inbox = Inbox()
    async with consumer(cluster, inbox, start_from=StartFrom.AUTO):
        await send(producer, b"new")
        await inbox.has(1)
    assert inbox.bodies == [b"new"]


async def test_last_misses_nothing_of_a_topic_that_comes_later(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    inbox = Inbox()
    async with consumer(
        cluster, inbox, start_from=StartFrom.LAST, balance_interval_s=0.05, error_pause_s=0.01
    ) as reading:
        assert reading.queues() == []
        await send(producer, *numbers(3))
        await inbox.has(3)


async def test_a_group_that_dies_before_its_first_commit_goes_on_where_it_began(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await send(producer, *numbers(3))
    async with consumer(cluster, Inbox(), start_from=StartFrom.LAST, commit_interval_s=600):
        # Whatever happens to it now.
        await eventually(lambda: committed(cluster) == 3)
    assert cluster.brokers["broker-a"].offsets.find(GROUP, TOPIC, 0) == 3


async def test_what_was_never_committed_is_not_taken_for_0(
    cluster: LiveCluster, producer: AsyncProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(4))
    # A broker of ours that looks like a 4.9, which does not know how to say "never".
    monkeypatch.setattr("roquet.client.cluster.brokers.OUR_LANGUAGE", "ESPERANTO")
    cluster.brokers["broker-a"].offsets.commit(GROUP, TOPIC, 0, 0)
    async with consumer(cluster, Inbox(), start_from=StartFrom.LAST) as reading:
        brokers = reading._life.usable().membership.brokers
        assert await brokers.committed(GROUP, QueueRef(TOPIC, "broker-a", 0)) is not None
        assert await brokers.committed("other", QueueRef(TOPIC, "broker-a", 0)) is None
