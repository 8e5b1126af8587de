"""Which texts a message is filed under in the key index, and their hashes.

These are `topic#key` for its unique key and for each of its keys, and, if so configured,
`topic#T#tag`, as 5.5 does. Here records are taken one by one, whatever they look like;
`key_columns.py` takes many of the usual kind at once.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from roquet.protocol.java_hash import hashes_of_units, index_hashes, java_hashes
from roquet.protocol.message import SysFlag
from roquet.store.dispatch import TRANSACTION_MASK, value_of
from roquet.store.index_file import KeyBatch
from roquet.store.log_scan import LogRecord

UNIQUE_KEY_MARK: Final = b"\x02UNIQ_KEY\x01"
KEYS_MARK: Final = b"\x02KEYS\x01"
TAGS_MARK: Final = b"\x02TAGS\x01"
ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK.value


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
