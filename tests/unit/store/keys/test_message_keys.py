import pytest

from roquet.protocol.java_hash import index_hash
from roquet.protocol.messages.message import SysFlag
from roquet.store.keys.message_keys import has_key, key_batch, keys_of
from roquet.store.log_scan import LogRecord


def record(properties: bytes, *, sys_flag: int = 0) -> LogRecord:
    return LogRecord(
        physical_offset=77,
        size=100,
        topic=b"TopicA",
        queue_id=0,
        queue_offset=0,
        sys_flag=sys_flag,
        store_timestamp=1,
        properties=properties,
    )


@pytest.mark.parametrize(
    ("properties", "keys"),
    [
        (b"", []),
        (b"UNIQ_KEY\x01u", [b"T#u"]),
        (b"KEYS\x01a b", [b"T#a", b"T#b"]),
        (b"KEYS\x01 a  b ", [b"T#a", b"T#b"]),
        (b"KEYS\x01a\x02TAGS\x01t\x02UNIQ_KEY\x01u", [b"T#u", b"T#a"]),
    ],
)
def test_a_message_is_filed_under_its_unique_key_and_all_its_keys(
    properties: bytes, keys: list[bytes]
) -> None:
    assert keys_of(b"T", properties, with_tags=False) == keys


def test_tags_are_keys_only_when_wanted() -> None:
    properties = b"TAGS\x01t\x02KEYS\x01k"
    assert keys_of(b"T", properties, with_tags=True) == [b"T#k", b"T#T#t"]


@pytest.mark.parametrize(
    ("topic", "key", "is_meant"),
    [
        (b"TopicA", b"a", True),
        (b"TopicA", b"b", True),
        (b"TopicA", b"u", True),
        (b"TopicA", b"T#t", True),
        (b"TopicA", b"t", False),
        (b"TopicA", b"a b", False),
        (b"TopicB", b"a", False),
    ],
)
def test_a_message_that_only_has_the_same_hash_is_not_meant(
    topic: bytes, key: bytes, is_meant: bool
) -> None:
    found = record(b"KEYS\x01a b\x02UNIQ_KEY\x01u\x02TAGS\x01t")
    assert has_key(found, topic, key) == is_meant


def test_keys_are_hashed_as_java_does_whatever_their_alphabet() -> None:
    batch = key_batch([record("KEYS\x01größe".encode()), record(b"KEYS\x01k")], with_tags=False)
    assert [each.key_hash for each in batch] == [index_hash("TopicA#größe"), index_hash("TopicA#k")]
    assert [each.physical_offset for each in batch] == [77, 77]


def test_rolled_back_messages_have_no_keys() -> None:
    rolled_back = record(b"KEYS\x01k", sys_flag=SysFlag.TRANSACTION_ROLLBACK)
    assert len(key_batch([rolled_back], with_tags=False)) == 0
