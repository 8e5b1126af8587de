"""Records of slices of the log: cut anywhere, with bodies that claim to be records, damaged."""

from itertools import pairwise
from struct import Struct

import numpy as np
import pytest

from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from roquet.protocol.record_columns import decode_records, find_records

BASE = 7000
HOST = pack_host("127.0.0.1", 10911)
PREFIX = Struct(">ii")


def record(
    physical_offset: int, body: bytes = b"hello", *, magic: int = MAGIC_V1, topic: bytes = b"T"
) -> bytes:
    draft = RecordDraft(
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_timestamp=0,
        born_host=HOST,
        store_host=HOST,
        body=body,
        topic=topic,
        properties=b"TAGS\x01a",
        magic=magic,
    )
    data = bytearray(draft.size)
    draft.write(data, 0, 0, physical_offset, 0)
    return bytes(data)


RECORD_SIZE = len(record(0))
BODY_AT = 88


class Log:
    """A log that starts at BASE, and where its records do."""

    def __init__(self) -> None:
        self.data = b""
        self.starts: list[int] = []

    @property
    def end(self) -> int:
        return BASE + len(self.data)

    def add(self, body: bytes = b"hello", magic: int = MAGIC_V1) -> "Log":
        self.starts.append(self.end)
        self.data += record(self.end, body, magic=magic)
        return self

    def add_with_claims(self, count: int = 2) -> "Log":
        """A record whose body holds records that say of themselves that they lie right there."""
        body = b"x" * 10
        for _ in range(count):
            body += record(self.end + BODY_AT + len(body))
        return self.add(body + b"y" * 10)

    def add_with_exit(self) -> "Log":
        """A record whose body claims to be one that ends where the record does."""
        inner = record(self.end + BODY_AT, b"")
        properties_at = len(inner) - len(b"TAGS\x01a")
        tail_size = 1 + len(b"T") + 2 + len(b"TAGS\x01a")
        inner = (len(inner) + tail_size).to_bytes(4) + inner[4 : properties_at - 2]
        inner += (len(b"TAGS\x01a") + tail_size).to_bytes(2) + b"TAGS\x01a"
        return self.add(inner)

    def add_blank(self, size: int = 100) -> "Log":
        self.data += PREFIX.pack(size, MAGIC_BLANK) + bytes(size - PREFIX.size)
        return self

    def find(self, begin: int, end: int, record_size_max: int = 2000) -> list[int]:
        found = find_records(
            self.data, base=BASE, begin=begin, end=end, record_size_max=record_size_max
        )
        return [BASE + start for start in found.starts.tolist()]

    def between(self, begin: int, end: int) -> list[int]:
        return [start for start in self.starts if begin <= start < end]


def mixed_log() -> Log:
    log = Log().add().add(b"z" * 300).add_with_claims().add().add_with_claims(1).add(magic=MAGIC_V2)
    return log.add(b"").add_with_claims(3).add().add_blank()


