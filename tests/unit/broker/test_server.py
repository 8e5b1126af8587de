"""What a broker makes of the directory that it is started with."""

from pathlib import Path

from tests.support.broker_bed import broker_bed
from tests.support.stores import small_config

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


def flip_a_bit_at(log: Path, physical_offset: int) -> None:
    first, *_ = sorted(log.iterdir())
    with first.open("r+b") as file:
        file.seek(physical_offset)
        (byte,) = file.read(1)
        file.seek(physical_offset)
        file.write(bytes([byte ^ 1]))
