"""No compiled reader takes a record for good that is not: whatever its sizes say, however it ends.

They all go by `record_parts.pxd`; the judge is `record.py`, which they leave the rest to.
"""

import ctypes
from collections.abc import Callable, Iterator
from mmap import PAGESIZE, PROT_READ, PROT_WRITE, mmap
from struct import Struct
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from roquet.protocol.errors import BadMessage
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import (
    CHECKSUM_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    peek_record,
)
from roquet.protocol.messages.record_reading import LazyRecord
from roquet.protocol.messages.redelivery import common_redelivery
from roquet.store.consume_queue import pack_entry
from roquet.store.keys.key_scan import scan_keys
from roquet.store.reading.gathering import Gathering
from roquet.store.reading.queue_reading import QueueReadLimits
from roquet.store.record_scan import scan_heads, scan_runs
from tests.support.records import PLAIN_DRAFT, changed, record_of

V4, V6 = pack_host("10.0.0.1", 1), pack_host("::1", 1)
QUEUE = SimpleNamespace(queue_id=PLAIN_DRAFT.queue_id, topic=PLAIN_DRAFT.topic)
QUEUE_OFFSET = 7
WAITING = b"REAL_TOPIC\x01orders\x02REAL_QID\x017\x02KEYS\x01k"
USUAL = changed(PLAIN_DRAFT, properties=WAITING, has_checksum=True)
KINDS = [
    changed(USUAL, magic=magic, born_host=born_host, store_host=store_host)
    for magic in (MAGIC_V1, MAGIC_V2)
    for born_host in (V4, V6)
    for store_host in (V4, V6)
]
INT16, INT32 = Struct(">h"), Struct(">i")


def gathered(record: bytes, *, is_verified: bool) -> bool:
    with mmap(-1, max(1, len(record))) as mapping:
        mapping[: len(record)] = record
        entry = pack_entry(0, len(record), 0)
        gathering = Gathering(QueueReadLimits(1, 1 << 20), entry, QUEUE_OFFSET, QUEUE)
        return gathering.take_common(
            mapping,
            0,
            len(record),
            is_verified,
            False,
            0,
        )


def has_body(record: bytes) -> bool:
    try:
        return LazyRecord(record, 0, len(record), None, 0).body == PLAIN_DRAFT.body
    except BadMessage:
        return False


Reader = Callable[[bytes], bool]
# Of the common layout alone, and of every kind.
USUAL_READERS: dict[str, Reader] = {
    "heads": lambda record: bool(scan_heads(record, 0, 0, len(record), 1 << 20)[0]),
    "runs": lambda record: bool(scan_runs(record, 0, 0, len(record), 1 << 20)[0]),
    "pull": lambda record: gathered(record, is_verified=True),
    "first pull": lambda record: gathered(record, is_verified=False),
    "redelivery": lambda record: common_redelivery(record, True) is not None,
}
READERS: dict[str, Reader] = {
    "keys": lambda record: not scan_keys(record, 0, [0], True)[1],
    "body": has_body,
}
# These compare no checksum.
NO_CHECKSUM = ("pull", "redelivery", "keys", "body")


def packed(draft: RecordDraft) -> bytes:
    return record_of(draft, QUEUE_OFFSET, 0)


def is_whole(record: bytes) -> bool:
    """Whether its parts add up to it."""
    try:
        return peek_record(record).size == len(record)
    except BadMessage:
        return False


def readers_of(draft: RecordDraft) -> dict[str, Reader]:
    return READERS | USUAL_READERS if draft is KINDS[0] else READERS


def size_places(draft: RecordDraft) -> list[tuple[int, Struct]]:
    """Where the sizes lie: record, body, topic, properties."""
    record = packed(draft)
    head = peek_record(record)
    topic_size = INT16 if draft.magic == MAGIC_V2 else Struct(">b")
    return [
        (0, INT32),
        (head.body_start - 4, INT32),
        (head.body_end, topic_size),
        (head.properties_start - 2, INT16),
    ]


@pytest.mark.parametrize("draft", KINDS)
def test_what_is_right_is_taken(draft: RecordDraft) -> None:
    for name, is_taken in readers_of(draft).items():
        assert is_taken(packed(draft)), name


@pytest.mark.parametrize("draft", KINDS)
def test_a_record_that_ends_early_is_rejected_everywhere(draft: RecordDraft) -> None:
    record = packed(draft)
    for end in range(len(record)):
        for name, is_taken in readers_of(draft).items():
            assert not is_taken(record[:end]), (name, end)


