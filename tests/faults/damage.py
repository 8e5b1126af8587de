"""Bytes rot unnoticed: one bit, or a sector that is zero, noise, or only half written.

A broker is assembled on every damaged copy of a store, with all its files: log, queues, index,
checkpoint and tables. It starts, hands out nothing but what was stored, and misses only what was
hit. The store is one of ours, closed in peace, or one that a real Apache broker left. Apache's
records have a checksum of their body only, so what is wrong elsewhere in them cannot be known; it
is counted apart.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from roquet.broker.broker import Broker
from roquet.errors import RoquetError
from roquet.protocol.messages.record import read_record
from roquet.store.config import StoreConfig
from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.support.broker_bed import broker_bed
from tests.support.drafts import draft
from tests.support.golden_stores import unpack_store
from tests.support.ram_disk import RamDisk, ram_disk
from tests.support.recorded_device import SECTOR_SIZE
from tests.support.store_checks import Found, everything_in
from tests.support.stores import small_config

_ROOT: Final = Path("/store")
_TOPIC: Final = "T"
_GROUP: Final = "readers"
_MESSAGE_COUNT: Final = 200
_QUEUE_COUNT: Final = 2
_OUR_SIZES: Final[dict[str, Any]] = {"commit_log_file_size": 6400, "queue_file_size": 760}
_APACHE_SIZES: Final[dict[str, Any]] = {"commit_log_file_size": 32768, "queue_file_size": 200}
_APACHE_STORES: Final = ("v49_clean", "v55_clean")


class Damage(NamedTuple):
    path: Path
    start: int
    end: int
    how: str

    @property
    def kind(self) -> str:
        """Such as "commitlog", "consumequeue", "index", "checkpoint" or "config"."""
        return self.path.relative_to(_ROOT).parts[0]

    def hits(self, physical_offset: int, size: int) -> bool:
        if self.kind != "commitlog":
            return False
        base = int(self.path.name)
        return physical_offset < base + self.end and base + self.start < physical_offset + size


@dataclass(frozen=True)
class Original:
    files: dict[Path, bytes]
    config: StoreConfig
    found: Found
    is_ours: bool

    def damaged(self, chance: Random) -> tuple[Damage, bytes]:
        """Every kind of file has its turn, however small it is."""
        kinds = sorted({path.relative_to(_ROOT).parts[0] for path in self.files})
        kind = chance.choice(kinds)
        paths = [path for path in sorted(self.files) if path.relative_to(_ROOT).parts[0] == kind]
        path = chance.choice([path for path in paths if self.files[path]] or paths)
        how = chance.choice(sorted(_WAYS))
        content = bytearray(self.files[path])
        start, end = _WAYS[how](chance, content)
        return Damage(path, start, end, how), bytes(content)


def _flip(chance: Random, content: bytearray) -> tuple[int, int]:
    if not content:
        return 0, 0
    position = chance.randrange(len(content))
    content[position] ^= 1 << chance.randrange(8)
    return position, position + 1


def _sector(chance: Random, content: bytearray) -> tuple[int, int]:
    start = chance.randrange(len(content) // SECTOR_SIZE + 1) * SECTOR_SIZE
    return start, min(start + SECTOR_SIZE, len(content))


def _zero(chance: Random, content: bytearray) -> tuple[int, int]:
    start, end = _sector(chance, content)
    content[start:end] = bytes(end - start)
    return start, end


def _noise(chance: Random, content: bytearray) -> tuple[int, int]:
    start, end = _sector(chance, content)
    content[start:end] = chance.randbytes(end - start)
    return start, end


def _tear(chance: Random, content: bytearray) -> tuple[int, int]:
    """The end of a sector was never written."""
    start, end = _sector(chance, content)
    start = chance.randrange(start, end + 1)
    content[start:end] = bytes(end - start)
    return start, end


_WAYS: Final[dict[str, Callable[[Random, bytearray], tuple[int, int]]]] = {
    "flipped bit": _flip,
    "zeroed sector": _zero,
    "random sector": _noise,
    "torn sector": _tear,
}


def damage_ours(_directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_damage([_ours()], seed, count))


def damage_apaches(_directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_damage([_apaches(name) for name in _APACHE_STORES], seed, count))


async def _damage(originals: list[Original], seed: int, count: int) -> Findings:
    chance = Random(seed)
    findings = Findings()
    for number in range(count):
        original = originals[number % len(originals)]
        damage, content = original.damaged(chance)
        violations, excused = await _after(original, damage, content)
        findings.violations += [f"{number}: {damage}: {each}" for each in violations]
        findings.counts[f"{damage.how}s"] += 1
        findings.counts += excused
    return findings


async def _after(
    original: Original, damage: Damage, content: bytes
) -> tuple[list[str], Counter[str]]:
    """What is wrong, and how much of it cannot be known from Apache's files."""
    with ram_disk(original.files | {damage.path: content}) as disk:
        try:
            async with broker_bed(_ROOT, disk=disk, store=original.config) as bed:
                found = everything_in(bed.broker.store)
                violations = _wrong_offsets(bed.broker) if original.is_ours else []
        except RoquetError as error:
            return [f"refused to start: {error}"], Counter()
    wrong = [place for place, record in found.items() if original.found.get(place) != record]
    lost = [
        place
        for place, record in original.found.items()
        if place not in found and not damage.hits(read_record(record).physical_offset, len(record))
    ]
    excused: Counter[str] = Counter()
    if not original.is_ours:
        known = [place for place in wrong if not _is_excusable(original, damage, place, found)]
        excused["wrong where Apache has no checksum"] = len(wrong) - len(known)
        wrong = known
        # Apache does not record how long its queues are, and the older files of a log that was
        # closed are not looked at when it is opened: queues are not made again from them.
        if damage.kind == "consumequeue":
            excused["in queues whose entries were hit"] = len(lost)
            lost = []
    violations += [f"{place} reads {found[place][:80]!r}" for place in wrong]
    violations += [f"lost {place}" for place in lost]
    return violations, +excused


