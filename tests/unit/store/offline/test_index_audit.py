from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.store.errors import DamagedRange
from roquet.store.keys.index_file import IndexFile, create_index_file
from roquet.store.keys.message_keys import Key, KeyBatch, pack_keys
from roquet.store.offline.audit import KeyFault, LogPart, file_fault, key_faults

SLOTS = 5
ENTRIES = 12
HEADER_SIZE = 40
ENTRIES_START = HEADER_SIZE + 4 * SLOTS

# Hash, physical offset, store timestamp; the first three share a slot.
KEYS = ((7, 100, 50_000), (12, 100, 50_000), (2, 300, 52_000), (4, 400, 59_999))


def batch(*keys: tuple[int, int, int]) -> KeyBatch:
    return pack_keys(Key(offset, timestamp, key_hash) for key_hash, offset, timestamp in keys)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[IndexFile]:
    file = create_index_file(SystemDisk(), tmp_path / "1", SLOTS, ENTRIES)
    file.put(batch(*KEYS))
    yield file
    file.file.close()


def flipped(file: IndexFile, position: int) -> IndexFile:
    file.file.mapping[position] ^= 1
    return IndexFile(file.file, SLOTS, ENTRIES)


def faults(file: IndexFile, *keys: tuple[int, int, int]) -> list[KeyFault]:
    return list(key_faults([file], batch(*keys), LogPart(0, 1000)))


def test_a_file_as_it_was_written_has_no_fault(file: IndexFile) -> None:
    assert file_fault(file) is None
    assert faults(file, *KEYS) == []


def test_an_empty_file_has_no_fault(tmp_path: Path) -> None:
    empty = create_index_file(SystemDisk(), tmp_path / "2", SLOTS, ENTRIES)
    assert file_fault(empty) is None
    assert faults(empty) == []
    empty.file.close()


def test_every_flipped_byte_of_what_is_written_is_a_fault(file: IndexFile) -> None:
    first = ENTRIES_START + 20
    # The seconds of the first entry count from a time that may be unknown by now.
    seconds = range(first + 12, first + 16)
    entries = set(range(first, first + 20 * len(KEYS))) - set(seconds)
    for position in (*range(ENTRIES_START), *sorted(entries)):
        damaged = flipped(file, position)
        assert file_fault(damaged) or faults(damaged, *KEYS), position
        flipped(file, position)
    assert file_fault(file) is None


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        (36, "its header is invalid"),
        (23, "its header does not match its entries"),
        (31, "its header does not match its entries"),
        (35, "its header has a wrong count of used slots"),
        (HEADER_SIZE, "its entries are not linked by their hashes"),
        (ENTRIES_START + 2 * 20 + 19, "its entries are not linked by their hashes"),
        (ENTRIES_START + 2 * 20 + 10, "its entries are not in the order of the log"),
    ],
)
def test_a_fault_of_a_file_has_a_reason(file: IndexFile, position: int, reason: str) -> None:
    assert file_fault(flipped(file, position)) == reason


def test_a_key_that_is_not_in_the_index_is_missing(file: IndexFile) -> None:
    assert faults(file, *KEYS, (9, 400, 59_999), (9, 500, 59_999)) == [
        (400, 500, "missing keys: 2")
    ]


def test_a_key_that_no_record_has_is_reported(file: IndexFile) -> None:
    assert faults(file, *KEYS[:2], KEYS[3]) == [(300, 300, "keys that no record has: 1")]


def test_a_key_under_a_wrong_time_is_reported(file: IndexFile) -> None:
    assert faults(file, *KEYS[:2], (2, 300, 53_000), KEYS[3]) == [
        (300, 300, "keys with a wrong time in 1: 1")
    ]


def test_only_the_range_is_compared(file: IndexFile) -> None:
    assert list(key_faults([file], batch(*KEYS[2:3]), LogPart(101, 400))) == []


def test_keys_of_damaged_records_are_not_asked_for(file: IndexFile) -> None:
    part = LogPart(0, 1000, [DamagedRange(250, 400, "torn")])
    assert list(key_faults([file], batch(*KEYS[:2], *KEYS[3:]), part)) == []


def test_the_first_entry_may_count_from_a_file_that_is_gone(
    tmp_path: Path, file: IndexFile
) -> None:
    following = create_index_file(SystemDisk(), tmp_path / "2", SLOTS, ENTRIES)
    following.inherit(file.header)
    more = (3, 500, 70_000), (3, 600, 71_500)
    following.put(batch(*more))
    assert file_fault(following) is None
    assert list(key_faults([following], batch(*more), LogPart(450, 1000))) == []
    assert list(key_faults([file, following], batch(*KEYS, *more), LogPart(0, 1000))) == []
    following.file.close()


def test_keys_that_were_filed_twice_are_right(file: IndexFile) -> None:
    file.put(batch(KEYS[-1]))
    assert file_fault(file) is None
    assert faults(file, *KEYS) == []


def test_times_before_the_first_message_count_as_its_time(tmp_path: Path) -> None:
    file = create_index_file(SystemDisk(), tmp_path / "2", SLOTS, ENTRIES)
    keys = (1, 10, 100_000), (1, 20, 50_000), (1, 30, 2**62), (1, 40, 101_000)
    file.put(batch(*keys))
    assert faults(file, *keys) == []
    file.file.close()
