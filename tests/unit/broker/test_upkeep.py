"""What a broker does by itself."""

from pathlib import Path

import pytest

from roquet.broker.broker import Broker
from roquet.broker.registration import Registered
from roquet.broker.upkeep import _scrub, learn, start_upkeep
from roquet.protocol.bodies.topic_config import TopicConfig
from tests.support.broker_bed import broker_bed
from tests.support.eventually import eventually


async def test_damage_that_nobody_reads_is_found_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_bed(tmp_path) as bed:
        place = bed.put(b"body that will decay")
        bed.put(b"next")
        path = next((tmp_path / "commitlog").iterdir())
        with path.open("r+b") as file:
            file.seek(place.physical_offset + 90)
            file.write(b"\xff")
        await _scrub(bed.broker)
        assert "damaged part of the log" in caplog.text


async def test_topics_that_an_operator_ordered_are_ordered_here(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        topics = bed.broker.topics
        topics.update(TopicConfig(topic_name="orders"))
        topics.update(TopicConfig(topic_name="bills", order=True))
        learn(bed.broker, [Registered(frozenset({"orders"}))])
        assert [_is_ordered(bed.broker, name) for name in ("orders", "bills")] == [True, False]
        learn(bed.broker, [])  # Nobody answered, so nothing is known.
        assert _is_ordered(bed.broker, "orders")


def _is_ordered(broker: Broker, name: str) -> bool:
    topic = broker.topics.find(name)
    assert topic is not None
    return topic.order


async def test_upkeep_saves_what_changed(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        start_upkeep(bed.broker)
        bed.broker.topics.update(TopicConfig(topic_name="orders"))
        file = tmp_path / "config" / "topics.json"
        await eventually(lambda: file.exists() and b'"orders"' in file.read_bytes())
