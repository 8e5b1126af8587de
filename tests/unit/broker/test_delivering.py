"""Messages that waited get to where they belong, when they are due and not before."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.broker.broker import Broker
from roquet.broker.delivering import redeliver
from roquet.broker.outgoing import Outgoing
from roquet.broker.postponing import put_when_due
from roquet.broker.turn import Turn
from roquet.protocol.properties import properties_text
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.drafts import BORN_HOST, STORE_HOST
from tests.support.fake_clock import START_MS
from tests.support.stores import bodies, small_config

LEVEL_MS = (1_000, 5_000, 10_000)


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(
        tmp_path, store=small_config(tmp_path, delay_levels_ms=LEVEL_MS)
    ) as started:
        yield started


def delayed(body: bytes = b"late", level: int = 1, **members: object) -> Outgoing:
    values: dict[str, object] = {
        "topic": "TopicA",
        "queue_id": 0,
        "body": body,
        "properties": properties_text({"DELAY": str(level)}),
        "born_timestamp": START_MS - 5,
        "born_host": BORN_HOST,
        "store_host": STORE_HOST,
    }
    return Outgoing(**(values | members))  # type: ignore[arg-type]


def deliver(broker: Broker) -> None:
    """All that is due now."""
    due_ms = broker.delays.next_due_ms
    while due_ms is not None and due_ms <= broker.clock.now_ms():
        broker.delays.deliver(Turn(lambda record: redeliver(broker, record)))
        due_ms = broker.delays.next_due_ms


async def test_a_message_is_delivered_when_its_time_has_come_and_not_before(
    bed: BrokerBed,
) -> None:
    put_when_due(bed.broker, delayed())
    bed.clock.advance(0.999)
    deliver(bed.broker)
    assert bodies(bed.broker.store) == []
    bed.clock.advance(0.001)
    deliver(bed.broker)
    assert bodies(bed.broker.store) == [b"late"]
