"""Clusters for clients: a live one of ours, and scripted ones."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet import AsyncProducer
from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.scripted_cluster import ScriptedCluster, scripted_cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LiveCluster]:
    """With one broker, "broker-a"."""
    async with live_cluster(tmp_path) as cluster:
        await cluster.start_broker("broker-a")
        yield cluster


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedCluster]:
    """With the brokers "a" and "b" of two queues each."""
    async with scripted_cluster("a", "b") as cluster:
        yield cluster


@pytest.fixture
async def producer(cluster: LiveCluster) -> AsyncIterator[AsyncProducer]:
    """Of the live cluster."""
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        yield producer
