"""Records that are decoded on access."""

import pytest

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.record_reading import LazyRecord, split_lazily
from tests.support.golden_records import golden_records
from tests.support.records import PLAIN_DRAFT, changed, record_of

RECORD = record_of(PLAIN_DRAFT)
OTHER = record_of(changed(PLAIN_DRAFT, body=b"another one"))


class Derived(LazyRecord):
    __slots__ = ("__dict__",)


def test_a_reply_is_cut_into_its_records() -> None:
    first, second = split_lazily(Derived, RECORD + OTHER, "queue")
    assert (first.size, second.size) == (len(RECORD), len(OTHER))
    assert (first.record, second.record) == (read_record(RECORD), read_record(OTHER))
    assert (first.body, second.body) == (b"hello", b"another one")
    assert first.queue_offset == read_record(RECORD).queue_offset
    assert first.queue == "queue"
    assert type(first) is Derived


def test_a_reply_without_records_holds_none() -> None:
    assert split_lazily(LazyRecord, b"", None) == []


def test_what_derives_may_keep_more() -> None:
    (record,) = split_lazily(Derived, RECORD, None)
    record.__dict__["mood"] = "fine"
    record.queue = "another"
    assert (record.__dict__, record.queue) == ({"mood": "fine"}, "another")


def test_only_records_are_made() -> None:
    with pytest.raises(TypeError):
        split_lazily(int, RECORD, None)  # type: ignore[type-var]


@pytest.mark.parametrize("size", [1, 4, 90, len(RECORD) - 1, len(RECORD) + 1])
def test_a_reply_that_ends_within_a_record_is_refused(size: int) -> None:
    with pytest.raises(BadMessage):
        split_lazily(LazyRecord, (RECORD + RECORD)[:size], None)


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 90, len(RECORD) + 1, 2**31 - 1])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(BadMessage):
        split_lazily(LazyRecord, size.to_bytes(4, signed=True) + RECORD[4:], None)


def test_every_recorded_record_is_read_as_by_others() -> None:
    for golden in golden_records():
        (record,) = split_lazily(LazyRecord, golden.data, None)
        assert record.record == read_record(golden.data)
        assert record.body == record.record.decompressed_body()


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (84, b"\xff\xff\xff\xff"),
        (84, b"\x7f"),
        (90, b"!"),
        (8, b"\xff"),
        (93, b"\x7f"),
        (96, b"\x7f"),
    ],
)
def test_the_body_of_a_broken_record_is_refused(position: int, value: bytes) -> None:
    damaged = bytearray(RECORD)
    damaged[position : position + len(value)] = value
    (record,) = split_lazily(LazyRecord, bytes(damaged), None)
    with pytest.raises(BadMessage):
        _ = record.body


@pytest.mark.parametrize("size", [-1, 0, 87, len(RECORD) - 1, len(RECORD) + 1, 2**62])
@pytest.mark.parametrize("position", [0, 1, len(RECORD), 2**62])
def test_nothing_is_read_outside_the_buffer(position: int, size: int) -> None:
    buffer = RECORD[:-1]
    with pytest.raises(BadMessage):
        _ = LazyRecord(buffer, position, size, None, 0).body


def test_a_record_that_was_never_made_has_no_body() -> None:
    with pytest.raises((BadMessage, TypeError)):
        _ = LazyRecord.__new__(LazyRecord).body
