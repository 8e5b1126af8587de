"""Which texts a message is filed under in the key index, and their hashes.

These are `topic#key` for its unique key and for each of its keys, and, if so configured,
`topic#T#tag`, as 5.5 does. Here records are taken one by one, whatever they look like;
`key_scan.pyx` reads those of the usual kind where they lie.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import numpy.typing as npt

from roquet.protocol.java_hash import hashes_of_units, index_hashes, java_hashes
from roquet.protocol.message import SysFlag
from roquet.store.commit_log import CommitLog
from roquet.store.dispatch import TRANSACTION_MASK, value_of
from roquet.store.errors import BadRecord
from roquet.store.index_file import KeyBatch, join_batches
from roquet.store.key_scan import scan_keys
from roquet.store.log_scan import LogRecord

UNIQUE_KEY_MARK: Final = b"\x02UNIQ_KEY\x01"
KEYS_MARK: Final = b"\x02KEYS\x01"
TAGS_MARK: Final = b"\x02TAGS\x01"
ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK.value

# What `scan_keys` packs.
_KEY_TYPE: Final = np.dtype(
    [("physical_offset", "i8"), ("timestamp", "i8"), ("hash", "i4"), ("unused", "i4")]
)


def keys_of(topic: bytes, properties: bytes, *, with_tags: bool) -> list[bytes]:
    """The texts a message is filed under, in the order of Apache."""
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
    """Whether a message that was found by hash is really meant."""
    return record.topic == topic and (
        key == value_of(record.properties, UNIQUE_KEY_MARK)
        or key in value_of(record.properties, KEYS_MARK).split(b" ")
        or key == b"T#" + value_of(record.properties, TAGS_MARK)
    )


def keys_in_log(log: CommitLog, physical_offsets: list[int], *, with_tags: bool) -> KeyBatch:
    """What `key_batch` says of the records that lie there.

    The offsets ascend, and records were found or written at them. What is gone or damaged
    since has no keys. Raises OSError.
    """
    batches = []
    for file in log.files:
        first = bisect_left(physical_offsets, file.start)
        behind = bisect_left(physical_offsets, file.end)
        if first < behind:
            part = physical_offsets[first:behind]
            packed, odd = scan_keys(file.mapping, file.start, part, with_tags)
            found = np.frombuffer(packed, _KEY_TYPE)
            batch = KeyBatch(found["hash"], found["physical_offset"], found["timestamp"])
            if odd:
                odd_records = [record for each in odd if (record := _record_at(log, each))]
                batch = _merged(batch, key_batch(odd_records, with_tags=with_tags))
            batches.append(batch)
    return batches[0] if len(batches) == 1 else join_batches(batches)


def key_batch(records: Iterable[LogRecord], *, with_tags: bool) -> KeyBatch:
    """All keys of the records, in their order; those that were rolled back have none."""
    filed = [each for each in records if each.sys_flag & TRANSACTION_MASK != ROLLBACK]
    texts: list[bytes] = []
    counts: list[int] = []
    for each in filed:
        keys = keys_of(each.topic, each.properties, with_tags=with_tags)
        texts += keys
        counts.append(len(keys))
    offsets = np.array([each.physical_offset for each in filed], np.int64)
    timestamps = np.array([each.store_timestamp for each in filed], np.int64)
    return KeyBatch(key_hashes(texts), np.repeat(offsets, counts), np.repeat(timestamps, counts))


def key_hashes(texts: Sequence[bytes]) -> npt.NDArray[np.int32]:
    joined = b"".join(texts)
    if not joined.isascii():
        return index_hashes(java_hashes([str(each, "utf-8", "replace") for each in texts]))
    sizes = np.fromiter(map(len, texts), np.int32, len(texts))
    return index_hashes(hashes_of_units(np.frombuffer(joined, np.uint8), sizes))


def _record_at(log: CommitLog, physical_offset: int) -> LogRecord | None:
    # What is damaged is not handed out, so nobody can be looking for it.
    with suppress(BadRecord):
        return log.record_at(physical_offset)
    return None


def _merged(first: KeyBatch, second: KeyBatch) -> KeyBatch:
    """In the order of the log; keys of one message stay as they are."""
    both = join_batches((first, second))
    order = np.argsort(both.physical_offsets, kind="stable")
    return KeyBatch(both.hashes[order], both.physical_offsets[order], both.timestamps[order])
