"""Messages for any values and any bytes: round trips, and nothing but protocol errors."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import assume, given, strategies as st

from roquet.protocol.acl import SIGNATURE, has_valid_signature, sign, signed_bytes
from roquet.protocol.compression import Compression, compress, decompress
from roquet.protocol.errors import ProtocolError
from roquet.protocol.host import pack_host, unpack_host
from roquet.protocol.java_hash import java_hash
from roquet.protocol.messages.batch import BatchItem, decode_batch
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message_id import (
    UniqueIdMaker,
    offset_id,
    parse_offset_id,
    parse_unique_id,
)
from roquet.protocol.messages.properties import (
    parse_properties,
    properties_text,
    property_of,
    property_of_bytes,
    with_property,
    without_property,
    without_property_bytes,
)
from roquet.protocol.messages.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    peek_record,
    read_record,
    split_records,
    verify_record,
)
from roquet.protocol.subscription import parse_subscription
from tests.support.golden_records import golden_records
from tests.support.records import written_again

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
hosts = st.builds(
    lambda ip, port: pack_host(str(ip), port),
    st.ip_addresses(),
    st.integers(0, 65535),
)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x02"), min_size=1)
property_maps = st.dictionaries(names, values, max_size=8)
# Few letters, so that separators, duplicates and near misses are frequent.
property_texts = st.text("ab\x01\x02", max_size=30)
topics = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@st.composite
def drafts(draw: st.DrawFn) -> RecordDraft:
    return RecordDraft(
        queue_id=draw(int32s),
        flag=draw(int32s),
        sys_flag=draw(int32s),
        born_timestamp=draw(int64s),
        born_host=draw(hosts),
        store_host=draw(hosts),
        body=draw(st.binary(max_size=300)),
        topic=draw(topics).encode(),
        properties=properties_text(draw(property_maps)).encode(),
        reconsume_times=draw(int32s),
        prepared_transaction_offset=draw(int64s),
        magic=draw(st.sampled_from([MAGIC_V1, MAGIC_V2])),
        has_checksum=draw(st.booleans()),
    )


def record(draft: RecordDraft, queue_offset: int = 0, physical_offset: int = 0) -> bytes:
    buffer = bytearray(draft.size)
    draft.write(buffer, 0, queue_offset, physical_offset, 0)
    return bytes(buffer)


@given(draft=drafts(), queue_offset=int64s, physical_offset=int64s, store_timestamp=int64s)
def test_what_is_written_is_read(
    draft: RecordDraft, queue_offset: int, physical_offset: int, store_timestamp: int
) -> None:
    buffer = bytearray(draft.size + 6)
    draft.write(buffer, 3, queue_offset, physical_offset, store_timestamp)
    message = read_record(buffer, 3)
    assert (message.queue_offset, message.physical_offset) == (queue_offset, physical_offset)
    assert message.store_timestamp == store_timestamp
    assert message.size == draft.size
    for name in (
        *("queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_host"),
        *("reconsume_times", "prepared_transaction_offset", "magic", "body", "body_crc"),
    ):
        assert getattr(message, name) == getattr(draft, name), name
    assert message.topic == draft.topic.decode()
    expected = parse_properties(draft.properties.decode())
    found = dict(message.properties)
    assert ("__CRC32#" in found) == draft.has_checksum
    found.pop("__CRC32#", None)
    expected.pop("__CRC32#", None)
    assert found == expected
    assert buffer[:3] + buffer[3 + draft.size :] == bytes(6)


@given(draft=drafts())
def test_a_message_is_written_back_to_the_same_bytes(draft: RecordDraft) -> None:
    data = record(draft)
    assert written_again(read_record(data), has_checksum=draft.has_checksum) == data


@given(draft=drafts(), prefix=st.binary(max_size=5))
def test_peeking_sees_what_reading_sees(draft: RecordDraft, prefix: bytes) -> None:
    data = prefix + record(draft, 5, 6)
    head = peek_record(data, len(prefix))
    message = read_record(data, len(prefix))
    verify_record(data, head)
    assert head.topic == message.topic.encode()
    assert data[head.body_start : head.body_end] == message.body
    assert data[head.properties_start : head.properties_end] == message.raw_properties
    assert (head.size, head.magic, head.body_crc) == (message.size, message.magic, message.body_crc)
    assert (head.queue_id, head.queue_offset) == (message.queue_id, message.queue_offset)
    assert (head.physical_offset, head.sys_flag) == (message.physical_offset, message.sys_flag)


@given(several=st.lists(drafts(), max_size=5))
def test_a_reply_is_split_into_its_messages(several: list[RecordDraft]) -> None:
    records = [record(draft, offset) for offset, draft in enumerate(several)]
    messages = split_records(b"".join(records))
    assert [message.queue_offset for message in messages] == list(range(len(several)))
    assert [message.size for message in messages] == [len(data) for data in records]


@given(draft=drafts(), data=st.data())
def test_any_damage_to_a_checksummed_record_is_found(
    draft: RecordDraft, data: st.DataObject
) -> None:
    assume(draft.has_checksum)
    damaged = bytearray(record(draft))
    # Behind this position lies the mark that says that there is a checksum.
    position = data.draw(st.integers(0, len(damaged) - 22))
    damaged[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ProtocolError):
        verify_record(damaged, peek_record(damaged))


@given(properties=property_maps)
def test_properties_survive_a_round_trip(properties: dict[str, str]) -> None:
    text = properties_text(properties)
    assert parse_properties(text) == properties
    assert parse_properties(text + "\x02") == properties
    for name, value in properties.items():
        assert property_of(text, name) == value
        assert property_of_bytes(text.encode(), name.encode()) == value.encode()


@given(text=property_texts, name=st.text("ab", min_size=1, max_size=2))
def test_one_property_of_any_text_is_what_parsing_finds(text: str, name: str) -> None:
    properties = parse_properties(text)
    assert property_of(text, name) == properties.get(name)
    found = property_of_bytes(text.encode(), name.encode())
    assert (found.decode() if found else None) == properties.get(name)


@given(text=property_texts, name=st.text("ab", min_size=1, max_size=2))
def test_dropping_one_property_of_any_text_keeps_the_others(text: str, name: str) -> None:
    rest = without_property(text, name)
    expected = parse_properties(text)
    expected.pop(name, None)
    assert parse_properties(rest) == expected
    assert without_property_bytes(text.encode(), name.encode()) == rest.encode()
    kept = [segment for segment in text.split("\x02") if not segment.startswith(f"{name}\x01")]
    assert rest == "\x02".join(kept)
    assert len(rest) <= len(text)


@given(text=property_texts, name=st.text("ab", min_size=1), value=st.text("ab\x01", min_size=1))
def test_an_added_property_counts_and_the_others_stay(text: str, name: str, value: str) -> None:
    expected = parse_properties(text)
    expected[name] = value
    assert parse_properties(with_property(text, name, value)) == expected


@given(texts=st.lists(st.text(st.characters(), max_size=40), max_size=10))
def test_hashes_follow_the_definition(texts: list[str]) -> None:
    expected = []
    for text in texts:
        units = text.encode("utf-16-be", "surrogatepass")
        result = 0
        for position in range(0, len(units), 2):
            result = (31 * result + int.from_bytes(units[position : position + 2])) % 2**32
        expected.append(result - 2**32 if result >= 2**31 else result)
    assert [java_hash(text) for text in texts] == expected


@given(items=st.lists(st.builds(BatchItem, int32s, st.binary(), st.binary()), max_size=8))
def test_a_batch_survives_a_round_trip(items: list[BatchItem]) -> None:
    assert decode_batch(encode_batch(items)) == items


@given(ip=st.ip_addresses(), port=st.integers(0, 65535), physical_offset=int64s)
def test_an_offset_id_survives_a_round_trip(
    ip: IPv4Address | IPv6Address, port: int, physical_offset: int
) -> None:
    host = pack_host(str(ip), port)
    assert unpack_host(host) == (str(ip), port)
    assert parse_offset_id(offset_id(host, physical_offset)) == ((str(ip), port), physical_offset)


@given(
    ip=st.ip_addresses(),
    process=st.integers(0, 2**31 - 1),
    salt=st.integers(0, 2**32 - 1),
    made_at_ms=st.integers(0, 4 * 10**12),
    age_ms=st.integers(0, 27 * 86_400_000),
)
def test_the_time_of_an_id_is_known_for_weeks(
    ip: IPv4Address | IPv6Address, process: int, salt: int, made_at_ms: int, age_ms: int
) -> None:
    text = UniqueIdMaker(ip.packed, process, salt, UTC).make(made_at_ms)
    unique_id = parse_unique_id(text)
    assert unique_id[:3] == (str(ip), process % 2**16, salt)
    assert unique_id.made_at_ms(made_at_ms + age_ms, UTC) == made_at_ms


@given(body=st.binary(max_size=2000), compression=st.sampled_from(Compression))
def test_a_compressed_body_survives_a_round_trip(body: bytes, compression: Compression) -> None:
    assert decompress(compress(body, compression), compression.sys_flag, len(body)) == body


@given(
    fields=st.dictionaries(st.text(st.characters()), st.text(st.characters()), max_size=8),
    body=st.binary(),
    version=int32s,
    secret=st.text(st.characters(), min_size=1),
)
def test_a_signature_is_valid(
    fields: dict[str, str], body: bytes, version: int, secret: str
) -> None:
    signature = sign(signed_bytes(fields, body, version), secret)
    assert has_valid_signature(fields | {SIGNATURE: signature}, body, version, secret)


def peek_and_verify(data: bytes) -> None:
    head = peek_record(data)
    if head.magic != MAGIC_BLANK:
        verify_record(data, head)


def read_completely(data: bytes) -> None:
    for message in split_records(data):
        message.decompressed_body(1 << 20)
        assert isinstance(message.message_id, str)
        assert isinstance(message.properties, dict)
        assert isinstance(message.keys, tuple)


def decompress_each(data: bytes) -> None:
    decompress(data[1:], (data[0] & 7) << 8 if data else 0, 1 << 20)


READERS: tuple[Callable[[bytes], object], ...] = (
    peek_and_verify,
    read_completely,
    decode_batch,
    decompress_each,
    unpack_host,
    lambda data: parse_properties(data.decode("utf-8", "replace")),
    lambda data: parse_offset_id(data.decode("latin-1")),
    lambda data: parse_unique_id(data.hex()),
    lambda data: parse_subscription("T", data.decode("latin-1")),
)


def read_every_way(data: bytes) -> None:
    """Any other error than a refusal escapes and fails the test."""
    for read in READERS:
        with suppress(ProtocolError):
            read(data)


@given(data=st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_every_way(data)


@given(data=st.data())
def test_damaged_records_are_read_or_refused(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(golden_records())).data)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    read_every_way(bytes(damaged))


@given(compression=st.sampled_from(Compression), data=st.data())
def test_damaged_compressed_bodies_are_read_or_refused(
    compression: Compression, data: st.DataObject
) -> None:
    damaged = bytearray(compress(b"some text " * 50, compression))
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        assert len(decompress(bytes(damaged), compression.sys_flag, 1 << 20)) <= 1 << 20
