"""What is uncommon is left to the caller, which is tested with `queue_reading`."""

import struct
from mmap import mmap
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from roquet.protocol.messages.record import CHECKSUM_SIZE, checksum_of
from roquet.store.reading.gathering import Gathering
from roquet.store.reading.queue_reading import QueueReadLimits
from roquet.store.record_scan import scan_heads
from tests.support.drafts import draft

QUEUE = SimpleNamespace(queue_id=0, topic=b"TopicA")
FILE_START = 4096
LOG_END = 1 << 40
OFFSET = 10
ENTRY = struct.Struct(">qiq")


class Stored:
    """Three records at the start of a file of the log."""

    def __init__(self, file_start: int = FILE_START) -> None:
        self.file_start = file_start
        drafts = [draft(b"%d" % number * 5) for number in range(3)]
        self.records: list[bytes] = []
        self.entries = b""
        self.mapping = mmap(-1, 4096)
        position = 0
        for number, each in enumerate(drafts):
            each.write(self.mapping, position, OFFSET + number, file_start + position, 1)
            self.records.append(self.mapping[position : position + each.size])
            self.entries += ENTRY.pack(file_start + position, each.size, number)
            position += each.size

    def damage(self, number: int) -> None:
        """In the body of one of them."""
        self.mapping[sum(map(len, self.records[:number])) + 88] ^= 1

    def moved(self, distance: int) -> "Stored":
        """The same, damage and all, elsewhere in the log."""
        other = Stored(self.file_start + distance)
        for number, (here, there) in enumerate(zip(self.records, other.records, strict=True)):
            start = sum(map(len, self.records[:number]))
            if self.mapping[start : start + len(here)] != here:
                other.damage(number)
            assert len(here) == len(there)
        return other


def take_common(
    gathering: Gathering,
    mapping: mmap,
    file_start: int,
    end: int,
    *,
    is_verified: bool,
    checksums_from: int = LOG_END,
) -> bool:
    """Nothing is fresh."""
    return gathering.take_common(
        mapping,
        file_start,
        end,
        is_verified,
        checksums_from,
        LOG_END,
    )


@pytest.fixture
def stored() -> Stored:
    return Stored()


def gathered(
    stored: Stored,
    entries: bytes | None = None,
    limits: QueueReadLimits | None = None,
) -> Gathering:
    gathering = Gathering(
        limits or QueueReadLimits(32, 1 << 20),
        stored.entries if entries is None else entries,
        OFFSET,
        QUEUE,
    )
    take_common(gathering, stored.mapping, stored.file_start, LOG_END, is_verified=True)
    return gathering


def test_common_records_are_taken_as_they_lie(stored: Stored) -> None:
    gathering = gathered(stored)
    assert gathering.body() == b"".join(stored.records)
    assert (gathering.count, gathering.offset) == (3, OFFSET + 3)
    assert gathering.next_entry() is None


def test_more_records_than_fit_a_run_are_all_taken(stored: Stored) -> None:
    size = draft(b"x").size
    count = 1000
    with mmap(-1, count * size) as mapping:
        for number in range(count):
            draft(b"x").write(mapping, number * size, number, number * size, 1)
        entries = b"".join(ENTRY.pack(number * size, size, 0) for number in range(count))
        gathering = Gathering(QueueReadLimits(count, 1 << 30), entries, 0, QUEUE)
        assert take_common(gathering, mapping, 0, LOG_END, is_verified=True)
        assert gathering.body() == mapping[:]
    assert gathering.count == count


@pytest.mark.parametrize(
    ("count_max", "records_size_max", "count"), [(2, 9, 2), (9, 2, 2), (0, 0, 1), (9, 0, 1)]
)
def test_the_limits_leave_at_least_one_record(
    stored: Stored, count_max: int, records_size_max: int, count: int
) -> None:
    size_max = records_size_max * len(stored.records[0])
    gathering = gathered(stored, limits=QueueReadLimits(count_max, size_max))
    assert gathering.body() == b"".join(stored.records[:count])
    assert gathering.next_entry() is None


