"""Records: the documented bytes, every record of real brokers, and what must not be believed."""

import base64
import json
from mmap import mmap
from typing import Any

import pytest

from roquet.protocol.codes import RequestCode
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    peek_record,
    read_record,
    split_records,
    verify_record,
)
from tests.support.golden_frames import golden_frames
from tests.support.golden_records import RECORD_COUNT, STORES_DIR, golden_log_files, golden_records
from tests.support.raising import raises
from tests.support.records import PLAIN_DRAFT, STORE_TIMESTAMP, changed, record_of, written_again

PLAIN_RECORD = bytes.fromhex(
    "00000073 daa320a7 3610a686 00000002 00000000 0000000000000007 0000000000001000 00000000"
    "0000018bcfe56800 7f0000010000c350 0000018bcfe5687b 7f00000100002a9f 00000000"
    "0000000000000000 00000005 68656c6c6f 02 5431 0011 544147530154616741024b455953016b31"
)
SMALL_RECORD = bytes.fromhex(
    "00000079daa320a758932aac0000000000000000000000000000000500000000000003e8000000000000018b"
    "cfe568007f00000100002a9f0000018bcfe568017f00000100002a9f00000000000000000000000000000002"
    "68690154001b54414753015461674102554e49515f4b4559013746303030303031"
)
# Written by a 5.5.0 broker with enabledAppendPropCRC: a single message, and one of a batch
# where that broker forgets the separator before the checksum.
CHECKSUMMED_RECORD = bytes.fromhex(
    "0000010edaa320a73610a686000000000000000000000000000000000000000000000000000000000000018b"
    "cfe568007f0000010000939c000001a1e14d8a987f00000100003e5800000000000000000000000000000005"
    "68656c6c6f08437263546f70696300a64d53475f524547494f4e0144656661756c74526567696f6e02554e49"
    "515f4b45590146443030303030303030303030303030303030303030303030303030303030323532433534"
    "4530453246324134434535413235423030303002434c55535445520144656661756c74436c75737465720254"
    "4147530154616741024b455953016b310254524143455f4f4e0174727565025f5f4352433332230130343430"
    "35383238353102"
)
UNSEPARATED_RECORD = bytes.fromhex(
    "00000083daa320a77a6c86f1000000000000000000000000000000030000000000000314000000000000018b"
    "cfe568007f0000010000939c000001a1e14d8b477f00000100003e5800000000000000000000000000000003"
    "6f6e6508437263546f706963001d5441475301546167415f5f435243333223013633303536303530373002"
)
# Whose replies, and whose requests, carry records and nothing else.
REPLY_CODES = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
)
REQUEST_CODES = (RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY)


def test_a_record_is_written_as_documented() -> None:
    assert record_of(PLAIN_DRAFT) == PLAIN_RECORD


def test_a_record_is_read_as_documented() -> None:
    message = read_record(SMALL_RECORD)
    assert message.topic == "T"
    assert message.body == b"hi"
    assert message.queue_offset == 5
    assert message.physical_offset == 1000
    assert message.properties == {"TAGS": "TagA", "UNIQ_KEY": "7F000001"}
    assert message.born_timestamp == 1_700_000_000_000
    assert message.store_timestamp == 1_700_000_000_001
    assert str(message.store_address) == "127.0.0.1:10911"


def test_every_record_of_a_real_log_is_written_back_to_the_same_bytes() -> None:
    records = golden_records()
    assert len(records) == RECORD_COUNT
    for record in records:
        assert written_again(read_record(record.data)) == record.data, record.place


def test_every_record_of_a_real_log_names_its_own_place() -> None:
    for record in golden_records():
        head = peek_record(record.data)
        verify_record(record.data, head)
        assert head.physical_offset == record.physical_offset, record.place


def test_every_recorded_body_of_messages_is_written_back_to_the_same_bytes() -> None:
    bodies = [
        frame.command.body
        for frame in golden_frames()
        if frame.request_code in (REPLY_CODES if frame.kind == "response" else REQUEST_CODES)
    ]
    assert len(list(filter(None, bodies))) == 111
    for body in bodies:
        assert b"".join(map(written_again, split_records(body))) == body


