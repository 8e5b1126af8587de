"""Power fails under a broker that flushes before it acknowledges.

On a real file system: its device remembers every write and flush, and is shown to the next broker
as it may be found after a cut at any point of that record. And at the disk seam of the store, where
a cut takes milliseconds instead of a second, and async flush has its window to keep.
"""

import asyncio
from bisect import bisect_left
from operator import attrgetter
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Final, NamedTuple

from roquet.store.config import FlushMode
from tests.faults.findings import Findings
from tests.faults.history import History
from tests.faults.rig import Rig
from tests.faults.stage import ONLY_PLAIN, QUEUE_COUNT, SYNC, stage
from tests.faults.traffic import BROKER_SETTINGS, TOPIC
from tests.faults.whole_queues import whole_queues
from tests.support.our_cluster import OurBroker, OurServerFailed
from tests.support.power_cut import PowerCuts
from tests.support.recorded_device import (
    Event,
    Platter,
    RecordedDevice,
    loop_device,
    make_file_system,
    missing,
    mounted,
)

_DEVICE_SIZE: Final = 64 << 20
_CUTS_PER_RECORD: Final = 50
_ACKNOWLEDGED_PER_RECORD: Final = 2000
_CUTS_PER_WORKLOAD: Final = 20


class Record(NamedTuple):
    history: History
    events: list[Event]
    # Before it no client was served yet.
    first: int


def cut_device(directory: Path, seed: int, count: int) -> Findings:
    chance = Random(seed)
    findings = Findings()
    for begun in range(0, count, _CUTS_PER_RECORD):
        place = directory / f"record-{begun}"
        place.mkdir()
        record = asyncio.run(_recorded(place, seed + begun))
        findings.add(_cuts(place, record, chance, min(_CUTS_PER_RECORD, count - begun)))
        rmtree(place)
    return findings


async def _recorded(directory: Path, seed: int) -> Record:
    with RecordedDevice(directory, _DEVICE_SIZE) as device:
        make_file_system(str(device.path))
        with mounted(str(device.path), directory / "disk") as disk:
            async with stage(
                directory, seed, mix=ONLY_PLAIN, broker_directory=disk / "broker"
            ) as on:
                first = len(device.events)
                await on.traffic.until_more(_ACKNOWLEDGED_PER_RECORD)
                on.broker.kill()
                return Record(on.traffic.history, device.events.copy(), first)


def _cuts(directory: Path, record: Record, chance: Random, count: int) -> Findings:
    platter = Platter(_DEVICE_SIZE, record.events)
    findings = Findings()
    findings.counts["writes recorded"] = sum(1 for event in record.events if event.data)
    positions = sorted(chance.sample(range(record.first, len(record.events)), count))
    for number, position in enumerate(positions):
        image = directory / "image"
        image.write_bytes(platter.cut_at(position, chance))
        promised = _promised_by(record, record.events[position].at_s)
        with loop_device(image) as device, mounted(device, directory / "found") as disk:
            violations = _after_cut(disk / "broker", promised)
        findings.violations += [f"cut {number} at {position}: {each}" for each in violations]
        findings.counts["power cuts"] += 1
        findings.counts["acknowledged, over all cuts"] += len(promised.acknowledged)
    return findings


def _promised_by(record: Record, at_s: float) -> History:
    """What was acknowledged before power failed."""
    acknowledged = sorted(record.history.acknowledged, key=attrgetter("ended_s"))
    known = bisect_left(acknowledged, at_s, key=attrgetter("ended_s"))
    return History(attempted=record.history.attempted, acknowledged=acknowledged[:known])


def _after_cut(directory: Path, promised: History) -> list[str]:
    broker = OurBroker(directory, broker_name="broker-0", configuration={**BROKER_SETTINGS, **SYNC})
    try:
        broker.start()
    except OurServerFailed as error:
        return [str(error)]
    try:
        promised.found = whole_queues(broker, TOPIC, QUEUE_COUNT)
    finally:
        broker.kill()
    return promised.violations()


def cut_store(directory: Path, seed: int, count: int) -> Findings:
    findings = Findings()
    for number, begun in enumerate(range(0, count, _CUTS_PER_WORKLOAD)):
        mode = FlushMode.ASYNC if number % 3 == 2 else FlushMode.SYNC
        place = directory / str(number)
        place.mkdir()
        cuts = PowerCuts(place, mode, seed + number, min(_CUTS_PER_WORKLOAD, count - begun))
        findings.violations += [f"seed {seed + number}: {each}" for each in cuts.run()]
        findings.counts["power cuts"] += cuts.cut_count
        rmtree(place)
    return findings


POWER_CUT: Final = Rig(
    "power-cut",
    "power fails under a broker with sync flush, on ext4 on a recorded block device",
    cut_device,
    few=4,
    many=500,
    missing=missing,
)
STORE_POWER_CUT: Final = Rig(
    "store-power-cut",
    "power fails under a store, sync and async flush, at the disk seam",
    cut_store,
    few=40,
    many=20_000,
)
