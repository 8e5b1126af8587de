"""Where messages wait that are not due yet, and which are refused."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.broker.delays import postponing
from roquet.broker.delays.postponing import TIMER_DELAY_MS_MAX, append_when_due, postponed
from roquet.broker.messages.appending import NewMessage
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.properties import parse_properties, properties_text
from roquet.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from roquet.store.config import FlushMode
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.drafts import BORN_HOST, STORE_HOST
from tests.support.fake_clock import START_MS
from tests.support.faulty_disk import FaultyDisk
from tests.support.late_disk import stop_disk, sync_disk, until_late
from tests.support.stores import bodies, small_config

REAL_PLACE = {"REAL_TOPIC": "TopicA", "REAL_QID": "7"}


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as started:
        yield started


def new_message(sys_flag: int = 0, /, **properties: str) -> NewMessage:
    return NewMessage(
        topic="TopicA",
        queue_id=7,
        body=b"later",
        properties=properties_text(properties),
        born_timestamp=START_MS - 5,
        born_host=BORN_HOST,
        store_host=STORE_HOST,
        sys_flag=sys_flag,
    )


def place_of(message: NewMessage | None) -> tuple[str, int]:
    assert message is not None
    return message.topic, message.queue_id


def properties_of(message: NewMessage | None) -> dict[str, str]:
    assert message is not None
    return parse_properties(message.properties)


async def test_a_level_is_a_queue(bed: BrokerBed) -> None:
    waiting = postponed(bed.broker, new_message(DELAY="5", WAIT="true"))
    assert place_of(waiting) == (SCHEDULE_TOPIC, 4)
    assert properties_of(waiting) == {"DELAY": "5", "WAIT": "true"} | REAL_PLACE


async def test_there_is_a_last_level(bed: BrokerBed) -> None:
    waiting = postponed(bed.broker, new_message(DELAY="99"))
    assert place_of(waiting) == (SCHEDULE_TOPIC, 17)
    assert properties_of(waiting)["DELAY"] == "18"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"DELAY": "0"},
        {"DELAY": "-3"},
        {"MYDELAY": "3"},
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_SEC": "-60"},
        {"TIMER_DELIVER_MS": str(START_MS)},
        # A timer that was delivered already, and now fails for the last time.
        {"TIMER_DELAY_SEC": "60", "TIMER_OUT_MS": "1"},
    ],
)
async def test_a_message_that_is_due_waits_nowhere(
    bed: BrokerBed, properties: dict[str, str]
) -> None:
    assert postponed(bed.broker, new_message(**properties)) is None
    append_when_due(bed.broker, new_message(**properties))
    assert bodies(bed.broker.store, "TopicA", 7) == [b"later"]


@pytest.mark.parametrize("flag", [SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK])
async def test_old_forms_of_transactions_wait_nowhere(bed: BrokerBed, flag: SysFlag) -> None:
    assert postponed(bed.broker, new_message(flag, DELAY="3")) is None
    assert postponed(bed.broker, new_message(SysFlag.TRANSACTION_COMMIT, DELAY="3")) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIMER_DELAY_SEC", "61"),
        ("TIMER_DELAY_MS", "61000"),
        ("TIMER_DELIVER_MS", str(START_MS + 61_000)),
    ],
)
async def test_a_timer_can_be_asked_for_in_three_ways(
    bed: BrokerBed, name: str, value: str
) -> None:
    waiting = postponed(bed.broker, new_message(**{name: value}))
    assert place_of(waiting) == (TIMER_TOPIC, 0)
    noted = {name: value, "TIMER_OUT_MS": str(START_MS + 60_000)}
    assert properties_of(waiting) == noted | REAL_PLACE


async def test_of_several_ways_the_first_counts(bed: BrokerBed) -> None:
    every_way = {"TIMER_DELIVER_MS": "1", "TIMER_DELAY_MS": "5000", "TIMER_DELAY_SEC": "61"}
    waiting = postponed(bed.broker, new_message(**every_way))
    assert properties_of(waiting)["TIMER_OUT_MS"] == str(START_MS + 60_000)
    by_level = postponed(bed.broker, new_message(**every_way, DELAY="2"))
    assert place_of(by_level) == (SCHEDULE_TOPIC, 1)
    assert not properties_of(by_level).keys() & every_way.keys()


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"DELAY": "soon"}, ResponseCode.SYSTEM_ERROR),
        ({"DELAY": "1_000"}, ResponseCode.SYSTEM_ERROR),
        ({"TIMER_DELAY_SEC": "soon"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"TIMER_DELAY_SEC": "9" * 19}, ResponseCode.MESSAGE_ILLEGAL),
        ({"TIMER_DELAY_SEC": "9" * 20}, ResponseCode.MESSAGE_ILLEGAL),
        ({"TIMER_DELAY_MS": str(TIMER_DELAY_MS_MAX + 1)}, ResponseCode.MESSAGE_ILLEGAL),
        (
            {"TIMER_DELIVER_MS": str(START_MS + TIMER_DELAY_MS_MAX + 1)},
            ResponseCode.MESSAGE_ILLEGAL,
        ),
    ],
)
async def test_what_cannot_be_is_refused_as_apache_refuses_it(
    bed: BrokerBed, properties: dict[str, str], code: ResponseCode
) -> None:
    with pytest.raises(Refused) as refused:
        append_when_due(bed.broker, new_message(**properties))
    assert refused.value.code == code
    assert bed.broker.store.log_end == 0


async def test_three_days_are_not_too_long(bed: BrokerBed) -> None:
    longest = new_message(TIMER_DELAY_MS=str(TIMER_DELAY_MS_MAX))
    assert place_of(postponed(bed.broker, longest)) == (TIMER_TOPIC, 0)


async def test_so_many_timers_wait_and_no_more(
    bed: BrokerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postponing, "TIMER_COUNT_MAX", 2)
    for _ in range(2):
        append_when_due(bed.broker, new_message(TIMER_DELAY_SEC="60"))
    with pytest.raises(Refused) as refused:
        append_when_due(bed.broker, new_message(TIMER_DELAY_SEC="60"))
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    append_when_due(bed.broker, new_message(DELAY="1"))


async def test_the_topic_of_timers_is_made_with_the_first_one(bed: BrokerBed) -> None:
    assert TIMER_TOPIC not in bed.broker.tables.topics
    append_when_due(bed.broker, new_message(TIMER_DELAY_SEC="60"))
    topic = bed.broker.tables.topics.find(TIMER_TOPIC)
    assert topic is not None
    assert topic.read_queue_nums == 1
    assert "topics.json" in bed.unsaved_files


@pytest.mark.parametrize("properties", [{"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}])
async def test_the_delivery_task_is_woken(bed: BrokerBed, properties: dict[str, str]) -> None:
    waiting = asyncio.create_task(bed.broker.waiting.delays.until_due())
    await asyncio.sleep(0)
    append_when_due(bed.broker, new_message(**properties))
    async with asyncio.timeout(30):
        await waiting


async def test_with_sync_flush_the_delivery_task_is_woken_when_the_message_can_be_read(
    tmp_path: Path,
) -> None:
    store = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=store, disk=FaultyDisk(tmp_path)) as bed:
        waiting = asyncio.create_task(bed.broker.waiting.delays.until_due())
        await asyncio.sleep(0)
        append_when_due(bed.broker, new_message(DELAY="1"))
        async with asyncio.timeout(30):
            await waiting
        assert bed.broker.waiting.delays.next_due_ms == START_MS + 1_000


@pytest.mark.slow
async def test_with_sync_flush_a_disk_that_is_late_wakes_late(tmp_path: Path) -> None:
    store = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=store) as bed:
        stop_disk(bed)
        waiting = asyncio.create_task(bed.broker.waiting.delays.until_due())
        await asyncio.sleep(0)
        append_when_due(bed.broker, new_message(DELAY="1"))
        await until_late(bed.broker.messages.acks, bed.clock, bed.connect())
        assert not waiting.done()
        sync_disk(bed)
        async with asyncio.timeout(30):
            await waiting