@pytest.mark.parametrize("count", [1023, 1024, 1025, 2049])
def test_as_many_records_are_found_as_there_are(count: int) -> None:
    log = Log()
    for _ in range(count):
        log.add(b"")
    assert log.find(BASE, log.end) == log.starts
    # Without a record that is known to start there, all that claims to be one is looked at.
    assert log.find(BASE + 1, log.end) == log.starts[1:]
    assert find_records(log.data, base=BASE, begin=BASE, end=log.end, anchor=BASE).stop == log.end
    assert decode_records(log.data, ["physicalOffset"])[0].to_pylist() == log.starts


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_cut_anywhere_slices_hold_every_record_once(size: int) -> None:
    log = mixed_log()
    for shift in range(0, size, max(1, size // 10)):
        cuts = [BASE, *range(BASE + shift + 1, log.end, size), log.end]
        assert [start for pair in pairwise(cuts) for start in log.find(*pair)] == log.starts


def test_a_slice_without_what_lies_before_it_finds_its_records_at_every_cut() -> None:
    log = mixed_log()
    for begin in range(BASE, log.end):
        data = log.data[begin - BASE :]
        found = find_records(data, base=begin, begin=begin, end=log.end, record_size_max=2000)
        assert [begin + start for start in found.starts] == log.between(begin, log.end)
        assert found.stop == log.end or not found.starts.size


@pytest.mark.slow
def test_a_slice_with_little_before_it_does_not_believe_the_end_of_a_cut_body() -> None:
    log = mixed_log().add()
    for first in range(BASE, log.end, 3):
        for begin in range(first, min(first + 300, log.starts[-1]), 7):
            found = find_records(log.data[first - BASE :], base=first, begin=begin, end=log.end)
            assert [first + start for start in found.starts] == log.between(begin, log.end)


def test_data_that_ends_inside_a_record_stops_where_it_starts() -> None:
    log = mixed_log()
    for size in range(len(log.data) + 1):
        found = find_records(log.data[:size], base=BASE, begin=BASE, end=log.end)
        ends = [*log.starts[1:], log.end - 100]
        whole = [start for start, end in zip(log.starts, ends, strict=True) if end <= BASE + size]
        assert [BASE + start for start in found.starts] == whole
        assert (found.stop == log.end) == (size == len(log.data))


def test_what_a_body_claims_is_not_believed_even_if_it_leads_to_a_record() -> None:
    log = Log().add().add_with_exit().add()
    for begin in range(BASE + 1, log.end):
        assert log.find(begin, log.end) == log.between(begin, log.end)


def test_claims_at_the_start_of_a_window_are_checked_in_the_window_before_it() -> None:
    # Windows that begin inside such a body do not hold the record around it.
    log = Log().add().add().add_with_exit().add_with_exit().add()
    size_max = max(np.diff([*log.starts, log.end]).tolist())
    for begin in range(BASE + 1, log.end):
        assert log.find(begin, log.end, size_max) == log.between(begin, log.end)


def test_an_anchor_decides_where_claims_contradict_each_other_down_to_it() -> None:
    log = Log()
    for _ in range(5):
        log.add_with_exit()
    for anchor in log.starts:
        data = log.data[anchor - BASE :]
        for begin in range(anchor, log.end):
            found = find_records(
                data, base=anchor, begin=begin, end=log.end, anchor=anchor, record_size_max=150
            )
            assert [anchor + start for start in found.starts] == log.between(begin, log.end)


def test_a_slice_inside_one_body_has_no_record() -> None:
    log = Log().add().add(b"z" * 1000).add()
    begin = log.starts[1] + 100
    assert log.find(begin, begin + 500) == []


def test_a_record_that_lies_elsewhere_than_it_says_stops_the_walk() -> None:
    log = Log().add().add()
    data = log.data + record(1)
    found = find_records(data, base=BASE, begin=BASE, end=log.end + RECORD_SIZE, anchor=BASE)
    assert found.stop == log.end
    assert found.starts.tolist() == [0, RECORD_SIZE]


def test_behind_damage_records_are_found_again() -> None:
    log = Log().add().add(b"b" * 200).add().add()
    damaged = bytearray(log.data)
    position = log.starts[1] - BASE
    damaged[position : position + 8] = bytes(8)
    before = find_records(damaged, base=BASE, begin=BASE, end=log.end, anchor=BASE)
    assert before.stop == log.starts[1]
    behind = find_records(damaged, base=BASE, begin=before.stop + 1, end=log.end)
    assert [BASE + start for start in behind.starts] == log.starts[2:]
    assert behind.stop == log.end


def test_a_blank_between_two_files_is_passed_over() -> None:
    log = Log().add().add_blank(30).add().add()
    for begin in range(BASE, log.end):
        assert log.find(begin, log.end) == log.between(begin, log.end)


def test_starts_are_what_the_decoder_takes() -> None:
    log = mixed_log()
    begin = log.starts[2] + 1
    found = find_records(log.data, base=BASE, begin=begin, end=log.starts[-1])
    batch = decode_records(log.data, ["physicalOffset"], starts=found.starts)
    assert batch.column(0).to_pylist() == log.starts[3:-1]


@pytest.mark.parametrize(
    ("begin", "end", "anchor"),
    [(BASE - 1, BASE, None), (BASE + 1, BASE, None), (BASE, BASE, BASE + 1), (BASE, BASE, 0)],
)
def test_slices_that_do_not_follow_their_base_are_refused(
    begin: int, end: int, anchor: int | None
) -> None:
    with pytest.raises(ValueError, match="does not follow"):
        find_records(b"", base=BASE, begin=begin, end=end, anchor=anchor)


@pytest.mark.parametrize("data", [b"", b"\xda" * 50, bytes(200)])
def test_where_nothing_is_nothing_is_found(data: bytes) -> None:
    found = find_records(data, base=0, begin=0, end=len(data))
    assert found.starts.tolist() == []
