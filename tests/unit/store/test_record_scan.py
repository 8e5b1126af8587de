"""Records at once are judged as they are one by one, also where the two readers could differ."""

from mmap import mmap

import pytest

from roquet.protocol.messages.record import checksum_of
from roquet.store.errors import BadRecord
from roquet.store.log_scan import read_log_record
from roquet.store.record_scan import scan_heads, scan_runs
from tests.support.records import PLAIN_DRAFT, changed, record_of

HEAD = record_of(changed(PLAIN_DRAFT, body=b"", topic=b"", properties=b""), physical_offset=0)[:88]


def built(topic: bytes, properties: bytes) -> bytes:
    """A record with sizes that no writer would use, and without a checksum."""
    record = bytearray(HEAD) + bytes((len(topic),)) + topic
    record += len(properties).to_bytes(2) + properties
    record[:4] = len(record).to_bytes(4)
    return bytes(record)


def with_checksum(record: bytes) -> bytes:
    """Right behind the last byte, whatever that is."""
    longer = bytearray(record)
    longer[:4] = (len(record) + 20).to_bytes(4)
    longer[89:91] = (int.from_bytes(record[89:91]) + 20).to_bytes(2)
    return bytes(longer) + checksum_of(bytes(longer))


@pytest.mark.parametrize(("topic_size", "properties_size"), [(0, 0), (127, 3), (0, 32767)])
def test_sizes_up_to_their_limits_are_good(topic_size: int, properties_size: int) -> None:
    record = built(b"t" * topic_size, b"x" * properties_size)
    assert found_one_by_one(record)
    assert found_at_once(record)


@pytest.mark.parametrize(
    ("topic_size", "properties_size"), [(128, 3), (255, 0), (0, 32768), (0, 65535)]
)
def test_sizes_that_are_negative_are_bad(topic_size: int, properties_size: int) -> None:
    record = built(b"t" * topic_size, b"x" * properties_size)
    assert not found_one_by_one(record)
    assert not found_at_once(record)


@pytest.mark.parametrize(
    ("properties", "is_good"), [(b"", True), (b"A\x01b\x02", True), (b"A\x01b", False)]
)
def test_only_a_property_of_its_own_is_a_checksum(properties: bytes, is_good: bool) -> None:
    record = with_checksum(built(b"", properties))
    assert found_one_by_one(record) == is_good
    assert found_at_once(record) == is_good


def found_one_by_one(record: bytes) -> bool:
    with mmap(-1, len(record)) as mapping:
        mapping[:] = record
        try:
            return read_log_record(mapping, 0, 0).size == len(record)
        except BadRecord:
            return False


def found_at_once(record: bytes) -> bool:
    heads, _, fault = scan_heads(record, 0, 0, len(record), 1 << 20)
    count, *_, fault_again = scan_runs(record, 0, 0, len(record), 1 << 20)
    assert (count, fault_again) == (len(heads), fault)
    assert bool(heads) == (fault is None)
    return bool(heads)