def expected_messages() -> list[tuple[str, dict[str, Any]]]:
    return [
        (path.name.removesuffix(".expected.jsonl"), entry)
        for path in sorted(STORES_DIR.glob("*.expected.jsonl"))
        for entry in map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if entry["kind"] in ("message", "view") and not entry.get("afterRestart")
    ]


def as_java_shows_it(message: StoredMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "offsetMsgId": message.offset_id,
        "tags": message.tags,
        "body": base64.b64encode(message.decompressed_body()).decode(),
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "flag": message.flag,
        "reconsumeTimes": message.reconsume_times,
        "bornHost": str(message.born_address),
        "storeHost": str(message.store_address),
        "commitLogOffset": message.physical_offset,
        "storeSize": message.size,
        "bodyCRC": message.body_crc,
        "preparedTransactionOffset": message.prepared_transaction_offset,
    }


def test_every_message_of_a_real_log_reads_as_the_java_client_reads_it() -> None:
    data_at = {(record.store, record.physical_offset): record.data for record in golden_records()}
    expected = expected_messages()
    assert len(expected) > 700
    for store, entry in expected:
        message = read_record(data_at[store, entry["commitLogOffset"]])
        shown = as_java_shows_it(message)
        assert shown == {name: entry.get(name) for name in shown}
        # These two are added by the client.
        added = {"MIN_OFFSET", "MAX_OFFSET"}
        properties = {
            name: value for name, value in entry["properties"].items() if name not in added
        }
        assert message.properties == properties
        assert " ".join(message.keys) == (entry["keys"] or "")
        if entry["kind"] == "message":
            assert message.message_id == entry["msgId"]


def test_the_blank_end_of_a_real_log_file_fills_it() -> None:
    blanks = 0
    for _, _, log in golden_log_files():
        position = 0
        while log[position : position + 4] != bytes(4):
            head = peek_record(log, position)
            position += head.size
            if head.magic == MAGIC_BLANK:
                assert position == len(log)
                blanks += 1
                break
    assert blanks == 9


def test_a_record_is_written_into_a_mapping_at_its_position() -> None:
    with mmap(-1, 4096) as mapping:
        PLAIN_DRAFT.write(mapping, 100, 7, 4096, STORE_TIMESTAMP)
        assert mapping[100 : 100 + PLAIN_DRAFT.size] == PLAIN_RECORD
        assert mapping[:100] + mapping[100 + PLAIN_DRAFT.size :] == bytes(4096 - 115)
        assert read_record(mapping, 100) == read_record(PLAIN_RECORD)


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_read(buffer_type: type[bytes | bytearray | memoryview]) -> None:
    buffer = buffer_type(b"??" + CHECKSUMMED_RECORD)
    assert read_record(buffer, 2) == read_record(CHECKSUMMED_RECORD)
    verify_record(buffer, peek_record(buffer, 2))


@pytest.mark.parametrize(
    ("born", "store", "sys_flag", "size"),
    [
        ("1.2.3.4", "5.6.7.8", 0x00, 115),
        ("::1", "5.6.7.8", 0x10, 127),
        ("1.2.3.4", "fd00::2", 0x20, 127),
        ("::1", "fd00::2", 0x30, 139),
    ],
)
@pytest.mark.parametrize("claimed", [0x00, 0x10, 0x20, 0x30])
def test_the_address_bits_follow_from_the_hosts(
    born: str, store: str, sys_flag: int, size: int, claimed: int
) -> None:
    draft = changed(
        PLAIN_DRAFT,
        sys_flag=claimed | 0x1,
        born_host=pack_host(born, 1),
        store_host=pack_host(store, 2),
    )
    assert draft.size == size
    message = read_record(record_of(draft))
    assert message.sys_flag == sys_flag | 0x1
    assert message.born_address == (born, 1)
    assert message.store_address == (store, 2)
    assert peek_record(record_of(draft)).body_start == size - 115 + 88


