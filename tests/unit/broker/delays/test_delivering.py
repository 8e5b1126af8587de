"""Messages that waited get to where they belong, when they are due and not before."""

import asyncio
import shutil
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.build import build_broker
from roquet.broker.delays.delivering import (
    deliver_delayed,
    deliver_slice,
    save_progress,
)
from roquet.broker.delays.due import BATCH_COUNT_MAX, SliceBudget, slice_length_s
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import SystemClock
from roquet.disk import Disk
from roquet.net.errors import Refused
from roquet.protocol.messages.properties import PROPERTIES_SIZE_MAX
from roquet.protocol.messages.record import peek_record, verify_record
from roquet.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from roquet.store.config import FlushMode
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.inner_parts import flusher_of
from tests.support.quick_disk import QuickDisk
from tests.support.stores import bodies, messages, small_config
from tests.support.waiting import put_delayed, put_timer

LEVELS_MS = (1_000, 5_000)


def levels_bed(
    directory: Path, *, disk: Disk | None = None, **store: Any
) -> AbstractAsyncContextManager[BrokerBed]:
    """`store` are members of StoreConfig."""
    config = small_config(directory, **{"delay_levels_ms": LEVELS_MS} | store)
    return broker_bed(directory, disk=disk, store=config)


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with levels_bed(tmp_path) as started:
        yield started


def deliver(broker: Broker) -> None:
    """All that is due now."""
    due_ms = broker.waiting.delays.next_due_ms
    while due_ms is not None and due_ms <= broker.clock.now_ms():
        deliver_slice(broker.messages, broker.waiting.delays, SliceBudget(broker.clock))
        due_ms = broker.waiting.delays.next_due_ms


@contextmanager
def running(broker: Broker) -> Iterator[None]:
    """The service at work."""
    task = asyncio.get_running_loop().create_task(
        deliver_delayed(broker.messages, broker.waiting.delays, broker.clock)
    )
    yield
    task.cancel()


async def sync(broker: Broker) -> None:
    flusher_of(broker.store).want()
    await eventually(lambda: broker.store.synced_end == broker.store.log_end)


async def test_a_delivered_message_is_the_same_in_another_place(bed: BrokerBed) -> None:
    put_delayed(bed.broker.store, b"late", TAGS="red", DELAY="1", REAL_QID="3")
    put_timer(bed.broker.store, START_MS + 1_000, b"timer", TAGS="red", REAL_QID="3")
    bed.clock.advance(1)
    deliver(bed.broker)
    found = messages(bed.broker.store, "TopicA", 3)
    assert {message.body for message in found} == {b"late", b"timer"}
    for message in found:
        assert message.properties["REAL_TOPIC"] == "TopicA"
        assert (message.tags, message.store_timestamp) == ("red", START_MS + 1_000)
    # The one record has a checksum of its own.
    for message in found:
        record = bed.broker.store.record_at(message.physical_offset)
        verify_record(record, peek_record(record))


async def test_messages_of_many_places_keep_their_order_in_each(bed: BrokerBed) -> None:
    for number in range(40):
        put_delayed(bed.broker.store, b"%02d" % number, REAL_QID=str(number % 3))
    bed.clock.advance(1)
    deliver(bed.broker)
    for queue_id in range(3):
        expected = [b"%02d" % number for number in range(queue_id, 40, 3)]
        assert bodies(bed.broker.store, "TopicA", queue_id) == expected


async def test_pulls_that_wait_are_woken_and_puts_are_counted(bed: BrokerBed) -> None:
    put_delayed(bed.broker.store)
    bed.clock.advance(1)
    deliver(bed.broker)
    stats = bed.broker.statistics.find("TOPIC_PUT_NUMS", "TopicA")
    assert stats is not None


@pytest.mark.parametrize(
    "properties",
    [
        {"REAL_TOPIC": HALF_TOPIC},
        {"REAL_TOPIC": SCHEDULE_TOPIC},
        {"REAL_TOPIC": "../.."},
        {"REAL_TOPIC": "Thémata"},
        {"REAL_TOPIC": "t" * 128},
        {"REAL_QID": "first"},
        {"REAL_QID": "99999999999"},
    ],
    ids=str,
)
async def test_a_message_without_a_topic_is_skipped_and_logged(
    bed: BrokerBed, caplog: pytest.LogCaptureFixture, properties: dict[str, str]
) -> None:
    put_delayed(bed.broker.store, b"1")
    put_delayed(bed.broker.store, b"stray", 1, **properties)
    put_delayed(bed.broker.store, b"2")
    bed.clock.advance(1)
    deliver(bed.broker)
    assert bodies(bed.broker.store) == [b"1", b"2"]
    assert caplog.text.count("not delivered") == 1


