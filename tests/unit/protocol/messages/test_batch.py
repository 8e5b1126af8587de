"""Batch bodies: real ones, and sizes that do not add up."""

import zlib

import pytest

from roquet.protocol.codes import RequestCode
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.batch import BatchItem, decode_batch, unwrap
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.record import read_record
from tests.support.golden_frames import golden_frames
from tests.support.raising import raises
from tests.support.records import PLAIN_DRAFT, changed, record_of

ITEMS = [BatchItem(0, b"one", b"TAGS\x01TagA"), BatchItem(7, b"", b""), BatchItem(-1, b"3", b"p")]
BODY = bytes.fromhex(
    "00000022 00000000 00000000 00000000 00000003 6f6e65 0009 544147530154616741"
    "00000016 00000000 00000000 00000007 00000000 0000"
    "00000018 00000000 00000000 ffffffff 00000001 33 0001 70"
)


def test_a_batch_is_written_as_documented() -> None:
    assert encode_batch(ITEMS) == BODY
    assert encode_batch([]) == b""


def test_a_batch_is_read_as_documented() -> None:
    assert decode_batch(BODY) == ITEMS
    assert decode_batch(b"") == []


def test_every_recorded_batch_is_written_back_to_the_same_bytes() -> None:
    bodies = [
        frame.command.body
        for frame in golden_frames()
        if frame.request_code == RequestCode.SEND_BATCH_MESSAGE and frame.kind == "request"
    ]
    assert len(bodies) >= 8
    for body in bodies:
        items = decode_batch(body)
        assert len(items) > 1
        assert encode_batch(items) == body


@pytest.mark.parametrize("size", [size for size in range(1, len(BODY)) if size not in (34, 56)])
def test_a_batch_that_ends_within_an_item_is_refused(size: int) -> None:
    with pytest.raises(BadMessage):
        decode_batch(BODY[:size])


@pytest.mark.parametrize(
    ("position", "value"),
    [(0, 0), (0, 33), (0, 35), (0, -1), (0, 2**31 - 1), (16, 2), (16, 4), (16, -1), (16, 2**30)],
)
def test_sizes_that_do_not_add_up_are_refused(position: int, value: int) -> None:
    damaged = bytearray(BODY)
    damaged[position : position + 4] = value.to_bytes(4, signed=True)
    with pytest.raises(BadMessage):
        decode_batch(bytes(damaged))


def test_negative_property_sizes_are_refused_even_if_they_add_up() -> None:
    # An item of 21 bytes whose properties take away what the body has.
    item = bytes.fromhex("00000015 00000000 00000000 00000000 00000000 ffff")
    with pytest.raises(BadMessage):
        decode_batch(item)


def test_the_number_of_messages_is_bounded() -> None:
    assert len(decode_batch(BODY, count_max=3)) == 3
    with raises(TooLarge, what="batch", size=3, limit=2):
        decode_batch(BODY, count_max=2)


def test_a_negative_body_size_is_refused() -> None:
    item = bytes.fromhex("00000002 00000000 00000000 00000000 ffffffec 0000")
    with pytest.raises(BadMessage, match="body of -20"):
        decode_batch(item)


def test_an_item_that_does_not_fit_is_not_written() -> None:
    assert len(encode_batch([BatchItem(0, b"", b"p" * 32767)])) == 22 + 32767
    with pytest.raises(TooLarge):
        encode_batch([BatchItem(0, b"", b"p" * 32768)])
    with pytest.raises(BadMessage):
        encode_batch([BatchItem(2**31, b"", b"")])


@pytest.mark.parametrize(
    ("body", "sys_flag"), [(BODY, 0xC0), (zlib.compress(BODY), 0x3C1), (zlib.compress(BODY), 0xC1)]
)
def test_an_inner_batch_is_unwrapped(body: bytes, sys_flag: int) -> None:
    message = read_record(record_of(changed(PLAIN_DRAFT, body=body, sys_flag=sys_flag | 0x8)))
    messages = unwrap(message)
    assert [message.queue_offset for message in messages] == [7, 8, 9]
    assert [message.decompressed_body() for message in messages] == [b"one", b"", b"3"]
    assert [message.flag for message in messages] == [0, 7, -1]
    assert [message.tags for message in messages] == ["TagA", None, None]
    assert {message.sys_flag for message in messages} == {0x8}
    assert messages[0].body_crc == zlib.crc32(b"one") & 0x7FFFFFFF