@pytest.mark.parametrize("host", [b"", bytes(7), bytes(16), bytes(21)])
def test_a_host_of_another_size_is_refused(host: bytes) -> None:
    with pytest.raises(BadMessage):
        changed(PLAIN_DRAFT, born_host=host)


def test_a_long_topic_needs_the_second_magic() -> None:
    topic = b"t" * 128
    with raises(TooLarge, what="topic", size=128, limit=127):
        changed(PLAIN_DRAFT, topic=topic)
    record = record_of(changed(PLAIN_DRAFT, topic=topic, magic=MAGIC_V2))
    assert record[4:8].hex() == "daa320ab"
    assert len(record) == len(PLAIN_RECORD) + 126 + 1
    assert read_record(record).topic == "t" * 128
    assert peek_record(record).topic == topic


def test_the_largest_parts_fit() -> None:
    draft = changed(PLAIN_DRAFT, topic=b"t" * 127, properties=b"p" * 32767)
    message = read_record(record_of(draft))
    assert (len(message.topic), len(message.raw_properties)) == (127, 32767)


def test_the_smallest_record_has_91_bytes() -> None:
    record = record_of(changed(PLAIN_DRAFT, body=b"", topic=b"", properties=b""))
    assert len(record) == 91
    message = read_record(record)
    assert (message.body, message.topic, message.raw_properties) == (b"", "", b"")
    head = peek_record(record)
    verify_record(record, head)
    assert head.properties_start == head.properties_end == 91


def test_a_body_over_the_limit_is_refused_before_it_is_looked_at() -> None:
    untouched = memoryview(mmap(-1, 2**30 + 1))
    with raises(TooLarge, what="body", size=2**30 + 1):
        changed(PLAIN_DRAFT, body=untouched)


@pytest.mark.parametrize("has_checksum", [False, True])
def test_properties_over_the_limit_are_refused(has_checksum: bool) -> None:
    room = 32767 - (21 if has_checksum else 0)
    changed(PLAIN_DRAFT, properties=b"p" * room, has_checksum=has_checksum)
    with raises(TooLarge, what="properties", limit=32767):
        changed(PLAIN_DRAFT, properties=b"p" * (room + 1), has_checksum=has_checksum)


def test_a_topic_over_the_limit_of_the_second_magic_is_refused() -> None:
    with raises(TooLarge, what="topic", size=32768, limit=32767):
        changed(PLAIN_DRAFT, topic=b"t" * 32768, magic=MAGIC_V2)


def test_a_number_that_does_not_fit_leaves_the_buffer_untouched() -> None:
    buffer = bytearray(200)
    with pytest.raises(OverflowError):
        PLAIN_DRAFT.write(buffer, 0, 2**63, 4096, STORE_TIMESTAMP)
    assert buffer == bytes(200)


@pytest.mark.parametrize(
    ("member", "value"),
    [("flag", 2**31), ("queue_id", -(2**31) - 1), ("sys_flag", 2**32), ("born_timestamp", 2**63)],
)
def test_a_number_that_does_not_fit_its_field_is_refused(member: str, value: int) -> None:
    with pytest.raises(BadMessage, match="record"):
        changed(PLAIN_DRAFT, **{member: value})


@pytest.mark.parametrize("position", [-1, 1, 2**40])
def test_a_record_is_written_to_no_place_where_it_does_not_fit(position: int) -> None:
    buffer = bytearray(PLAIN_DRAFT.size)
    with pytest.raises(IndexError):
        PLAIN_DRAFT.write(buffer, position, 7, 4096, STORE_TIMESTAMP)
    assert buffer == bytes(PLAIN_DRAFT.size)


# --- the checksum


def test_a_checksum_is_written_as_apache_writes_it() -> None:
    message = read_record(CHECKSUMMED_RECORD)
    assert written_again(message, has_checksum=True) == CHECKSUMMED_RECORD


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (b"", b""),
        (b"A\x01b", b"A\x01b\x02"),
        (b"A\x01b\x02", b"A\x01b\x02"),
        (b"__CRC32#\x010000000000\x02A\x01b", b"A\x01b\x02"),
    ],
)
def test_a_checksum_is_the_last_property_and_the_only_one(given: bytes, stored: bytes) -> None:
    record = record_of(changed(PLAIN_DRAFT, properties=given, has_checksum=True))
    properties = read_record(record).raw_properties
    assert properties[:-20] == stored
    assert properties[-20:].startswith(b"__CRC32#\x01")
    assert properties[-1:] == b"\x02"
    verify_record(record, peek_record(record))