@pytest.fixture(scope="module")
def fenced() -> Iterator[memoryview]:
    """A page before one that may not be touched: an access kills the process."""
    libc = ctypes.CDLL(None)
    mapping = mmap(-1, 2 * PAGESIZE)
    fence = ctypes.c_char.from_buffer(mapping, PAGESIZE)
    address = ctypes.c_void_p(ctypes.addressof(fence))
    assert libc.mprotect(address, PAGESIZE, 0) == 0
    yield memoryview(mapping)[:PAGESIZE]
    assert libc.mprotect(address, PAGESIZE, PROT_READ | PROT_WRITE) == 0


@pytest.mark.parametrize("draft", KINDS)
def test_nothing_is_read_behind_the_last_byte(draft: RecordDraft, fenced: memoryview) -> None:
    record = packed(draft)
    for size in range(1, len(record)):
        short = bytearray(record[:size])
        if size >= INT32.size:
            INT32.pack_into(short, 0, size)
        start = PAGESIZE - size
        fenced[start:] = short
        assert scan_keys(fenced, -start, [0], True)[1] == [0]
        assert scan_heads(fenced, -start, start, PAGESIZE, 1 << 20)[0] == []


@pytest.mark.parametrize("draft", KINDS)
@pytest.mark.parametrize("shift", [-1, 1])
def test_a_wrong_size_is_rejected_everywhere(draft: RecordDraft, shift: int) -> None:
    record = packed(draft)
    for place, layout in size_places(draft):
        (size,) = layout.unpack_from(record, place)
        largest = 256**layout.size // 2 - 1
        for wrong in (size + shift, -1, largest, -largest - 1, 0):
            damaged = bytearray(record)
            layout.pack_into(damaged, place, wrong)
            assert not is_whole(bytes(damaged))
            for name, is_taken in readers_of(draft).items():
                assert not is_taken(bytes(damaged)), (name, place, wrong)


@pytest.mark.parametrize("draft", KINDS)
def test_a_topic_that_reaches_past_its_record_is_rejected_everywhere(draft: RecordDraft) -> None:
    record = packed(draft)
    _, _, (place, layout), _ = size_places(draft)
    rest = len(record) - place - layout.size - INT16.size
    for topic_size in range(rest + 1, 127):
        # What lies there is the size that the properties would have to have.
        behind = bytearray(record.ljust(len(record) + 200, b"\0"))
        layout.pack_into(behind, place, topic_size)
        INT16.pack_into(behind, place + layout.size + topic_size, rest - topic_size)
        for name in ("heads", "runs", "keys"):
            assert not (READERS | USUAL_READERS)[name](bytes(behind)), (name, topic_size)


@settings(max_examples=500)
@given(
    draft=st.sampled_from(KINDS),
    sizes=st.lists(st.integers(-2, 200), min_size=4, max_size=4),
    length=st.integers(80, 300),
)
def test_what_is_taken_has_sizes_that_add_up(
    draft: RecordDraft, sizes: list[int], length: int
) -> None:
    record = bytearray(packed(draft).ljust(300, b"\0")[:length])
    for (place, layout), size in zip(size_places(draft), (length, *sizes[1:]), strict=True):
        if place + layout.size <= length:
            layout.pack_into(record, place, min(size, 256**layout.size // 2 - 1))
    for name, is_taken in (READERS | USUAL_READERS).items():
        assert is_whole(bytes(record)) or not is_taken(bytes(record)), name


@pytest.mark.parametrize("place", range(-CHECKSUM_SIZE - 1, 0))
def test_a_checksum_that_is_wrong_in_any_place_is_noticed_by_those_that_compare_it(
    place: int,
) -> None:
    record = packed(USUAL)
    for wrong in {0, 2, ord("0"), ord("9"), ord(":"), 255} - {record[place]}:
        damaged = bytearray(record)
        damaged[place] = wrong
        for name, is_taken in (READERS | USUAL_READERS).items():
            if name not in NO_CHECKSUM:
                assert not is_taken(bytes(damaged)), (name, wrong)


@given(place=st.integers(0, len(packed(USUAL)) - 1), bits=st.integers(1, 255))
def test_damage_in_any_byte_is_noticed_by_those_that_compare_the_checksum(
    place: int, bits: int
) -> None:
    damaged = bytearray(packed(USUAL))
    damaged[place] ^= bits
    for name, is_taken in USUAL_READERS.items():
        if name not in NO_CHECKSUM:
            assert not is_taken(bytes(damaged)), name
