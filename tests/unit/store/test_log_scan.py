from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V2
from roquet.store.consume_queue import unpack_entries
from roquet.store.errors import BadRecord
from roquet.store.files.mapped_file import MappedFile, create_file
from roquet.store.log_scan import (
    LogRecord,
    find_record,
    read_log_record,
    scan_file,
    scan_file_places,
    scan_stretches,
)
from tests.support.drafts import draft

BASE = 65536
SIZE = 4096


@pytest.fixture
def file(tmp_path: Path) -> Iterator[MappedFile]:
    file = create_file(SystemDisk(), tmp_path / "file", BASE, SIZE)
    yield file
    file.close()


def write(file: MappedFile, position: int, *drafts: RecordDraft) -> int:
    for number, each in enumerate(drafts):
        each.write(file.mapping, position, number, file.start + position, 1000 + number)
        position += each.size
    return position


def write_blank(file: MappedFile, position: int) -> None:
    file.mapping[position : position + 8] = (SIZE - position).to_bytes(4) + MAGIC_BLANK.to_bytes(
        4, signed=True
    )


def scanned(file: MappedFile, position: int = 0, end: int = SIZE) -> list[LogRecord]:
    """As they are found one by one; where they begin is found many at a time as well."""
    try:
        records = list(scan_file(file, position, end))
    except BadRecord:
        with pytest.raises(BadRecord):
            placed(file, position, end)
        raise
    assert placed(file, position, end) == [each.physical_offset for each in records]
    return records


def placed(file: MappedFile, position: int = 0, end: int = SIZE, count_max: int = 2) -> list[int]:
    places = scan_file_places(file, position, end, count_max)
    return [offset for each in places for offset in each.physical_offsets]


@pytest.mark.parametrize("has_checksum", [False, True])
def test_all_records_up_to_the_end_are_found(file: MappedFile, has_checksum: bool) -> None:
    first = draft(b"1", properties={"TAGS": "a"}, has_checksum=has_checksum)
    second = draft(b"22", topic="TopicB", queue_id=3, sys_flag=8, has_checksum=has_checksum)
    end = write(file, 0, first, second)
    one, two = scanned(file, end=end)
    assert (one.physical_offset, one.size, one.topic) == (BASE, first.size, b"TopicA")
    assert one.properties.startswith(b"TAGS\x01a")
    assert (two.physical_offset, two.size, two.topic) == (BASE + first.size, second.size, b"TopicB")
    assert (two.queue_id, two.queue_offset, two.sys_flag) == (3, 1, 8)
    assert two.store_timestamp == 1001


def test_rare_kinds_of_records_are_found_too(file: MappedFile) -> None:
    v6 = draft(b"1", born_host=pack_host("::1", 9))
    long_topic = draft(b"2", topic="T")
    v2 = RecordDraft(
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_timestamp=0,
        born_host=long_topic.born_host,
        store_host=long_topic.store_host,
        body=b"3",
        topic=b"L" * 200,
        properties=b"",
        magic=MAGIC_V2,
    )
    end = write(file, 0, v6, v2, draft(b"4"))
    assert [(each.topic, each.size) for each in scanned(file, end=end)] == [
        (b"TopicA", v6.size),
        (b"L" * 200, v2.size),
        (b"TopicA", draft(b"4").size),
    ]


def test_every_kind_of_record_reads_the_same_in_both_ways(file: MappedFile) -> None:
    drafts = [draft(b"1" * 100, properties={"KEYS": "k"}), draft(b"", has_checksum=False)]
    end = write(file, 0, *drafts)
    assert scanned(file, end=end) == [
        read_log_record(file.mapping, 0, BASE),
        read_log_record(file.mapping, drafts[0].size, BASE),
    ]


@pytest.mark.parametrize("left", [8, 60, 90, 91, 500])
def test_a_blank_ends_a_file(file: MappedFile, left: int) -> None:
    filler = draft(b"x" * (SIZE - left - draft(b"").size))
    end = write(file, 0, filler)
    assert end == SIZE - left
    write_blank(file, end)
    assert len(scanned(file)) == 1


def test_a_blank_that_does_not_reach_the_end_of_the_file_is_no_blank(file: MappedFile) -> None:
    write_blank(file, 100)
    file.mapping[0:8] = file.mapping[100:108]
    with pytest.raises(BadRecord):
        scanned(file)


def test_zeros_are_no_record(file: MappedFile) -> None:
    end = write(file, 0, draft())
    scan = scan_file(file, 0, SIZE)
    assert next(scan).physical_offset == BASE
    with pytest.raises(BadRecord) as caught:
        next(scan)
    assert caught.value.physical_offset == BASE + end


def test_a_record_at_a_place_that_is_not_its_own_is_bad(file: MappedFile) -> None:
    draft().write(file.mapping, 0, 0, BASE + 1, 0)
    with pytest.raises(BadRecord, match="claims to lie at 65537"):
        scanned(file)


def test_every_flipped_byte_of_a_record_with_checksum_is_noticed(file: MappedFile) -> None:
    end = write(file, 0, draft(b"some body", properties={"TAGS": "a", "KEYS": "b c"}))
    for position in range(end):
        file.mapping[position] ^= 0xFF
        with pytest.raises(BadRecord):
            scanned(file, end=end)
        with pytest.raises(BadRecord):
            read_log_record(file.mapping, 0, BASE)
        file.mapping[position] ^= 0xFF
    assert len(scanned(file, end=end)) == 1
    assert read_log_record(file.mapping, 0, BASE).size == end