def test_a_foreign_checksum_is_dropped() -> None:
    forged = changed(PLAIN_DRAFT, properties=b"A\x01b\x02__CRC32#\x010000000000\x02")
    record = record_of(forged)
    assert read_record(record).properties == {"A": "b"}
    verify_record(record, peek_record(record))


def test_a_checksum_with_leading_zeros_keeps_ten_digits() -> None:
    drafts = [changed(PLAIN_DRAFT, queue_id=queue_id, has_checksum=True) for queue_id in range(500)]
    ends = [record_of(draft)[-11:-1] for draft in drafts]
    assert all(end.isdigit() for end in ends)
    # The last digit is the most significant one.
    assert min(int(end[::-1]) for end in ends) < 10**8


def test_every_flipped_bit_of_a_checksummed_record_is_found() -> None:
    for position in range(len(CHECKSUMMED_RECORD)):
        for bit in range(8):
            damaged = bytearray(CHECKSUMMED_RECORD)
            damaged[position] ^= 1 << bit
            # Damage to the mark turns the checksum into an ordinary property.
            if len(CHECKSUMMED_RECORD) - 21 <= position < len(CHECKSUMMED_RECORD) - 11:
                continue
            with pytest.raises(BadMessage):
                verify_record(damaged, peek_record(damaged))


def test_a_checksum_inside_another_value_is_no_checksum() -> None:
    damaged = bytearray(UNSEPARATED_RECORD)
    damaged[15] ^= 1  # the queue id, which the body CRC does not cover
    verify_record(damaged, peek_record(damaged))


def test_reading_leaves_the_checksum_alone() -> None:
    outdated = bytearray(CHECKSUMMED_RECORD)
    outdated[15] = 3
    assert read_record(outdated).queue_id == 3
    with pytest.raises(BadMessage, match="checksum"):
        verify_record(outdated, peek_record(outdated))


def test_the_outdated_checksum_of_a_copy_is_no_reason_to_reject_it() -> None:
    """Apache 4.9.7 and 5.5.0 copy all properties of a message they deliver late, this one too.

    They write no separator behind the last one, and by that a copy is known.
    """
    copy = bytearray(CHECKSUMMED_RECORD[:-1])
    copy[0:4] = len(copy).to_bytes(4, "big")
    properties_size_at = copy.index(b"__CRC32#") - 2
    while int.from_bytes(copy[properties_size_at : properties_size_at + 2], "big") != (
        len(copy) + 1 - properties_size_at - 2
    ):
        properties_size_at -= 1
    copy[properties_size_at : properties_size_at + 2] = (
        len(copy) - properties_size_at - 2
    ).to_bytes(2, "big")
    assert read_record(copy).properties["__CRC32#"]
    verify_record(copy, peek_record(copy))


# --- what must not be believed


def test_a_body_that_breaks_its_crc_is_refused() -> None:
    damaged = PLAIN_RECORD.replace(b"hello", b"jello")
    with pytest.raises(BadMessage, match="CRC"):
        read_record(damaged)
    with pytest.raises(BadMessage, match="CRC"):
        verify_record(damaged, peek_record(damaged))


