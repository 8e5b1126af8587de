"""What a broker makes of the directory that it is started with."""

from pathlib import Path

import pytest

from tests.support.broker_bed import broker_bed
from tests.support.stores import messages, small_config

TOPIC, GROUP = "topic", "group"


async def test_a_message_in_the_place_of_a_lost_one_is_still_to_be_consumed(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        appended = [bed.put(topic=TOPIC) for _ in range(3)]
        bed.broker.offsets.commit(GROUP, TOPIC, 0, 3)
        await bed.broker.offset_saver.until_saved()

    flip_a_bit_at(small_config(tmp_path).layout.commit_log, appended[-1].physical_offset + 100)

    async with broker_bed(tmp_path) as bed:
        assert bed.put(topic=TOPIC).queue_offset == 2
        assert bed.broker.offsets.find(GROUP, TOPIC, 0) == 2


async def test_topics_are_made_again_after_their_queues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = small_config(tmp_path).layout.config
    async with broker_bed(tmp_path) as bed:
        bed.broker.topics.find_or_create(TOPIC, 4)
        bed.put(topic=TOPIC, queue_id=2)
        await bed.broker.topic_saver.until_saved()
    for name in ("topics.json", "topics.json.bak"):
        (config / name).write_bytes(b"{")

    async with broker_bed(tmp_path) as bed:
        found = bed.broker.topics.find(TOPIC)
    assert found is not None
    assert (found.read_queue_nums, found.write_queue_nums) == (3, 3)
    assert (config / "topics.json.damaged").read_bytes() == b"{"
    assert f"made topic {TOPIC} again" in caplog.text


async def test_a_deleted_topic_is_not_made_again(tmp_path: Path) -> None:
    """Apache leaves its queues for a while."""
    async with broker_bed(tmp_path) as bed:
        bed.put(topic=TOPIC)
        await bed.broker.topic_saver.until_saved()
    async with broker_bed(tmp_path) as bed:
        assert bed.broker.topics.find(TOPIC) is None


@pytest.mark.parametrize(
    "name",
    [
        "topics.json",
        "subscriptionGroup.json",
        "consumerOffset.json",
        "delayOffset.json",
        "timers.json",
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
