"""The keys of a message in the key index, and their hashes.

These are `topic#key` for its unique key and for each of its keys, and, if so configured,
`topic#T#tag`, as in 5.5. Here records of any kind are read one by one;
`key_scan.pyx` reads the well-formed ones where they lie.

A key on its way from the log into the index, packed as compiled code reads and writes it, in the
byte order of the machine:

      0  int64  physical offset of the message
      8  int64  its store timestamp
     16  int32  hash of the key, not negative
     20  4      unused
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple, final

from roquet.protocol.java_hash import index_hash
from roquet.protocol.messages.message import SysFlag
from roquet.store.commit_log import CommitLog
from roquet.store.dispatch import TRANSACTION_MASK, value_of
from roquet.store.errors import BadRecord
from roquet.store.keys.key_scan import scan_keys
from roquet.store.log_scan import LogRecord

UNIQUE_KEY_MARK: Final = b"\x02UNIQ_KEY\x01"
KEYS_MARK: Final = b"\x02KEYS\x01"
TAGS_MARK: Final = b"\x02TAGS\x01"
ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK.value

_KEY: Final = Struct("=qqi4x")
KEY_SIZE: Final = 24
assert _KEY.size == KEY_SIZE


class Key(NamedTuple):
    physical_offset: int
    timestamp: int
    key_hash: int


@final
class KeyBatch:
    """Keys in the order of the log."""

    __slots__ = ("packed",)

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def __len__(self) -> int:
        return len(self.packed) // KEY_SIZE

    def __iter__(self) -> Iterator[Key]:
        return map(Key._make, _KEY.iter_unpack(self.packed))

    @property
    def first(self) -> Key:
        return Key._make(_KEY.unpack(self.packed[:KEY_SIZE]))

    @property
    def last(self) -> Key:
        return Key._make(_KEY.unpack(self.packed[-KEY_SIZE:]))

    def part(self, start: int, end: int | None = None) -> "KeyBatch":
        end = len(self) if end is None else end
        return KeyBatch(self.packed[start * KEY_SIZE : end * KEY_SIZE])


def pack_keys(keys: Iterable[Key]) -> KeyBatch:
    pack = _KEY.pack
    return KeyBatch(b"".join([pack(*each) for each in keys]))


def join_batches(batches: Iterable[KeyBatch]) -> KeyBatch:
    return KeyBatch(b"".join([each.packed for each in batches]))


def keys_of(topic: bytes, properties: bytes, *, with_tags: bool) -> list[bytes]:
    """The texts by which a message is indexed, in the order of Apache."""
    prefix = topic + b"#"
    texts = []
    unique_key = value_of(properties, UNIQUE_KEY_MARK)
    if unique_key:
        texts.append(prefix + unique_key)
    keys = value_of(properties, KEYS_MARK)
    if keys.find(b" ") >= 0:
        texts += [prefix + key for key in keys.split(b" ") if key]
    elif keys:
        texts.append(prefix + keys)
    if with_tags:
        tags = value_of(properties, TAGS_MARK)
        if tags:
            texts.append(prefix + b"T#" + tags)
    return texts


def has_key(record: LogRecord, topic: bytes, key: bytes) -> bool:
    """Whether a message that was found by hash really has the key."""
    return record.topic == topic and (
        key == value_of(record.properties, UNIQUE_KEY_MARK)
        or key in value_of(record.properties, KEYS_MARK).split(b" ")
        or key == b"T#" + value_of(record.properties, TAGS_MARK)
    )


def keys_in_log(log: CommitLog, physical_offsets: list[int], *, with_tags: bool) -> KeyBatch:
    """The `key_batch` of the records at these offsets.

    The offsets ascend, and records were found or written there. Those removed or damaged since
    have no keys. Raises OSError.
    """
    batches = []
    for file in log.files:
        first = bisect_left(physical_offsets, file.start)
        end = bisect_left(physical_offsets, file.end)
        if first < end:
            part = physical_offsets[first:end]
            packed, odd = scan_keys(file.mapping, file.start, part, with_tags)
            batch = KeyBatch(packed)
            if odd:
                odd_records = [record for each in odd if (record := _record_at(log, each))]
                batch = _merged(batch, key_batch(odd_records, with_tags=with_tags))
            batches.append(batch)
    return batches[0] if len(batches) == 1 else join_batches(batches)


def key_batch(records: Iterable[LogRecord], *, with_tags: bool) -> KeyBatch:
    """All keys of the records, in their order; those that were rolled back have none."""
    return pack_keys(
        Key(each.physical_offset, each.store_timestamp, index_hash(str(text, "utf-8", "replace")))
        for each in records
        if each.sys_flag & TRANSACTION_MASK != ROLLBACK
        for text in keys_of(each.topic, each.properties, with_tags=with_tags)
    )


def _record_at(log: CommitLog, physical_offset: int) -> LogRecord | None:
    # A damaged record cannot be read, so its keys are not needed.
    with suppress(BadRecord):
        return log.record_at(physical_offset)
    return None


def _merged(first: KeyBatch, second: KeyBatch) -> KeyBatch:
    """In the order of the log; keys of one message stay as they are."""
    return pack_keys(sorted((*first, *second), key=attrgetter("physical_offset")))
