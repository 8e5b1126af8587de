"""What a broker makes of the directory that it is started with."""

import asyncio
from pathlib import Path

import pytest

from roquet.broker.broker import Broker
from roquet.broker.loading import StartState
from roquet.broker.server import serve_broker
from roquet.broker.settings.config import FAST_PORT_DISTANCE, BrokerConfig
from roquet.broker.tables.offsets import transaction_progress_of
from roquet.clock import SystemClock
from roquet.protocol.bodies.offsets import (
    AllProgress,
    TimerProgress,
    TransactionProgress,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from roquet.protocol.names import HALF_TOPIC
from tests.support.blocking_peer import BlockingPeer
from tests.support.broker_bed import broker_bed
from tests.support.drafts import draft
from tests.support.quick_disk import QuickDisk
from tests.support.stores import messages, small_config
from tests.support.waiting import put_delayed

TOPIC, GROUP = "topic", "group"


async def test_a_message_in_the_place_of_a_lost_one_is_still_to_be_consumed(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        appended = [bed.put(topic=TOPIC) for _ in range(3)]
        bed.broker.tables.offsets.commit(GROUP, TOPIC, 0, 3)
        await bed.broker.tables.savers.offsets.until_saved()

    flip_a_bit_at(small_config(tmp_path).layout.commit_log, appended[-1].physical_offset + 100)

    async with broker_bed(tmp_path) as bed:
        assert bed.put(topic=TOPIC).queue_offset == 2
        assert bed.broker.tables.offsets.find(GROUP, TOPIC, 0) == 2


async def test_progress_that_a_shorter_log_does_not_have_is_forgotten_before_that_grows(
    tmp_path: Path,
) -> None:
    """Messages that were delivered behind the cut wait again; so do transactions."""
    config = BrokerConfig(store=small_config(tmp_path, delay_levels_ms=(3_600_000,)), listen_port=0)
    async with serve_broker(config, SystemClock(), QuickDisk()) as broker:
        put_waiting(broker, 3)
        note_progress(broker, 1)
        cut_end = broker.store.log_end
        put_waiting(broker, 1)
        note_progress(broker, 3)
    async with serve_broker(
        config, SystemClock(), QuickDisk(), StartState(cut_end=cut_end)
    ) as broker:
        assert broker.store.log_end == cut_end
        assert broker.waiting.delays.levels.offsets()[1] == 1
        assert transaction_progress_of(broker.tables.offsets.snapshot()).half_offset == 1
        for saver in (
            broker.tables.savers.levels,
            broker.tables.savers.timers,
            broker.tables.savers.offsets,
        ):
            assert saver._saved_count > 0
        # As long as it was, but with other messages.
        put_waiting(broker, 3)
        files = [path.read_bytes() for path in sorted((tmp_path / "config").glob("*.json"))]
    assert not any(b":3" in content for content in files)


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.POP_MESSAGE])
async def test_what_may_wait_is_refused_at_the_fast_port(tmp_path: Path, code: RequestCode) -> None:
    config = BrokerConfig(store=small_config(tmp_path), listen_port=0)
    async with serve_broker(config, SystemClock(), QuickDisk()) as broker:
        port = broker.config.listen_port
        at_fast_port, at_port = await asyncio.to_thread(
            lambda: [asked(each, code) for each in (port + FAST_PORT_DISTANCE, port)]
        )
    assert at_fast_port == ResponseCode.REQUEST_CODE_NOT_SUPPORTED != at_port


def asked(port: int, code: RequestCode) -> int:
    with BlockingPeer(f"127.0.0.1:{port}") as peer:
        return peer.call(code, NoFields()).code


def put_waiting(broker: Broker, count: int) -> None:
    for _ in range(count):
        put_delayed(broker.store)
        broker.store.append(draft(topic=HALF_TOPIC))


def note_progress(broker: Broker, offset: int) -> None:
    """As if all before it were delivered, and all transactions dealt with."""
    progress = broker.waiting.progress
    progress.withdraw()
    progress.follow(
        AllProgress(
            offset_table={1: offset},
            timers=TimerProgress(next_offset=offset),
            transactions=TransactionProgress(half_offset=offset),
        ),
        broker.store.log_end,
    )
    progress.confirm(broker.store.log_end)
    broker.waiting.delays.levels._levels[0].offset = broker.waiting.pending_halves.progress = offset


async def test_topics_are_made_again_after_their_queues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = small_config(tmp_path).layout.config
    async with broker_bed(tmp_path) as bed:
        bed.broker.tables.topics.find_or_create(TOPIC, 4)
        bed.put(topic=TOPIC, queue_id=2)
        await bed.broker.tables.savers.topics.until_saved()
    for name in ("topics.json", "topics.json.bak"):
        (config / name).write_bytes(b"{")

    async with broker_bed(tmp_path) as bed:
        found = bed.broker.tables.topics.find(TOPIC)
    assert found is not None
    assert (found.read_queue_nums, found.write_queue_nums) == (3, 3)
    assert (config / "topics.json.damaged").read_bytes() == b"{"
    assert f"made topic {TOPIC} again" in caplog.text


async def test_a_deleted_topic_is_not_made_again(tmp_path: Path) -> None:
    """Apache leaves its queues for a while."""
    async with broker_bed(tmp_path) as bed:
        bed.put(topic=TOPIC)
        await bed.broker.tables.savers.topics.until_saved()
    async with broker_bed(tmp_path) as bed:
        assert bed.broker.tables.topics.find(TOPIC) is None


@pytest.mark.parametrize(
    "name",
    [
        "topics.json",
        "subscriptionGroup.json",
        "consumerOffset.json",
        "delayOffset.json",
        "timers.json",
        "pastMembers.json",
        "changedSettings.json",
    ],
)
async def test_no_bad_state_file_stops_the_start(tmp_path: Path, name: str) -> None:
    config = small_config(tmp_path).layout.config
    async with broker_bed(tmp_path) as bed:
        bed.put(b"kept", topic=TOPIC)
    config.mkdir(exist_ok=True)
    for path in (config / name, config / f"{name}.bak"):
        path.write_bytes(b"garbage")
    async with broker_bed(tmp_path) as bed:
        assert [message.body for message in messages(bed.broker.store, TOPIC, 0)] == [b"kept"]


def flip_a_bit_at(log: Path, physical_offset: int) -> None:
    first, *_ = sorted(log.iterdir())
    with first.open("r+b") as file:
        file.seek(physical_offset)
        (byte,) = file.read(1)
        file.seek(physical_offset)
        file.write(bytes([byte ^ 1]))
