"""Messages as values; how they lie in bytes is tested with the records."""

import zlib

import pytest

from roquet.protocol.compression import Compression
from roquet.protocol.errors import TooLarge
from roquet.protocol.host import pack_host
from roquet.protocol.messages.message import Message, Property, StoredMessage, SysFlag
from roquet.protocol.messages.record import read_record
from tests.support.golden_records import golden_records
from tests.support.records import PLAIN_DRAFT, changed, record_of


def stored(properties: bytes = b"", body: bytes = b"hello", sys_flag: int = 0) -> StoredMessage:
    draft = changed(PLAIN_DRAFT, properties=properties, body=body, sys_flag=sys_flag)
    return read_record(record_of(draft))


def test_tags_and_keys_of_a_message_are_properties() -> None:
    message = Message("T", b"", tags="TagA", keys=("k1", "k2"), properties={"a": "1"})
    assert message.all_properties() == {"a": "1", "TAGS": "TagA", "KEYS": "k1 k2"}


def test_a_message_without_tags_and_keys_has_its_own_properties_only() -> None:
    properties = {"a": "1"}
    message = Message("T", b"", properties=properties)
    assert message.flag == 0
    named = message.all_properties()
    assert named == properties
    named["b"] = "2"
    assert message.properties == {"a": "1"}


def test_keys_are_separated_by_single_spaces() -> None:
    assert stored(b"KEYS\x01k1  k2 ").keys == ("k1", "k2")
    assert stored(b"").keys == ()
    assert stored(b"KEYS\x01 ").keys == ()


def test_the_id_of_a_message_is_its_producers_if_there_is_one() -> None:
    assert stored(b"UNIQ_KEY\x01ABC").message_id == "ABC"
    assert stored(b"").message_id == "7F00000100002A9F0000000000001000"


def test_properties_that_are_no_utf8_are_shown_with_replacement_characters() -> None:
    message = stored(b"TAGS\x01\xff\x02KEYS\x01\xc3")
    assert message.properties == {"TAGS": "\ufffd", "KEYS": "\ufffd"}
    assert message.tags == "\ufffd"
    assert message.keys == ("\ufffd",)
    assert message.property_text == "TAGS\x01\ufffd\x02KEYS\x01\ufffd"
    assert message.raw_properties == b"TAGS\x01\xff\x02KEYS\x01\xc3"


def test_a_topic_that_is_no_utf8_is_shown_with_replacement_characters() -> None:
    assert read_record(record_of(changed(PLAIN_DRAFT, topic=b"\xff"))).topic == "\ufffd"


def test_properties_are_parsed_once() -> None:
    message = stored(b"a\x01b")
    assert message.properties is message.properties


def test_looking_at_the_properties_does_not_make_a_message_another_one() -> None:
    looked_at, untouched = stored(b"a\x01b"), stored(b"a\x01b")
    assert looked_at.properties == {"a": "b"}
    assert looked_at == untouched


def test_only_a_compressed_body_is_decompressed() -> None:
    packed = zlib.compress(b"hello" * 100)
    assert stored(body=packed).decompressed_body() == packed
    compressed = stored(body=packed, sys_flag=SysFlag.COMPRESSED)
    assert compressed.decompressed_body() == b"hello" * 100
    with pytest.raises(TooLarge):
        compressed.decompressed_body(size_max=499)


def test_the_bits_of_the_system_flag_are_those_of_records() -> None:
    draft = changed(PLAIN_DRAFT, born_host=pack_host("::1", 1))
    assert draft.sys_flag == SysFlag.BORN_HOST_V6
    draft = changed(PLAIN_DRAFT, store_host=pack_host("::1", 1))
    assert draft.sys_flag == SysFlag.STORE_HOST_V6
    for compression in Compression:
        kind = SysFlag[f"COMPRESSION_{compression.name}"]
        assert compression.sys_flag == SysFlag.COMPRESSED | kind
        assert kind & SysFlag.COMPRESSION_MASK == kind


def test_committed_messages_of_a_real_broker_say_so() -> None:
    messages = [read_record(record.data) for record in golden_records()]
    kinds = {message.sys_flag & SysFlag.TRANSACTION_MASK for message in messages}
    assert kinds == {0, SysFlag.TRANSACTION_COMMIT}
    assert SysFlag.TRANSACTION_PREPARED | SysFlag.TRANSACTION_COMMIT == SysFlag.TRANSACTION_ROLLBACK


def test_no_two_properties_share_a_name() -> None:
    names = [value for name, value in vars(Property).items() if name.isupper()]
    assert len(names) > 50
    assert len(set(names)) == len(names)
