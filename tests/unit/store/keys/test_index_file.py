from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from roquet.disk import SystemDisk
from roquet.protocol.java_hash import index_hash
from roquet.store.keys.index_file import IndexFile, create_index_file, index_file_size
from roquet.store.keys.message_keys import Key, KeyBatch, pack_keys
from tests.support.faulty_disk import FaultyDisk
from tests.support.mapped_memory import resident_size

SLOTS = 5
ENTRIES = 12


def batch(*keys: tuple[int, int, int]) -> KeyBatch:
    return pack_keys(Key(offset, timestamp, key_hash) for key_hash, offset, timestamp in keys)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[IndexFile]:
    file = create_index_file(SystemDisk(), tmp_path / "1", SLOTS, ENTRIES)
    yield file
    file.file.close()


def test_the_default_size_is_that_of_apache() -> None:
    assert index_file_size(5_000_000, 20_000_000) == 420_000_040


def test_the_bytes_of_a_file_are_as_specified(file: IndexFile) -> None:
    key_hash = index_hash("TopicTest#order-1")
    assert key_hash == 1829193424
    file.put(batch((key_hash, 0x1000, 1_700_000_000_123)))
    content = file.file.mapping[:]
    assert content[:40] == bytes.fromhex(
        "0000018bcfe5687b 0000018bcfe5687b 0000000000001000 0000000000001000 00000001 00000002"
    )
    slot = key_hash % SLOTS
    assert content[40 : 40 + 4 * SLOTS] == bytes(4 * slot) + (1).to_bytes(4) + bytes(
        4 * (SLOTS - slot - 1)
    )
    assert content[60:80] == bytes(20)
    assert content[80:100] == key_hash.to_bytes(4) + bytes.fromhex(
        "0000000000001000 00000000 00000000"
    )


def find(file: IndexFile, key_hash: int, begin: int = 0, end: int = 2**60) -> list[int]:
    return file.find(key_hash, begin, end, 64)


def test_offsets_are_found_newest_first(file: IndexFile) -> None:
    file.put(batch((7, 10, 1000), (2, 20, 1000), (7, 30, 1000)))
    file.put(batch((12, 40, 1000), (7, 50, 1000)))
    assert find(file, 7) == [50, 30, 10]
    assert find(file, 2) == [20]
    assert find(file, 12) == [40]
    assert find(file, 17) == []
    assert file.find(7, 0, 2**60, 2) == [50, 30]
    assert (file.header.used_slots, file.header.next_number) == (1, 6)


def test_offsets_are_found_by_time_in_seconds(file: IndexFile) -> None:
    file.put(batch(*((3, second, 5_000 + second * 1000) for second in range(6))))
    assert find(file, 3, begin=7_000, end=9_000) == [4, 3, 2]
    assert file.overlaps(10_000, 20_000)
    assert not file.overlaps(10_001, 20_000)
    assert file.overlaps(0, 5_000)
    assert not file.overlaps(0, 4_999)


def test_times_beyond_those_of_a_file_are_compared_as_they_are(file: IndexFile) -> None:
    file.put(batch((3, 10, 5_000), (3, 20, 2**62)))
    assert find(file, 3, begin=-(2**70), end=2**70) == [20, 10]
    assert find(file, 3, begin=-(2**63), end=-1) == []
    assert find(file, 3, begin=5_000 + (2**31 - 1) * 1000) == [20]
    assert find(file, 3, begin=5_001 + (2**31 - 1) * 1000) == []
    assert find(file, 3, begin=2**70, end=2**70) == []


def test_a_walk_along_one_slot_ends(tmp_path: Path) -> None:
    count = 250_000
    file = create_index_file(SystemDisk(), tmp_path / "long", 1, count + 1)
    file.put(batch(*((7, number, 1000) for number in range(count))))
    newest = file.find(7, 0, 2**60, count)
    assert newest == list(range(count - 1, count - 200_001, -1))
    file.file.close()


def test_a_full_file_takes_the_first_keys_only(file: IndexFile) -> None:
    keys = [(number, number * 10, 1000) for number in range(20)]
    assert file.put(batch(*keys)) == 11
    assert file.is_full
    assert file.put(batch(*keys)) == 0
    assert file.header.end_physical_offset == 100