@pytest.mark.parametrize("size", range(len(PLAIN_RECORD)))
def test_a_record_that_ends_too_early_is_refused(size: int) -> None:
    cut = PLAIN_RECORD[:size]
    with pytest.raises(BadMessage):
        read_record(cut)
    with pytest.raises(BadMessage):
        peek_record(cut)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, 114),  # total size too small
        (0, 116),  # ... too large
        (0, 0),
        (0, -1),
        (0, 2**31 - 1),
        (4, 0),  # magic
        (4, MAGIC_V1 + 1),
        (36, 0x10),  # the record claims an IPv6 host
        (84, 4),  # body size
        (84, 6),
        (84, 25),  # ... up to the end of the record, and just behind it
        (84, 26),
        (84, 27),
        (84, 28),
        (84, -1),
        (84, -88),
        (84, 2**31 - 1),
    ],
)
def test_a_size_or_magic_that_cannot_be_is_refused(position: int, value: int) -> None:
    damaged = bytearray(PLAIN_RECORD)
    damaged[position : position + 4] = value.to_bytes(4, signed=True)
    for buffer in (damaged, damaged + bytes(100)):
        with pytest.raises(BadMessage):
            peek_record(buffer)
        with pytest.raises(BadMessage):
            read_record(buffer)


@pytest.mark.parametrize("position", [93, 96, 97])
def test_a_topic_or_property_size_that_cannot_be_is_refused(position: int) -> None:
    for value in set(range(256)) - {PLAIN_RECORD[position]}:
        damaged = bytearray(PLAIN_RECORD)
        damaged[position] = value
        with pytest.raises(BadMessage):
            peek_record(damaged)


def test_negative_sizes_are_refused_even_if_they_add_up() -> None:
    # A topic of 200 bytes, whose one-byte size Java reads as -56.
    draft = changed(PLAIN_DRAFT, topic=b"t" * 127)
    record = bytearray(record_of(draft))
    record[93] = 200
    record[94 + 127 : 94 + 127] = b"t" * 73
    record[0:4] = len(record).to_bytes(4)
    with pytest.raises(BadMessage, match="topic of -56"):
        peek_record(record)


def test_a_blank_is_seen_with_nothing_behind_it() -> None:
    head = peek_record(bytes.fromhex("0000007c cbd43194") + bytes(116))
    assert (head.size, head.magic) == (124, MAGIC_BLANK)
    smallest = peek_record(bytes.fromhex("00000008 cbd43194"))
    assert smallest.size == 8


@pytest.mark.parametrize("size", ["00000007", "00000000", "ffffffff", "00000009"])
def test_a_blank_of_impossible_size_is_refused(size: str) -> None:
    with pytest.raises(BadMessage, match="blank"):
        peek_record(bytes.fromhex(size + "cbd43194"))


def test_a_blank_may_not_leave_the_buffer() -> None:
    blank = bytes.fromhex("0000000a cbd43194 0000")
    assert peek_record(b"??" + blank, 2).size == 10
    with pytest.raises(BadMessage, match="blank"):
        peek_record(b"??" + blank[:-1], 2)


def test_a_blank_is_no_message() -> None:
    with pytest.raises(BadMessage):
        read_record(bytes.fromhex("0000007c cbd43194") + bytes(116))


def test_peeking_finds_the_parts_where_they_are() -> None:
    buffer = b"??" + PLAIN_RECORD + b"??"
    head = peek_record(buffer, 2)
    assert buffer[head.body_start : head.body_end] == b"hello"
    assert buffer[head.properties_start : head.properties_end] == PLAIN_DRAFT.properties
    assert head.topic == b"T1"
    assert (head.size, head.magic) == (115, MAGIC_V1)
    assert (head.queue_id, head.queue_offset, head.physical_offset) == (2, 7, 4096)
    assert (head.sys_flag, head.store_timestamp) == (0, STORE_TIMESTAMP)
    assert head.prepared_transaction_offset == 0


def test_a_reply_without_records_holds_no_messages() -> None:
    assert split_records(b"") == []


def test_a_reply_is_refused_as_a_whole() -> None:
    assert len(split_records(PLAIN_RECORD + SMALL_RECORD)) == 2
    with pytest.raises(BadMessage):
        split_records(PLAIN_RECORD + SMALL_RECORD + b"\0")


def test_a_draft_takes_a_view_as_its_body() -> None:
    body = memoryview(b"--hello--")[2:7]
    draft: RecordDraft = changed(PLAIN_DRAFT, body=body)
    assert record_of(draft) == PLAIN_RECORD