def test_where_records_start_is_found_a_few_at_a_time(file: MappedFile) -> None:
    size = draft(b"1").size
    write(file, 0, *[draft(b"1")] * 5)
    found = list(scan_file_places(file, 0, 5 * size, count_max=2))
    assert [len(each.physical_offsets) for each in found] == [2, 2, 1]
    assert [each.end for each in found] == [BASE + count * size for count in (2, 4, 5)]


def test_no_checksum_is_made_again_of_records_that_are_verified(file: MappedFile) -> None:
    end = write(file, 0, draft(b"some body"), draft(b"another"))
    file.mapping[90] ^= 1
    file.is_verified = True
    assert placed(file, end=end) == [BASE, BASE + draft(b"some body").size]


@pytest.mark.parametrize("position", [3, 31, 87])
def test_no_wrong_size_or_place_leads_astray_even_in_what_is_verified(
    file: MappedFile, position: int
) -> None:
    end = write(file, 0, *[draft(b"some body")] * 4)
    file.is_verified = True
    # As if the first record went on to the end of the second, among others.
    for bit in range(8):
        file.mapping[position] ^= 1 << bit
        with pytest.raises(BadRecord) as caught:
            placed(file, end=end)
        assert caught.value.physical_offset == BASE
        file.mapping[position] ^= 1 << bit


def test_a_flipped_byte_in_the_body_is_noticed_without_checksum(file: MappedFile) -> None:
    end = write(file, 0, draft(b"some body", has_checksum=False))
    file.mapping[90] ^= 1
    with pytest.raises(BadRecord, match="CRC"):
        scanned(file, end=end)


@pytest.mark.parametrize("size", [400, 410, 430, 1000])
def test_a_record_whose_last_sector_was_never_written_is_bad(file: MappedFile, size: int) -> None:
    """The checksum, which would tell, is lost with it."""
    end = write(file, 0, draft(bytes([1]) * size, properties={"KEYS": "k" * 20}))
    position = (end - 1) // 512 * 512
    file.mapping[position:end] = bytes(end - position)
    with pytest.raises(BadRecord):
        scanned(file, end=end)
    with pytest.raises(BadRecord):
        read_log_record(file.mapping, 0, BASE)


def test_a_record_that_was_not_written_to_its_end_is_bad(file: MappedFile) -> None:
    """Its writer was killed: what it had no time for is zero, the checksum above all."""
    end = write(file, 0, draft(b"some body", properties={"TAGS": "a", "KEYS": "b c"}))
    for stopped_at in reversed(range(end)):
        file.mapping[stopped_at] = 0
        with pytest.raises(BadRecord):
            scanned(file, end=end)
        with pytest.raises(BadRecord):
            read_log_record(file.mapping, 0, BASE)


def test_a_property_may_end_in_a_zero(file: MappedFile) -> None:
    end = write(file, 0, draft(properties={"name": "value\0"}, has_checksum=False))
    assert len(scanned(file, end=end)) == 1


def test_a_record_that_reaches_over_the_end_is_bad(file: MappedFile) -> None:
    end = write(file, 0, draft(b"x" * 200))
    with pytest.raises(BadRecord):
        scanned(file, end=end - 1)


def test_the_next_good_record_is_found_behind_damage(file: MappedFile) -> None:
    end = write(file, 0, draft(b"1"), draft(b"2"), draft(b"3"))
    size = end // 3
    file.mapping[size + 90] ^= 1
    found = find_record(file, size)
    assert found is not None
    assert found.physical_offset == BASE + 2 * size


def test_the_record_at_the_position_itself_is_found(file: MappedFile) -> None:
    write(file, 5, draft(b"1"))
    assert find_record(file, 6) is None
    found = find_record(file, 5)
    assert found is not None
    assert found.physical_offset == BASE + 5


def test_a_magic_across_two_chunks_is_found(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "file", 0, 3 << 20)
    for position in range((1 << 20) - 8, (1 << 20) + 1):
        file.zero_from(0)
        write(file, position, draft(b"1"))
        found = find_record(file, 0)
        assert found is not None
        assert found.physical_offset == position
    file.close()


def test_nothing_is_found_where_nothing_is(file: MappedFile) -> None:
    assert find_record(file, 0) is None
    file.mapping[-3:] = b"\xda\xa3\x20"
    assert find_record(file, 0) is None


def test_more_than_properties_can_hold_is_none(tmp_path: Path) -> None:
    """A body that seems shorter than it is leaves the rest of it to the properties."""
    file = create_file(SystemDisk(), tmp_path / "large", BASE, 1 << 18)
    end = write(file, 0, draft(bytes(1 << 17)))
    file.mapping[84:88] = bytes(4)
    with pytest.raises(BadRecord, match="sizes"):
        scanned(file, end=end)
    file.close()


def test_many_records_come_in_stretches(tmp_path: Path) -> None:
    """Of more queues than are kept apart at once, in no special order."""
    file = create_file(SystemDisk(), tmp_path / "large", BASE, 1 << 21)
    position = 0
    expected: dict[int, list[int]] = {}
    for number in range(3000):
        queue_id = number * number % 701
        each = draft(b"x" * 500, queue_id=queue_id)
        offsets = expected.setdefault(queue_id, [])
        each.write(file.mapping, position, len(offsets), BASE + position, number)
        offsets.append(BASE + position)
        position += each.size
    stretches = list(scan_stretches(file, 0, position))
    assert len(stretches) > 2
    assert sum(each.record_count for each in stretches) == 3000
    assert (stretches[-1].last_timestamp, stretches[-1].latest_timestamp) == (2999, 2999)
    found: dict[int, list[int]] = {}
    for run in (run for each in stretches for run in each.runs):
        offsets = found.setdefault(run.queue_id, [])
        assert run.queue_offset == len(offsets)
        offsets += [physical_offset for physical_offset, _, _ in unpack_entries(run.entries)]
    assert found == expected
    file.close()
