"""What a broker does by itself."""

from pathlib import Path

import pytest

from roquet.broker.broker import Broker
from roquet.broker.handlers.cleaning import clean_store
from roquet.broker.registration import Registered
from roquet.broker.upkeep import _scrub, learn, start_upkeep
from roquet.protocol.bodies.topic_config import TopicConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.eventually import eventually


def fill_log(bed: BrokerBed, file_count: int) -> None:
    """Small stores have files of 4 KiB."""
    while len(list((bed.broker.config.store.root / "commitlog").iterdir())) < file_count:
        bed.put(bytes(500))


async def test_old_files_go_when_an_operator_asks_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with broker_bed(tmp_path) as bed:
        fill_log(bed, 4)
        bed.clock.advance(73 * 3600)
        reply = await bed.connect().ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert reply.code == ResponseCode.SUCCESS
        assert bed.broker.store.log_start > 0
        assert "files of the log" in caplog.text


async def test_the_age_of_files_is_what_the_operator_last_said(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        client = bed.connect()
        fill_log(bed, 4)
        bed.clock.advance(25 * 3600)
        await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert bed.broker.store.log_start == 0
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=24\n")
        await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert bed.broker.store.log_start > 0


async def test_young_files_stay(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        fill_log(bed, 4)
        clean_store(bed.broker, is_requested=True)
        assert bed.broker.store.log_start == 0


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
        learn(bed.broker, [Registered(frozenset({"orders"}), None, None)])
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
        bed.broker.topic_saver.save_soon()
        file = tmp_path / "config" / "topics.json"
        await eventually(lambda: file.exists() and b'"orders"' in file.read_bytes())