@pytest.mark.parametrize(
    "limits",
    [
        QueueReadLimits(9, 9999, matches_code=lambda code: code != 1),
        QueueReadLimits(9, 9999, matches_record=lambda record: b"11111" not in record),
    ],
)
def test_filters_drop_records(stored: Stored, limits: QueueReadLimits) -> None:
    gathering = gathered(stored, limits=limits)
    assert gathering.body() == stored.records[0] + stored.records[2]
    assert gathering.offset == OFFSET + 3


def test_a_code_that_is_no_hash_passes_every_filter(stored: Stored) -> None:
    entry = ENTRY.pack(FILE_START, len(stored.records[0]), -(2**31) - 1)
    gathering = gathered(stored, entry, QueueReadLimits(9, 9999, matches_code=lambda _: False))
    assert gathering.count == 1


@pytest.mark.parametrize("name", ["matches_code", "matches_record"])
def test_a_filter_that_fails_leaves_the_file_free_to_be_closed(stored: Stored, name: str) -> None:
    def fail(_: object) -> bool:
        raise ZeroDivisionError

    limits = replace(QueueReadLimits(9, 9999), **{name: fail})
    with pytest.raises(ZeroDivisionError):
        gathered(stored, limits=limits)
    stored.mapping.close()


# The numbers of a record that are compared, and the sizes of its parts.
COMPARED = [*range(8), *range(12, 16), *range(20, 36), 39, *range(84, 88), *range(93, 102)]


@pytest.mark.parametrize("position", COMPARED)
@pytest.mark.parametrize("bit", [1, 0x20, 0x80])
def test_a_record_that_says_something_else_is_not_taken(
    stored: Stored, position: int, bit: int
) -> None:
    if position == 39 and bit != 0x20:
        return  # Other flags than those of long addresses may be there.
    damaged = len(stored.records[0]) + position
    stored.mapping[damaged] ^= bit
    gathering = gathered(stored)
    assert gathering.body() == stored.records[0]
    assert gathering.next_entry() == (
        FILE_START + len(stored.records[0]),
        len(stored.records[1]),
    )


@pytest.mark.parametrize("position", range(12))
@pytest.mark.parametrize("bit", [1, 0x80])
def test_an_entry_that_says_something_else_takes_nothing(
    stored: Stored, position: int, bit: int
) -> None:
    entries = bytearray(stored.entries)
    entries[position] ^= bit
    gathering = gathered(stored, bytes(entries))
    assert (gathering.count, gathering.offset) == (0, OFFSET)


@pytest.mark.parametrize("size", [0, 1, 19])
def test_what_is_no_whole_entry_is_not_looked_at(stored: Stored, size: int) -> None:
    assert gathered(stored, stored.entries[:size]).next_entry() is None


def test_a_record_that_does_not_end_in_its_file_is_not_taken(stored: Stored) -> None:
    size = len(stored.records[0])
    with mmap(-1, size - 1) as mapping:
        mapping[:] = stored.records[0][:-1]
        gathering = Gathering(QueueReadLimits(9, 9999), stored.entries, OFFSET, QUEUE)
        assert not take_common(gathering, mapping, FILE_START, LOG_END, is_verified=True)


def test_what_others_found_is_taken_in_its_place(stored: Stored) -> None:
    gathering = Gathering(QueueReadLimits(9, 9999), stored.entries, OFFSET, QUEUE)
    gathering.take(b"instead")
    gathering.take(b"")
    take_common(gathering, stored.mapping, FILE_START, LOG_END, is_verified=True)
    assert gathering.body() == b"instead" + stored.records[2]
    assert (gathering.count, gathering.size) == (2, 7 + len(stored.records[2]))


@pytest.mark.parametrize("is_verified", [True, False])
def test_what_lies_after_the_end_of_the_log_is_not_taken(stored: Stored, is_verified: bool) -> None:
    end = FILE_START + len(stored.records[0]) + len(stored.records[1])
    for cut, count in ((0, 2), (1, 1), (end, 0)):
        gathering = Gathering(QueueReadLimits(9, 9999), stored.entries, OFFSET, QUEUE)
        take_common(gathering, stored.mapping, FILE_START, end - cut, is_verified=is_verified)
        assert gathering.count == count


