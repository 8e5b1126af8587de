"""The queues that a member reads come and go."""

import logging

import pytest

from roquet import AsyncProducer
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import TOPIC, Inbox, consumer, new_topic, send


async def test_a_queue_whose_pull_is_stuck_is_restarted_and_counted(
    cluster: LiveCluster, producer: AsyncProducer, caplog: pytest.LogCaptureFixture
) -> None:
    await new_topic(cluster, 1)
    inbox = Inbox()
    # The broker is silent for as long as there is nothing to say.
    with caplog.at_level(logging.WARNING):
        async with consumer(cluster, inbox, stuck_pull_s=0.02, balance_interval_s=0.05) as reading:
            await eventually(lambda: reading.statistics().topics[TOPIC].stuck_count >= 2)
            await send(producer, b"x")
            await inbox.has(1)
    assert "got stuck; restarting the queue" in caplog.text


async def test_a_pull_that_waits_for_messages_is_not_stuck(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    inbox = Inbox()
    async with consumer(cluster, inbox, balance_interval_s=0.01) as reading:
        await send(producer, b"x")
        await inbox.has(1)
        assert reading.statistics().topics[TOPIC].stuck_count == 0
