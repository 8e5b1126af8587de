"""A broker without background work, its endpoint at a real port, and a client."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.grpc.in_broker.server import serve_grpc
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.host import Address
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.grpc_client import GrpcTestClient, grpc_client

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        for kind in TYPES:
            bed.broker.tables.topics.update(
                TopicConfig(
                    topic_name=kind.lower(),
                    read_queue_nums=2,
                    write_queue_nums=2,
                    attributes={"+message.type": kind},
                )
            )
        yield bed


@pytest.fixture
async def port(bed: BrokerBed) -> AsyncIterator[int]:
    broker = bed.broker
    async with serve_grpc(Address("127.0.0.1", 0), broker, lambda: broker, bed.clock) as port:
        yield port


@pytest.fixture
async def client(port: int) -> AsyncIterator[GrpcTestClient]:
    async with grpc_client(port) as client:
        yield client