def test_the_first_entry_counts_from_the_end_of_the_file_before(
    tmp_path: Path, file: IndexFile
) -> None:
    file.put(batch((1, 10, 1_000), (2, 20, 10_000)))
    following = create_index_file(SystemDisk(), tmp_path / "2", SLOTS, ENTRIES)
    following.inherit(file.header)
    assert following.header[:4] == (10_000, 10_000, 20, 20)
    following.put(batch((1, 30, 15_000), (2, 40, 17_500)))
    entries = following.file.mapping[80:120]
    assert [int.from_bytes(entries[at + 12 : at + 16]) for at in (0, 20)] == [5, 2]
    assert following.header[:4] == (15_000, 17_500, 30, 40)
    following.file.close()


def test_a_time_before_the_first_message_counts_as_the_same_time(file: IndexFile) -> None:
    file.put(batch((1, 10, 100_000), (1, 20, 50_000), (1, 30, 2**62)))
    seconds = [int.from_bytes(file.file.mapping[at + 12 : at + 16]) for at in (80, 100, 120)]
    assert seconds == [0, 0, 2**31 - 1]


def test_a_reopened_file_continues(tmp_path: Path, file: IndexFile) -> None:
    file.put(batch((7, 10, 1000)))
    again = IndexFile(file.file, SLOTS, ENTRIES)
    again.put(batch((7, 20, 1000)))
    assert find(again, 7) == [20, 10]


def test_a_file_that_was_never_written_starts_with_entry_one(file: IndexFile) -> None:
    assert IndexFile(file.file, SLOTS, ENTRIES).header.next_number == 1


def test_a_damaged_chain_ends_the_search(file: IndexFile) -> None:
    file.put(batch((7, 10, 1000), (7, 20, 1000), (7, 30, 1000)))
    for older in (2, 3, 9, -1, 2**31 - 1):
        position = 60 + 2 * 20 + 16  # of the older of entry 2
        file.file.mapping[position : position + 4] = older.to_bytes(4, signed=True)
        assert find(file, 7) == [30, 20]


def test_a_slot_beyond_the_last_entry_is_empty(file: IndexFile) -> None:
    file.put(batch((7, 10, 1000)))
    file.file.mapping[40 + 2 * 4 : 40 + 3 * 4] = (9).to_bytes(4)
    assert find(file, 7) == []
    file.put(batch((7, 20, 1000)))
    assert find(file, 7) == [20]


@pytest.mark.parametrize(("position", "value"), [(36, 13), (32, 6), (32, -1)])
def test_a_header_that_cannot_be_true_is_noticed(
    file: IndexFile, position: int, value: int
) -> None:
    assert file.is_sound
    file.file.mapping[position : position + 4] = value.to_bytes(4, signed=True)
    assert not IndexFile(file.file, SLOTS, ENTRIES).is_sound


def test_only_a_changed_file_is_synced(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    file = create_index_file(disk, tmp_path / "1", SLOTS, ENTRIES)
    file.put(batch((7, 10, 1000)))
    file.sync()
    file.sync()
    assert disk.syncs == 1
    file.put(batch((7, 10, 1000)))
    file.sync()
    assert disk.syncs == 2
    file.file.close()


@given(st.lists(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 9), max_size=6), max_size=4))
@pytest.mark.slow
def test_batches_make_the_same_file_as_single_keys(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
) -> None:
    directory = tmp_path_factory.mktemp("index")
    many, single = (
        create_index_file(SystemDisk(), directory / name, SLOTS, ENTRIES) for name in "ab"
    )
    number = 0
    for hashes in batches:
        keys = [(each, number + at, 1000 * (number + at)) for at, each in enumerate(hashes, 1)]
        number += len(keys)
        many.put(batch(*keys))
        for key in keys:
            single.put(batch(key))
    assert many.file.mapping[:] == single.file.mapping[:]
    for each in (many, single):
        each.file.close()


def test_slots_count_as_memory_of_this_process_and_all_else_only_when_it_is_used(
    tmp_path: Path,
) -> None:
    slots, entries = 100_000, 50_001
    path = tmp_path / "1"
    file = create_index_file(SystemDisk(), path, slots, entries)
    file.put(batch(*((2 * number, number, 1000) for number in range(entries - 2))))
    assert resident_size(path) >= 20 * (entries - 2)
    file.give_back_memory()
    assert resident_size(path) < 500_000
    # It was not on disk yet, and is there all the same.
    assert find(file, 84) == [42]
    file.put(batch((7, 43, 1000)))
    assert file.is_full
    file.give_back_memory()
    assert resident_size(path) == 0
    assert find(file, 7) == [43]
    file.file.close()
