"""A broker with the topic "TopicA" of two queues, and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.protocol.bodies.topics import TopicConfig
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        topic = TopicConfig(topic_name="TopicA", read_queue_nums=2, write_queue_nums=2)
        bed.broker.tables.topics.update(topic)
        bed.clear_pending()
        yield bed


@pytest.fixture
async def client(bed: BrokerBed) -> BedClient:
    return bed.connect()