async def test_a_message_whose_properties_leave_no_space_is_delivered_without_a_checksum(
    tmp_path: Path,
) -> None:
    async with levels_bed(tmp_path, commit_log_file_size=1 << 20, write_checksums=False) as bed:
        broker = bed.broker
        place = {"DELAY": "1", "REAL_TOPIC": "TopicA", "REAL_QID": "0", "FILLER": ""}
        size = len("\x02".join(f"{name}\x01{value}" for name, value in place.items()))
        place["FILLER"] = "x" * (PROPERTIES_SIZE_MAX - size)
        bed.put(b"late", topic=SCHEDULE_TOPIC, properties=place, has_checksum=False)
        broker.config = replace(
            broker.config, store=replace(broker.config.store, write_checksums=True)
        )
        bed.clock.advance(1)
        deliver(broker)
        assert bodies(broker.store) == [b"late"]


async def test_messages_that_are_too_large_together_are_delivered_one_by_one(
    tmp_path: Path,
) -> None:
    async with levels_bed(tmp_path, body_size_max=1_000) as bed:
        for _ in range(5):
            put_delayed(bed.broker.store, bytes(900))
        bed.clock.advance(1)
        deliver(bed.broker)
        assert bodies(bed.broker.store) == [bytes(900)] * 5


async def test_on_a_full_disk_messages_wait_and_then_come(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    async with levels_bed(tmp_path, disk=disk) as bed:
        broker = bed.broker
        for number in range(30):
            put_delayed(broker.store, b"%02d" % number)
        bed.clock.advance(1)
        disk.is_full = True
        with pytest.raises(Refused):
            deliver(broker)
        disk.is_full = False
        bed.clock.advance(2)  # the store does not ask a full disk all the time
        deliver(broker)
        assert set(bodies(broker.store)) == {b"%02d" % number for number in range(30)}


# The service.


async def test_the_service_delivers_in_time(tmp_path: Path) -> None:
    store = small_config(tmp_path, delay_levels_ms=(100,))
    config = BrokerConfig(store=store, broker_name="broker-a")
    async with AsyncExitStack() as stack:
        broker = build_broker(config, SystemClock(), QuickDisk(), stack)
        with running(broker):
            for number in range(5):
                put_delayed(broker.store, b"%d" % number)
                broker.waiting.delays.wake_at(broker.clock.now_ms() + 100)
                await asyncio.sleep(0.03)
            await eventually(lambda: len(bodies(broker.store)) == 5)
        waited = messages(broker.store, SCHEDULE_TOPIC)
        for sent, delivered in zip(waited, messages(broker.store), strict=True):
            assert 100 <= delivered.store_timestamp - sent.store_timestamp < 10_000


@pytest.mark.slow
async def test_the_service_continues_after_a_full_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk(tmp_path)
    async with levels_bed(tmp_path, disk=disk) as bed:
        for number in range(30):
            put_delayed(bed.broker.store, b"%02d" % number)
        bed.clock.advance(1)
        disk.is_full = True
        with running(bed.broker):
            await eventually(lambda: "not delivered yet" in caplog.text)
            disk.is_full = False
            bed.clock.advance(2)
            await eventually(lambda: len(set(bodies(bed.broker.store))) == 30)
    assert caplog.text.count("not delivered yet") == 1


class BusyClock(FakeClock):
    """Whatever is done takes a millisecond."""

    def monotonic_s(self) -> float:
        self._monotonic_s += 0.001
        return super().monotonic_s()


@pytest.mark.parametrize(
    ("since_last_s", "is_alone", "length_s"),
    [(0.005, False, 0.001), (0.020, False, 0.004), (9.0, False, 0.005), (0.0, True, 0.005)],
)
def test_others_keep_four_fifths_of_the_time(
    since_last_s: float, is_alone: bool, length_s: float
) -> None:
    assert slice_length_s(since_last_s, is_alone=is_alone) == pytest.approx(length_s)


async def test_a_turn_ends_when_its_time_is_over(tmp_path: Path) -> None:
    clock = BusyClock()
    counts = [0]
    async with levels_bed(tmp_path, commit_log_file_size=1 << 20) as bed:
        broker = bed.broker
        broker.clock = clock
        for _ in range(500):
            put_delayed(broker.store)
        bed.clock.advance(1)
        with running(broker):
            while counts[-1] < 500:
                bed.put(topic="TopicB")
                clock.advance(0.005)  # so long it took
                # At most one turn comes before the next message.
                await asyncio.sleep(0)
                counts.append(broker.store.max_offset("TopicA", 0))
    assert max(after - before for before, after in pairwise(counts)) <= 6 * BATCH_COUNT_MAX


# What is saved, and what is found after a crash.


def offsets_in_file(directory: Path) -> str:
    path = directory / "config" / "delayOffset.json"
    return path.read_text() if path.exists() else ""


async def test_a_clean_stop_saves_everything(tmp_path: Path) -> None:
    async with levels_bed(tmp_path) as bed:
        put_delayed(bed.broker.store)
        put_timer(bed.broker.store, START_MS + 1_000)
        put_timer(bed.broker.store, START_MS + 9_000, b"later")
        bed.clock.advance(1)
        deliver(bed.broker)
    async with levels_bed(tmp_path) as bed:
        bed.clock.advance(10)
        deliver(bed.broker)
        assert sorted(bodies(bed.broker.store)) == [b"late", b"later", b"timer"]


async def test_progress_is_saved_when_the_log_is_safe(tmp_path: Path) -> None:
    # A thread that flushes nothing by itself in the time of this test.
    async with levels_bed(tmp_path, flush_interval_ms=60_000) as bed:
        broker = bed.broker
        put_delayed(broker.store)
        bed.clock.advance(1)
        deliver(broker)
        broker.waiting.delays.propose()
        save_progress(broker.waiting.progress, broker.replication)
        await broker.tables.savers.levels.until_saved()
        assert offsets_in_file(tmp_path) == ""
        await sync(broker)
        save_progress(broker.waiting.progress, broker.replication)
        await broker.tables.savers.levels.until_saved()
        await broker.tables.savers.timers.until_saved()
        assert '"1":1' in offsets_in_file(tmp_path)


@pytest.mark.parametrize("is_saved", [True, False])
async def test_a_killed_broker_delivers_at_least_once(tmp_path: Path, is_saved: bool) -> None:
    living, dead = tmp_path / "living", tmp_path / "dead"
    async with levels_bed(living) as bed:
        broker = bed.broker
        put_delayed(broker.store, b"before")
        put_timer(broker.store, START_MS + 1_000, b"before, timer")
        bed.clock.advance(1)
        deliver(broker)
        if is_saved:
            broker.waiting.delays.propose()
            await sync(broker)
            save_progress(broker.waiting.progress, broker.replication)
            await broker.tables.savers.levels.until_saved()
            await broker.tables.savers.timers.until_saved()
        put_delayed(broker.store, b"after")
        bed.clock.advance(1)
        deliver(broker)
        shutil.copytree(living, dead)  # what a kill at this moment leaves behind
    async with levels_bed(dead) as bed:
        bed.clock.advance(5)
        deliver(bed.broker)
        found = bodies(bed.broker.store)
        assert set(found) == {b"before", b"before, timer", b"after"}
        assert found.count(b"after") == 2
        assert found.count(b"before") == found.count(b"before, timer") == (1 if is_saved else 2)


async def test_with_sync_flush_everything_is_delivered_too(tmp_path: Path) -> None:
    async with levels_bed(tmp_path, flush_mode=FlushMode.SYNC) as bed:
        with running(bed.broker):
            put_delayed(bed.broker.store)
            await sync(bed.broker)
            bed.clock.advance(1)
            bed.broker.waiting.delays.wake_at(START_MS + 1_000)
            await eventually(lambda: bodies(bed.broker.store) == [b"late"])


@pytest.mark.parametrize(
    ("timercheck", "expected"),
    [
        (struct.pack(">7q", START_MS + 2_000, 0, 1, 1, 0, 0, 0), [b"new"]),
        (b"garbage", [b"old", b"new"]),
    ],
    ids=["readable", "garbage"],
)
async def test_timers_that_apache_delivered_are_not_delivered_again_if_it_says_so(
    tmp_path: Path, timercheck: bytes, expected: list[bytes]
) -> None:
    async with levels_bed(tmp_path) as bed:
        put_timer(bed.broker.store, START_MS + 1_000, b"old")
        put_timer(bed.broker.store, START_MS + 2_000, b"new")
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "timercheck").write_bytes(timercheck)
    async with levels_bed(tmp_path) as bed:
        bed.clock.advance(5)
        deliver(bed.broker)
        assert bodies(bed.broker.store) == expected
