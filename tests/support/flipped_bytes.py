"""A store of 200 messages in which one byte is not what it was.

The messages are small, and so are the files, so that there are several of each kind: what
opening reads of them depends on how old they are.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.log_rebuild import QueueName
from tests.support.ram_disk import RamDisk, ram_disk
from tests.support.store_checks import END_OF_TIME, everything_in, lost, strangers
from tests.support.store_ledger import Ledger, Sent
from tests.support.stores import EVERYTHING, crash, open_store

MESSAGE_COUNT: Final = 200
ROOT: Final = Path("/store")
TOPIC: Final = "T"
QUEUES: Final = (QueueName(TOPIC, 0), QueueName(TOPIC, 1))
# What follows is left as it is and never read.
_CHECKPOINT_SIZE: Final = 24
_SETTINGS: Final[dict[str, Any]] = {
    "commit_log_file_size": 6400,
    "queue_file_size": 760,
    "index_slot_count": 64,
    "index_entry_count": 110,
}


class Flip(NamedTuple):
    path: Path
    position: int
    mask: int

    @property
    def kind(self) -> str:
        """Such as "commitlog", "consumequeue", "index", or "checkpoint"."""
        return self.path.relative_to(ROOT).parts[0]


@dataclass(frozen=True)
class Original:
    files: dict[Path, bytes]
    sent: list[Sent]
    is_clean: bool

    @cached_property
    def records(self) -> dict[QueueName, list[bytes]]:
        return {
            queue: [each.record for each in self.sent if each.queue == queue] for queue in QUEUES
        }

    def flips(self, *masks: int) -> Iterator[Flip]:
        for path, content in self.files.items():
            size = _CHECKPOINT_SIZE if path.name == "checkpoint" else len(content)
            for position in range(size):
                for mask in masks:
                    yield Flip(path, position, mask)

    def hit_by(self, flip: Flip) -> Sent | None:
        """The message whose record has the byte, if it is one of the log."""
        if flip.kind != "commitlog":
            return None
        physical_offset = int(flip.path.name) + flip.position
        number = bisect_right(self.sent, physical_offset, key=attrgetter("physical_offset")) - 1
        return self.sent[number] if physical_offset < self.sent[number].physical_end else None


def original(*, is_clean: bool, has_checksums: bool = True) -> Original:
    disk, clock, ledger = RamDisk(), FakeClock(), Ledger()
    settings = _SETTINGS | {"write_checksums": has_checksums}
    store = open_store(ROOT, disk=disk, clock=clock, listener=ledger, **settings)
    for number in range(MESSAGE_COUNT):
        clock.advance(0.01)
        one = draft(
            b"%d" % number,
            topic=TOPIC,
            queue_id=1 if number % 4 == 3 else 0,
            properties={"KEYS": f"{number:03}"},
            has_checksum=has_checksums,
        )
        ledger.took(one, store.append(one))
        if number == MESSAGE_COUNT // 2:
            store.flush()
    store.file_keys()
    store.close() if is_clean else crash(store)
    made = Original(disk.files(), ledger.sent, is_clean)
    disk.wipe()
    return made


def key_of(sent: Sent) -> str:
    return sent.record.partition(b"KEYS\x01")[2][:3].decode()


def after_flip(original: Original, flip: Flip) -> list[str]:
    """What is wrong with the store when this byte is."""
    content = bytearray(original.files[flip.path])
    content[flip.position] ^= flip.mask
    with ram_disk(original.files | {flip.path: bytes(content)}) as disk:
        store = open_store(ROOT, disk=disk, **_SETTINGS)
        violations = [*_wrong_reads(store, original, flip), *_wrong_answers(store, original, flip)]
        violations += _wrong_appends(store)
        crash(store)
    return [f"{flip}: {each}" for each in violations]


def after_garbage(original: Original, physical_offset: int, garbage: bytes) -> list[str]:
    """What is wrong with the store when these bytes lie over some of the log, in one file."""
    file_size = _SETTINGS["commit_log_file_size"]
    path = ROOT / "commitlog" / f"{physical_offset // file_size * file_size:020d}"
    content = bytearray(original.files[path])
    position = physical_offset % file_size
    garbage = garbage[: len(content) - position]
    content[position : position + len(garbage)] = garbage
    end = physical_offset + len(garbage)
    unhurt = [
        each
        for each in original.sent
        if each.physical_end <= physical_offset or each.physical_offset >= end
    ]
    with ram_disk(original.files | {path: bytes(content)}) as disk:
        store = open_store(ROOT, disk=disk, **_SETTINGS)
        found = everything_in(store)
        violations = [
            *strangers(found, original.sent),
            *lost(found, unhurt if original.is_clean else []),
            *_wrong_appends(store),
        ]
        crash(store)
    return [f"{len(garbage)} bytes at {physical_offset}: {each}" for each in violations]


def _wrong_reads(store: MessageStore, original: Original, flip: Flip) -> list[str]:
    """Only the message that was hit may be missing, unless the end of the log is uncertain."""
    hit = original.hit_by(flip)
    expected = original.records
    if hit is not None:
        kept = [each for each in expected[hit.queue] if each is not hit.record]
        expected = expected | {hit.queue: kept}
    if all(_all_records(store, queue) == expected[queue] for queue in QUEUES):
        return []
    found = everything_in(store)
    safe = [each for each in original.sent if each is not hit] if original.is_clean else []
    return strangers(found, original.sent) + lost(found, safe)


def _all_records(store: MessageStore, queue: QueueName) -> list[bytes]:
    records: list[bytes] = []
    offset = store.min_offset(*queue)
    while offset < store.max_offset(*queue):
        result = store.read(*queue, offset, EVERYTHING)
        records += result.records
        offset = result.next_offset
    return records


def _wrong_answers(store: MessageStore, original: Original, flip: Flip) -> list[str]:
    """An index that is damaged may keep something back, but not say anything wrong."""
    hit = original.hit_by(flip)
    asked = original.sent if flip.kind == "index" else [hit] if hit is not None else []
    violations = []
    for each in asked:
        key = key_of(each)
        records = store.query(TOPIC, key, 9, 0, END_OF_TIME).records
        if records not in ([], [each.record]):
            violations.append(f"key {key} finds {records}")
    return violations


def _wrong_appends(store: MessageStore) -> list[str]:
    end = store.max_offset(TOPIC, 0)
    appended = store.append(draft(b"new", topic=TOPIC))
    if appended.queue_offset != end or store.max_offset(TOPIC, 0) != end + 1:
        return [f"a new message gets offset {appended.queue_offset}, not {end}"]
    return []