def _is_excusable(original: Original, damage: Damage, place: tuple[Any, int], found: Found) -> bool:
    """Wrong only outside of the body, which is all that Apache's checksum covers."""
    expected = original.found.get(place)
    if expected is None:
        # A key, a tag or a queue was changed in a record: it turned up where nothing was.
        return damage.kind == "commitlog"
    before, after = read_record(expected), read_record(found[place])
    return before.body == after.body and damage.hits(before.physical_offset, len(expected))


def _wrong_offsets(broker: Broker) -> list[str]:
    """A group resumes where it was, or before; and what comes next is still to come for it."""
    violations = []
    for queue_id in range(_QUEUE_COUNT):
        committed = broker.tables.offsets.find(_GROUP, _TOPIC, queue_id) or 0
        if committed > _MESSAGE_COUNT // _QUEUE_COUNT:
            violations.append(f"queue {queue_id} is committed to {committed}")
        new = broker.store.append(draft(b"new", topic=_TOPIC, queue_id=queue_id))
        if new.queue_offset < committed:
            violations.append(f"a new message gets {new.queue_offset}, after {committed}")
    if _TOPIC not in broker.tables.topics:
        violations.append("the topic is gone")
    return violations


@cache
def _ours() -> Original:
    config = small_config(_ROOT, **_OUR_SIZES)
    disk = RamDisk()
    found = asyncio.run(_filled(disk, config))
    files = disk.files()
    disk.wipe()
    return Original(files, config, found, is_ours=True)


async def _filled(disk: RamDisk, config: StoreConfig) -> Found:
    """All consumed and closed in peace."""
    async with broker_bed(_ROOT, disk=disk, store=config) as bed:
        broker = bed.broker
        broker.tables.topics.find_or_create(_TOPIC, _QUEUE_COUNT)
        for number in range(_MESSAGE_COUNT):
            bed.clock.advance(0.01)
            queue_id = number % _QUEUE_COUNT
            properties = {"KEYS": f"{number:03}", "TAGS": "t"}
            bed.put(b"%d" % number, topic=_TOPIC, queue_id=queue_id, properties=properties)
            broker.tables.offsets.commit(_GROUP, _TOPIC, queue_id, number // _QUEUE_COUNT + 1)
        broker.store.file_keys()
        broker.tables.savers.offsets.save_soon()
        return everything_in(broker.store)


@cache
def _apaches(name: str) -> Original:
    config = small_config(_ROOT, **_APACHE_SIZES, index_tags=name.startswith("v55"))
    with TemporaryDirectory() as directory:
        root = unpack_store(name, Path(directory))
        files = {
            _ROOT / path.relative_to(root): path.read_bytes()
            for path in root.rglob("*")
            # What only Apache reads is not ours to look at.
            if path.is_file() and path.parts[len(root.parts)] in _OUR_KINDS
        }
    with ram_disk(files) as disk:
        found = asyncio.run(_read(disk, config))
    return Original(files, config, found, is_ours=False)


_OUR_KINDS: Final = ("commitlog", "consumequeue", "index", "checkpoint", "config")


async def _read(disk: RamDisk, config: StoreConfig) -> Found:
    async with broker_bed(_ROOT, disk=disk, store=config) as bed:
        return everything_in(bed.broker.store)


DAMAGE: Final = Rig(
    "damage",
    "flipped bits, zeroed, random and torn sectors in every kind of file of a store of ours",
    damage_ours,
    few=200,
    many=20_000,
)
APACHE_DAMAGE: Final = Rig(
    "apache-damage",
    "the same in stores that Apache 4.9.7 and 5.5.0 have left",
    damage_apaches,
    few=100,
    many=5_000,
)