@pytest.mark.parametrize("properties", [None, {"A": "b"}, {"A": "b\x02"}])
def test_of_an_unverified_file_records_with_their_checksum_are_taken(
    properties: dict[str, str] | None,
) -> None:
    each = draft(b"hello", properties=properties)
    assert unverified(each.pack(OFFSET, FILE_START, 1)) == each.pack(OFFSET, FILE_START, 1)


def test_every_damaged_byte_of_an_unverified_record_is_noticed() -> None:
    record = draft(b"hello", properties={"A": "b"}).pack(OFFSET, FILE_START, 1)
    for position in range(len(record)):
        for bit in (1, 2, 0x80):
            damaged = bytearray(record)
            damaged[position] ^= bit
            assert unverified(bytes(damaged)) == b"", position


@pytest.mark.parametrize("properties", [None, {"A": "b"}, {"A": "b" * 40}])
def test_of_an_unverified_file_records_that_never_had_a_checksum_are_taken(
    properties: dict[str, str] | None,
) -> None:
    record = draft(b"hello", properties=properties, has_checksum=False).pack(OFFSET, FILE_START, 1)
    assert unverified(record) == record


def test_a_body_of_an_unverified_record_without_a_checksum_is_compared() -> None:
    record = bytearray(draft(b"hello", has_checksum=False).pack(OFFSET, FILE_START, 1))
    record[88] ^= 1
    assert unverified(bytes(record)) == b""


@pytest.mark.parametrize("has_checksum", [False, True])
def test_of_an_unverified_file_nothing_is_taken_that_the_log_refuses(has_checksum: bool) -> None:
    each = draft(b"hello", properties={"A": "b" * 40}, has_checksum=has_checksum)
    record = each.pack(OFFSET, FILE_START, 1)
    for position in range(len(record)):
        damaged = bytearray(record)
        damaged[position] = 0
        if unverified(bytes(damaged)):
            heads, _, reason = scan_heads(bytes(damaged), FILE_START, 0, len(damaged), 1)
            assert (len(heads), reason) == (1, None), position


@pytest.mark.parametrize("size", range(1, CHECKSUM_SIZE + 1))
def test_an_unverified_record_whose_checksum_was_never_written_is_left_to_others(size: int) -> None:
    record = draft(b"hello", properties={"A": "b"}).pack(OFFSET, FILE_START, 1)
    assert unverified(record[:-size] + bytes(size)) == b""


def test_a_body_that_breaks_its_crc_is_not_saved_by_the_checksum() -> None:
    record = bytearray(draft(b"hello").pack(OFFSET, FILE_START, 1))
    record[8] ^= 1
    covered = bytes(record[:-CHECKSUM_SIZE])
    assert unverified(covered + checksum_of(covered)) == b""


def unverified(record: bytes) -> bytes:
    with mmap(-1, 4096) as mapping:
        mapping[: len(record)] = record
        entry = ENTRY.pack(FILE_START, len(record), 0)
        gathering = Gathering(QueueReadLimits(9, 9999), entry, OFFSET, QUEUE)
        take_common(gathering, mapping, FILE_START, LOG_END, is_verified=False)
        return gathering.body()


@pytest.mark.parametrize("distance", [0, 1])
def test_where_all_have_checksums_one_without_is_left_to_others(distance: int) -> None:
    record = draft(b"hello", has_checksum=False).pack(OFFSET, FILE_START, 1)
    with mmap(-1, 4096) as mapping:
        mapping[: len(record)] = record
        entry = ENTRY.pack(FILE_START, len(record), 0)
        gathering = Gathering(QueueReadLimits(9, 9999), entry, OFFSET, QUEUE)
        taken = take_common(
            gathering,
            mapping,
            FILE_START,
            LOG_END,
            is_verified=True,
            checksums_from=FILE_START + distance,
        )
    assert taken is (distance > 0)
