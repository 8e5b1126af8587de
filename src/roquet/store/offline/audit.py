"""Compares queues, key index and state files with what they should be. Nothing is changed here.

Queues: entries come as arrays, of one file at a time, and are compared with rebuilt ones.
Index: each file is checked by itself: its header must match its entries, and they must be linked by
their hashes, or they cannot be found. Then the entries of all files are compared with the keys of
the records, those of one log file at a time.
State: the files in `config` are parsed. A broker reads the backup when the file itself is broken,
and starts without it when both are. Both are reported: the backup is older.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from roquet.disk import Disk
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.groups import GroupConfigTable
from roquet.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from roquet.protocol.bodies.topics import TopicConfigTable
from roquet.protocol.errors import BadBody
from roquet.state_file import DamagedState, unsealed
from roquet.store.consume_queue import BLANK_SIZE, ENTRY_SIZE
from roquet.store.errors import DamagedRange
from roquet.store.files.layout import StoreLayout
from roquet.store.keys.index_file import SECONDS_MAX, IndexFile
from roquet.store.keys.message_keys import KEY_SIZE, KeyBatch
from roquet.store.offline.repair import Fault

ENTRY_TYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert ENTRY_TYPE.itemsize == ENTRY_SIZE

Entries: TypeAlias = npt.NDArray[np.void]
_Mask: TypeAlias = npt.NDArray[np.bool_]

_HASH_BITS: Final = 31
# A place in a range of this size and a hash fit into 64 bits.
RANGE_SIZE_MAX: Final = 1 << 32

_ENTRY_TYPE: Final = np.dtype(
    [("hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("older", ">i4")]
)
_KEY_TYPE: Final = np.dtype(
    [("physical_offset", "i8"), ("timestamp", "i8"), ("hash", "i4"), ("unused", "i4")]
)
assert _KEY_TYPE.itemsize == KEY_SIZE

_Entries: TypeAlias = npt.NDArray[np.void]
_Keys: TypeAlias = npt.NDArray[np.void]
# Place and hash of keys; each is a whole number, because sets of those are quick.
_Codes: TypeAlias = npt.NDArray[np.int64]

# What is wrong with entries.
DIFFERENT_ENTRY: Final = "differs from the log"
STRAY_ENTRY: Final = "of no record in the log"

_BACKUP: Final = ".bak"
_READ_SIZE: Final = 1 << 20
# Others have to be JSON, of whatever form.
_FORMS: Final[dict[str, Any]] = {
    "topics.json": TopicConfigTable,
    "subscriptionGroup.json": GroupConfigTable,
    "consumerOffset.json": ConsumerOffsetTable,
    "delayOffset.json": DelayOffsetTable,
}


class EntryFault(NamedTuple):
    """Entries of a queue that are not right, from the first offset to the last."""

    first: int
    last: int
    reason: str


class LogExtent(msgspec.Struct, frozen=True):
    """The part of the log from which queues were rebuilt."""

    start: int
    end: int
    damages: Sequence[DamagedRange]
    # Otherwise its owner is going to complete the queues.
    is_closed: bool


def entry_faults(
    found: Entries, rebuilt: Entries, first_offset: int, extent: LogExtent
) -> Iterator[EntryFault]:
    """Compare entries that start at the same offset, as many of one as of the other."""
    is_real = (rebuilt["size"] > 0) & ~_are_blank(rebuilt)
    is_empty = found == np.zeros(1, found.dtype)
    if extent.is_closed:
        yield from _runs(is_real & is_empty, first_offset, "missing")
    yield from _runs(is_real & ~is_empty & (found != rebuilt), first_offset, DIFFERENT_ENTRY)
    is_stray = ~is_real & ~is_empty & ~_is_excused(found, extent)
    yield from _runs(is_stray, first_offset, STRAY_ENTRY)


def _is_excused(found: Entries, extent: LogExtent) -> _Mask:
    """Whether there is a reason why the log has no record for an entry."""
    offsets = found["physical_offset"]
    is_excused: _Mask = _are_blank(found) | (offsets < extent.start)
    if not extent.is_closed:
        is_excused |= offsets >= extent.end
    for damage in extent.damages:
        is_excused |= (offsets >= damage.start) & (offsets < damage.end)
    return is_excused


def _are_blank(entries: Entries) -> _Mask:
    found: _Mask = (entries["physical_offset"] == 0) & (entries["size"] == BLANK_SIZE)
    return found


def _runs(is_wrong: _Mask, first_offset: int, reason: str) -> Iterator[EntryFault]:
    """Neighbours are reported together."""
    edges = np.diff(is_wrong.astype(np.int8), prepend=0, append=0)
    starts = np.flatnonzero(edges > 0)
    ends = np.flatnonzero(edges < 0)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield EntryFault(first_offset + start, first_offset + end - 1, reason)


class KeyFault(NamedTuple):
    """Wrong keys of records; the physical offsets of the first and last of them."""

    first: int
    last: int
    reason: str


def _entries_of(file: IndexFile) -> _Entries:
    """All entries, from number 1 on."""
    return np.frombuffer(file.entries(), _ENTRY_TYPE)


def file_fault(file: IndexFile) -> str | None:
    """The fault of one file in itself."""
    if not file.is_sound:
        return "its header is invalid"
    entries = _entries_of(file)
    if not len(entries):
        return None
    offsets = entries["physical_offset"].astype(np.int64)
    header = file.header
    if (header.begin_physical_offset, header.end_physical_offset) != (offsets[0], offsets[-1]):
        return "its header does not match its entries"
    if (np.diff(offsets) < 0).any():
        return "its entries are not in the order of the log"
    found_slots = np.frombuffer(file.slots(), ">i4")
    slots, older = _links(entries["hash"].astype(np.int64), len(found_slots))
    if (older != entries["older"]).any() or (slots != found_slots).any():
        return "its entries are not linked by their hashes"
    if header.used_slots != np.count_nonzero(slots):
        return "its header has a wrong count of used slots"
    return None


class LogPart(NamedTuple):
    """Physical offsets, and what between them is damaged and so has no keys."""

    start: int
    end: int
    damages: Sequence[DamagedRange] = ()


def key_faults(files: Sequence[IndexFile], batch: KeyBatch, part: LogPart) -> Iterator[KeyFault]:
    """Compare the index with all keys of the records in a part of the log."""
    start = part.start
    assert part.end - start <= RANGE_SIZE_MAX
    files = [file for file in files if _overlaps(file, part)]
    keys = np.frombuffer(batch.packed, _KEY_TYPE)
    wanted = _codes(keys["physical_offset"], keys["hash"], start)
    found = [_found_in(file, part) for file in files]
    codes = np.concatenate([np.empty(0, np.int64), *(each.codes for each in found)])
    yield from _fault(np.setdiff1d(wanted, codes), start, "missing keys")
    yield from _fault(np.setdiff1d(codes, wanted), start, "keys that no record has")
    for file, each in zip(files, found, strict=True):
        name = file.file.path.name
        wrong = _wrong_times(each, wanted, keys)
        yield from _fault(wrong, start, f"keys with a wrong time in {name}")
        if len(each.codes) and _has_wrong_header(file, keys):
            yield KeyFault(start, part.end, f"the header of {name} has a wrong time")


class _FileEntries(NamedTuple):
    """Entries of one file."""

    codes: _Codes
    seconds: npt.NDArray[np.int64]
    begin_timestamp: int
    has_first: bool  # whether the first one is the first of the file


def _overlaps(file: IndexFile, part: LogPart) -> bool:
    header = file.header
    return header.begin_physical_offset < part.end and header.end_physical_offset >= part.start


def _found_in(file: IndexFile, part: LogPart) -> _FileEntries:
    start = part.start
    entries = _entries_of(file)
    offsets = entries["physical_offset"].astype(np.int64)
    is_kept = (offsets >= start) & (offsets < part.end)
    for damage in part.damages:
        is_kept &= (offsets < damage.start) | (offsets >= damage.end)
    kept = np.flatnonzero(is_kept)
    entries = entries[kept]
    return _FileEntries(
        _codes(offsets[kept], entries["hash"], start),
        entries["seconds"].astype(np.int64),
        file.header.begin_timestamp,
        bool(len(kept)) and kept[0] == 0,
    )


def _wrong_times(found: _FileEntries, wanted: _Codes, keys: _Keys) -> _Codes:
    common, in_wanted, in_found = np.intersect1d(wanted, found.codes, return_indices=True)
    seconds = (keys["timestamp"][in_wanted] - found.begin_timestamp) // 1000
    is_wrong = np.clip(seconds, 0, SECONDS_MAX) != found.seconds[in_found]
    if found.has_first:
        # It counts from the end of the file before, which may be gone.
        is_wrong &= in_found != 0
    wrong: _Codes = common[is_wrong]
    return wrong


def _has_wrong_header(file: IndexFile, keys: _Keys) -> bool:
    header = file.header
    return any(
        (keys["timestamp"][keys["physical_offset"] == offset] != timestamp).any()
        for offset, timestamp in (
            (header.begin_physical_offset, header.begin_timestamp),
            (header.end_physical_offset, header.end_timestamp),
        )
    )


def _codes(offsets: npt.NDArray[np.int64], hashes: npt.NDArray[np.int32], start: int) -> _Codes:
    codes: _Codes = (offsets - start << _HASH_BITS) | hashes.astype(np.int64)
    return codes


def _fault(codes: _Codes, start: int, what: str) -> Iterator[KeyFault]:
    if len(codes):
        places = start + (codes >> _HASH_BITS)
        yield KeyFault(int(places.min()), int(places.max()), f"{what}: {len(codes)}")


def _links(
    hashes: npt.NDArray[np.int64], slot_count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """What slots have to hold, and which older entry each entry has to name."""
    slot_of = hashes % slot_count
    # Sorted by slot and, within a slot, by age: each names its neighbour.
    order = np.argsort(slot_of, kind="stable")
    is_oldest = np.ones(len(order), np.bool_)
    is_oldest[1:] = slot_of[order[1:]] != slot_of[order[:-1]]
    older = np.empty(len(order), np.int64)
    older[order] = np.where(is_oldest, 0, np.roll(order + 1, 1))
    slots = np.zeros(slot_count, np.int64)
    slots[slot_of[order]] = order + 1
    return slots, older


def state_file_names(disk: Disk, layout: StoreLayout) -> list[str]:
    """Of all state files; one of which only the backup is there counts, too."""
    names = (each.name for each in disk.entries(layout.config) if not each.is_directory)
    plain_names = {name.removesuffix(_BACKUP) for name in names}
    return sorted(name for name in plain_names if name.endswith(".json"))


def state_faults(disk: Disk, layout: StoreLayout, names: list[str]) -> Iterator[Fault]:
    """Raises OSError."""
    for name in names:
        reason = _fault_in(disk, layout.config / name, name)
        if reason is not None:
            backup_reason = _fault_in(disk, layout.config / (name + _BACKUP), name)
            rest = "the older backup is used instead"
            if backup_reason is not None:
                rest = (
                    f"its backup cannot be read either: {backup_reason}; a broker starts without it"
                )
            yield Fault("state", f"config/{name}", f"{reason}; {rest}")


def _fault_in(disk: Disk, path: Path, name: str) -> str | None:
    if not disk.exists(path):
        return "missing"
    content = _content(disk, path)
    if not content.strip():
        return "empty"
    try:
        read_body(_FORMS.get(name, Any), unsealed(content))
    except BadBody as error:
        return error.reason
    except DamagedState as error:
        return str(error)
    return None


def _content(disk: Disk, path: Path) -> bytes:
    descriptor = disk.open(path, writable=False)
    try:
        pieces = []
        position = 0
        while piece := disk.read(descriptor, position, _READ_SIZE):
            pieces.append(piece)
            position += len(piece)
        return b"".join(pieces)
    finally:
        disk.close(descriptor)
