"""Records against the documented vectors; golden records are in test_golden_messages.py."""

from roquet.protocol.host import pack_host
from roquet.protocol.record import RecordDraft, read_record, write_record

VECTOR = bytes.fromhex(
    "00000073 daa320a7 3610a686 00000002 00000000 0000000000000007 0000000000001000 00000000"
    "0000018bcfe56800 7f0000010000c350 0000018bcfe5687b 7f00000100002a9f 00000000"
    "0000000000000000 00000005 68656c6c6f 02 5431 0011 544147530154616741024b455953016b31"
)


def vector_draft() -> RecordDraft:
    return RecordDraft(
        queue_id=2,
        flag=0,
        sys_flag=0,
        born_timestamp=1700000000000,
        born_host=pack_host("127.0.0.1", 50000),
        store_host=pack_host("127.0.0.1", 10911),
        body=b"hello",
        topic=b"T1",
        properties=b"TAGS\x01TagA\x02KEYS\x01k1",
    )


def test_a_record_is_written_as_documented() -> None:
    draft = vector_draft()
    buffer = bytearray(draft.size)
    write_record(buffer, 0, draft, 7, 4096, 1700000000123)
    assert buffer == VECTOR


def test_a_record_is_read_as_documented() -> None:
    message = read_record(VECTOR)
    assert message.topic == "T1"
    assert message.body == b"hello"
    assert message.tags == "TagA"
    assert message.keys == ("k1",)
    assert message.queue_offset == 7
    assert message.offset_id == "7F00000100002A9F0000000000001000"
    assert message.message_id == message.offset_id
    assert str(message.born_address) == "127.0.0.1:50000"
