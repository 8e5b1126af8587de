"""Records that a reader wants, of those that a broker gave."""

from random import Random

import pytest

from roquet.protocol.errors import BadMessage, ProtocolError
from roquet.protocol.host import pack_host
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.record import MAGIC_V2, read_record
from roquet.protocol.messages.record_picking import pick_records
from tests.support.golden_records import golden_records
from tests.support.hostile_bytes import hostile_bytes
from tests.support.records import PLAIN_DRAFT, changed, record_of

V6_HOST = pack_host("2001:db8::1", 7)
BOTH_V6 = (SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6).value


def tagged(offset: int, tags: str | None = None, **members: object) -> bytes:
    properties = b"" if tags is None else f"a\x01b\x02TAGS\x01{tags}\x02KEYS\x01k".encode()
    return record_of(changed(PLAIN_DRAFT, properties=properties, **members), offset)


def test_everything_is_the_same_object() -> None:
    buffer = tagged(5) + tagged(6)
    picked, count, whole_end = pick_records(buffer, 5, 7)
    assert picked is buffer
    assert (count, whole_end) == (2, 7)
    assert pick_records(b"", 5, 7) == (b"", 0, 5)


def test_what_lies_outside_the_range_is_left_out() -> None:
    records = [tagged(offset) for offset in range(5, 10)]
    assert pick_records(b"".join(records), 6, 9) == (b"".join(records[1:4]), 3, 9)
    assert pick_records(b"".join(records), 20, 30) == (b"", 0, 20)


def test_the_first_offset_that_is_missing_is_named() -> None:
    assert pick_records(tagged(5) + tagged(6) + tagged(8), 5, 9)[2] == 7
    assert pick_records(tagged(6), 5, 9)[2] == 5


@pytest.mark.parametrize(
    ("properties", "is_wanted"),
    [
        (b"TAGS\x01Aa", True),
        (b"TAGS\x01Aa\x02", True),
        (b"x\x01y\x02TAGS\x01Aa\x02z\x01", True),
        (b"TAGS\x01BB", False),  # which has the same hash
        (b"TAGS\x01A", False),
        (b"TAGS\x01Aaa", False),
        (b"", False),
        (b"MYTAGS\x01Aa", False),
        (b"x\x01TAGS\x01Aa", False),
        (b"TAGS\x01BB\x02TAGS\x01Aa", True),  # the last one counts
        (b"TAGS\x01Aa\x02TAGS\x01BB", False),
        (b"TAGS\x01Aa\x02TAGS\x01", True),  # unless it is empty
        ("TAGS\x01grün".encode(), True),
    ],
)
@pytest.mark.parametrize(
    "members",
    [
        {},
        {"sys_flag": BOTH_V6, "born_host": V6_HOST, "store_host": V6_HOST},
        {"magic": MAGIC_V2, "topic": b"t" * 200},
    ],
    ids=["plain", "IPv6", "long topic"],
)
def test_tags_are_compared_as_texts(
    properties: bytes, is_wanted: bool, members: dict[str, object]
) -> None:
    record = record_of(changed(PLAIN_DRAFT, properties=properties, **members), 5)
    tags = frozenset((b"Aa", "grün".encode()))
    assert (read_record(record).tags in ("Aa", "grün")) is is_wanted
    assert pick_records(record, 5, 6, tags) == ((record, 1, 6) if is_wanted else (b"", 0, 6))


def test_a_body_with_a_record_in_it_is_a_body() -> None:
    inner = tagged(6, "Aa")
    records = [tagged(5, "BB", body=inner), tagged(6, "Aa", body=inner), tagged(7, "BB")]
    assert pick_records(b"".join(records), 5, 8, frozenset((b"Aa",))) == (records[1], 1, 8)


def test_a_record_of_many_messages_is_kept_as_long_as_it_starts_before_the_end() -> None:
    batch = tagged(5, "BB", sys_flag=(SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP).value)
    assert pick_records(batch, 7, 9, frozenset((b"Aa",))) == (batch, 1, 9)
    assert pick_records(batch, 0, 5) == (b"", 0, 5)


def test_golden_records_are_picked_as_the_scalar_reader_would() -> None:
    records = [record.data for record in golden_records()]
    assert records
    for record in records:
        message = read_record(record)
        offset = message.queue_offset
        tags = frozenset([(message.tags or "none").encode()])
        is_batch = bool(message.sys_flag & SysFlag.INNER_BATCH.value)
        wanted = int(message.tags is not None or is_batch)
        assert pick_records(record, offset, offset + 1, tags)[1] == wanted
        assert pick_records(record, offset, offset + 1, frozenset((b"?",)))[1] == int(is_batch)


def test_nonsense_is_an_error() -> None:
    record = tagged(5, "Aa")
    for cut in range(1, len(record)):
        with pytest.raises(BadMessage):
            pick_records(record[:cut], 0, 9, frozenset((b"Aa",)))


def test_hostile_bytes_are_survived() -> None:
    seeds = [tagged(5, "Aa") + tagged(6, "BB"), *(record.data for record in golden_records())]
    survived_count = 0
    for number in range(3000):
        random = Random(number)
        try:
            pick_records(hostile_bytes(random, seeds), 0, 100, frozenset((b"Aa",)))
            survived_count += 1
        except ProtocolError:
            pass
    assert survived_count > 100
