"""What waited goes where it belongs: the quick way and the one for all kinds of records agree."""

import pytest
from hypothesis import given, strategies as st

from roquet.broker.delays.delivering import any_redelivery
from roquet.broker.transactions.half_messages import committed
from roquet.protocol.errors import ProtocolError
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.redelivery import common_commit, common_redelivery
from roquet.protocol.names import HALF_TOPIC
from tests.support.records import PLAIN_DRAFT, changed, record_of

HOSTS = st.sampled_from((pack_host("10.0.0.1", 1), pack_host("::1", 1)))
PROPERTIES = st.lists(
    st.sampled_from(
        (
            b"REAL_TOPIC\x01orders",
            b"REAL_TOPIC\x01",
            "REAL_TOPIC\x01größe".encode(),
            b"REAL_QID\x017",
            b"REAL_QID\x0199999999999",
            b"REAL_QID\x01-1",
            b"DELAY\x013",
            b"\x02",
            b"__CRC32#\x010123456789",
        )
    ),
    max_size=6,
).map(b"\x02".join)
WAITING = b"REAL_TOPIC\x01orders\x02REAL_QID\x017"


def draft_by(way: str, record: bytes, *, has_checksum: bool) -> RecordDraft | None:
    try:
        if way == "quick":
            return common_redelivery(record, has_checksum)
        return any_redelivery(record, has_checksum=has_checksum)
    except ProtocolError:
        return None


def assert_agreement(record: bytes, *, has_checksum: bool) -> bool:
    """Whether the quick way knew what to do."""
    quick = draft_by("quick", record, has_checksum=has_checksum)
    if quick is None:
        return False
    slow = draft_by("slow", record, has_checksum=has_checksum)
    assert slow is not None
    assert (slow.topic, record_of(slow)) == (quick.topic, record_of(quick))
    return True


@given(
    body=st.binary(max_size=20),
    properties=PROPERTIES,
    hosts=st.tuples(HOSTS, HOSTS),
    had_checksum=st.booleans(),
    has_checksum=st.booleans(),
)
def test_both_ways_make_the_same_message(
    body: bytes,
    properties: bytes,
    hosts: tuple[bytes, bytes],
    had_checksum: bool,
    has_checksum: bool,
) -> None:
    draft = changed(
        PLAIN_DRAFT,
        body=body,
        properties=properties,
        born_host=hosts[0],
        store_host=hosts[1],
        has_checksum=had_checksum,
    )
    assert_agreement(record_of(draft), has_checksum=has_checksum)


HALVES = st.lists(
    st.sampled_from(
        (
            b"REAL_TOPIC\x01orders",
            b"REAL_QID\x017",
            b"REAL_QID\x0199999999999",
            b"PGROUP\x01group",
            b"PGROUP\x01other",
            b"PGROUP\x01",
            b"TRAN_MSG\x01true",
            "KEYS\x01größe".encode(),
            b"KEYS\x01\xff",
            b"\x02",
            b"__CRC32#\x010123456789",
        )
    ),
    max_size=8,
).map(b"\x02".join)


def assert_same_commit(record: bytes, *, has_checksum: bool) -> bool:
    """Whether the quick way knew what to do."""
    quick = common_commit(record, b"group", 0, has_checksum)
    if quick is None:
        return False
    half = read_record(record)
    assert (half.topic, half.queue_offset) == (HALF_TOPIC, 0)
    assert half.properties["PGROUP"] == "group"
    slow = committed(half)
    draft = changed(
        PLAIN_DRAFT,
        **{
            name: getattr(slow, name)
            for name in slow.__struct_fields__
            if name not in ("topic", "properties")
        },
        topic=slow.topic.encode(),
        properties=slow.properties.encode(),
        has_checksum=has_checksum,
    )
    assert record_of(draft) == record_of(quick)
    return True


@given(
    body=st.binary(max_size=20),
    properties=HALVES,
    hosts=st.tuples(HOSTS, HOSTS),
    topic=st.sampled_from((HALF_TOPIC, HALF_TOPIC, "orders")),
    had_checksum=st.booleans(),
    has_checksum=st.booleans(),
)
def test_both_ways_commit_the_same_message(
    body: bytes,
    properties: bytes,
    hosts: tuple[bytes, bytes],
    topic: str,
    had_checksum: bool,
    has_checksum: bool,
) -> None:
    draft = changed(
        PLAIN_DRAFT,
        body=body,
        topic=topic.encode(),
        properties=properties,
        born_host=hosts[0],
        store_host=hosts[1],
        has_checksum=had_checksum,
    )
    assert_same_commit(draft.pack(0, 4_096, 1), has_checksum=has_checksum)


def test_a_common_half_message_is_committed_the_quick_way() -> None:
    for has_checksum in (False, True):
        properties = WAITING + b"\x02PGROUP\x01group\x02TRAN_MSG\x01true"
        draft = changed(
            PLAIN_DRAFT, topic=HALF_TOPIC.encode(), properties=properties, has_checksum=has_checksum
        )
        assert assert_same_commit(draft.pack(0, 4_096, 1), has_checksum=True)
        assert common_commit(draft.pack(0, 4_096, 1), b"group", 1, True) is None


@pytest.mark.parametrize("size", range(32_740, 32_768))
def test_both_ways_agree_whether_properties_leave_room_for_a_checksum(size: int) -> None:
    properties = WAITING + b"\x02PGROUP\x01group\x02P\x01"
    full = properties.ljust(size, b"x")
    waiting = changed(PLAIN_DRAFT, properties=full)
    half = changed(PLAIN_DRAFT, topic=HALF_TOPIC.encode(), properties=full)
    for has_checksum in (False, True):
        assert assert_agreement(record_of(waiting), has_checksum=has_checksum)
        is_quick = assert_same_commit(half.pack(0, 4_096, 1), has_checksum=has_checksum)
        assert is_quick == (not has_checksum or size + 21 <= 32_767)


def test_a_message_of_the_common_layout_takes_the_fast_path() -> None:
    for has_checksum in (False, True):
        draft = changed(PLAIN_DRAFT, properties=WAITING, has_checksum=has_checksum)
        assert assert_agreement(record_of(draft), has_checksum=True)


# Of names and values of properties, of their ends, of lengths and of the bits of flags.
OTHER_BYTES = (*b"\x00\x01\x02 09_", 0x7F, 0xFF)


def waiting_record() -> bytes:
    return record_of(changed(PLAIN_DRAFT, properties=WAITING, has_checksum=True))


def test_no_damaged_byte_leads_to_another_message() -> None:
    """Each byte of it: examples would mostly be the same few, and take far longer."""
    whole = waiting_record()
    for place, byte in enumerate(whole):
        flipped = (byte ^ 1 << bit for bit in range(8))
        for other in {*flipped, *OTHER_BYTES} - {byte}:
            damaged = whole[:place] + bytes([other]) + whole[place + 1 :]
            assert_agreement(damaged, has_checksum=True)


@given(place=st.floats(0, 1), bits=st.integers(1, 255), cut=st.integers(0, 40))
def test_damage_never_leads_to_another_message(place: float, bits: int, cut: int) -> None:
    record = bytearray(waiting_record())
    record[int(place * (len(record) - 1))] ^= bits
    assert_agreement(bytes(record[: len(record) - cut]), has_checksum=True)
