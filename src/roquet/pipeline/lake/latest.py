"""The newest row of each key: a table beside a lake that is a table, made from its messages.

    LAKE-latest/topic=T/latest-I-N-X.parquet     keys of topic T whose hash is I, modulo N

It has the ranges of the messages that it was made from, in the same commit as the rows. A step
takes what the lake has more: tasks find the newest rows of files, and write buckets of keys again,
with the rows that they had. Taking a row twice changes nothing, so that a step that was refused, or
whose driver was killed, is planned again by what both tables have then.

Within a queue the message at the higher offset is newer; of a topic that was deleted and created
again, the one that was stored later. Between queues it is the one that was stored later; at the
same time, that of the last broker and queue by name and number.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roquet.pipeline.errors import BadOption, BadSchema
from roquet.pipeline.lake.entries import LakeFile, LakePiece
from roquet.pipeline.lake.files import KeyBucket, bucket_of, topic_of
from roquet.pipeline.lake.places import LakePlace, Storage
from roquet.pipeline.lake.staging import TableFile
from roquet.pipeline.lake.state import LakeState
from roquet.pipeline.lake.table_offsets import ReprocessedRange

# A task has the rows of a bucket in memory.
BUCKET_ROWS_MAX: Final = 250_000
BUCKETS_MAX: Final = 4096
_ROWS_AT_ONCE: Final = 16_384
_KEY_KINDS: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_boolean,
)


class LatestStep(NamedTuple):
    """What the table lacks: ranges, the files that have them, and the buckets of each topic.

    Of the topics in `resized` all rows change their bucket. `reprocessed` are ranges of which rows
    came later, from the quarantine.
    """

    covered: Sequence[LakePiece]
    sources: Sequence[str]
    bucket_counts: Mapping[str, int]
    old_files: Sequence[LakeFile]
    resized: frozenset[str]
    by_time: frozenset[str]
    reprocessed: Sequence[ReprocessedRange] = ()

    def replaced_by(self, written: Iterable[KeyBucket]) -> list[str]:
        """The files that the table does not list any more."""
        buckets = set(written)
        return [
            each.path
            for each in self.old_files
            for bucket in (bucket_of(each.path),)
            if bucket in buckets or bucket.topic in self.resized
        ]

    def old_paths(self, bucket: KeyBucket) -> list[str]:
        """Of the files that may have rows of the bucket. Numbers of buckets are powers of two."""
        found = ((each.path, bucket_of(each.path)) for each in self.old_files)
        return [
            path
            for path, old in found
            for total in (min(old.total, bucket.total),)
            if old.topic == bucket.topic and old.number % total == bucket.number % total
        ]


def planned_step(
    lake: LakeState,
    files: Sequence[LakeFile],
    latest: LakeState,
    old: Sequence[LakeFile],
    reprocessed: Sequence[ReprocessedRange] = (),
) -> LatestStep | None:
    """None if the table has everything. The files are those of the lake, and of the table."""
    covered = lake.ahead_of(latest)
    if not covered and not reprocessed:
        return None
    spans = [_Span(each.topic, each.queue, each.start, each.end) for each in covered]
    spans += [_Span(each.topic, each.queue_id, each.start, each.end) for each in reprocessed]
    sources = [each for each in files if _may_have(each, spans)]
    rows: dict[str, int] = defaultdict(int)
    for each in (*sources, *old):
        rows[topic_of(each.path)] += each.rows
    counts = {topic: _bucket_count(count) for topic, count in rows.items()}
    topics = {topic_of(each.path) for each in sources}
    before = [bucket_of(each.path) for each in old]
    return LatestStep(
        covered,
        [each.path for each in sources],
        {topic: counts[topic] for topic in topics},
        old,
        frozenset(
            each.topic
            for each in before
            if each.topic in topics and each.total != counts[each.topic]
        ),
        frozenset(lake.recreated_topics()),
        reprocessed,
    )


class _Span(NamedTuple):
    """Offsets at a queue of any broker."""

    topic: str
    queue_id: int
    start: int
    end: int


def _bucket_count(row_count: int) -> int:
    """A power of two. Rows of a topic whose keys repeat are counted less the next time."""
    full = -(-row_count // BUCKET_ROWS_MAX)
    return min(BUCKETS_MAX, 1 << max(0, full - 1).bit_length())


def _may_have(file: LakeFile, spans: Iterable[_Span]) -> bool:
    topic = topic_of(file.path)
    return any(
        span.topic == topic and (file.bounds is None or _overlap(file, span)) for span in spans
    )


def _overlap(file: LakeFile, span: _Span) -> bool:
    assert file.bounds is not None
    (first_queue, last_queue), (first, last) = file.bounds.queue_id, file.bounds.offset
    is_queue = first_queue <= span.queue_id <= last_queue
    return is_queue and span.start <= last and first < span.end


def newest(rows: pa.Table, key: str, *, by_time: bool) -> pa.Table:
    """One row for each key, in no order; rows without a key are left out. Raises BadSchema."""
    if not has_key(rows.schema, key):
        return rows.slice(0, 0)
    keys = key_texts(rows, key)
    if keys.null_count:
        is_there = keys.is_valid()
        rows, keys = rows.filter(is_there), keys.filter(is_there)
    if not rows.num_rows:
        return rows
    key_codes = _codes(keys)
    brokers = np.unique(rows["brokerName"].to_numpy(), return_inverse=True)[1]
    queues = rows["queueId"].to_numpy()
    offsets = rows["queueOffset"].to_numpy()
    stored = rows["storeTimestamp"].cast(pa.int64()).to_numpy()
    within = stored if by_time else np.zeros_like(stored)
    order = np.lexsort((offsets, within, queues, brokers, key_codes))
    last = order[_ends_of_runs(key_codes[order], brokers[order], queues[order])]
    between = (offsets[last], queues[last], brokers[last], stored[last], key_codes[last])
    last = last[np.lexsort(between)]
    return rows.take(pa.array(last[_ends_of_runs(key_codes[last])]))


def key_texts(rows: pa.Table, name: str) -> pa.Array:
    """The column, or a field of a struct in it (`customer.id`), as texts. Raises BadSchema."""
    column, fields = _split(rows.schema, name)
    try:
        values = rows[column].combine_chunks()
        if fields:
            values = pc.struct_field(values, fields)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, TypeError):
        raise _no_key(name) from None
    # Arrow has texts of others, too: of bytes only if they are UTF-8, and several of one float.
    if not any(is_kind(values.type) for is_kind in _KEY_KINDS):
        raise _no_key(name)
    return values.cast(pa.string())


def _no_key(name: str) -> BadSchema:
    return BadSchema(
        f"{name!r} cannot be a key: a text, a whole number, a decimal, a date or a boolean can"
    )


def has_key(schema: pa.Schema, name: str) -> bool:
    """Files that were written before a column was added lack it."""
    column, fields = _split(schema, name)
    if column not in schema.names:
        return False
    kind = schema.field(column).type
    for field in fields:
        if not pa.types.is_struct(kind) or kind.get_field_index(field) < 0:
            return False
        kind = kind.field(field).type
    return True


def check_key(schema: pa.Schema, name: str, option: str) -> None:
    """Raises BadOption."""
    if not has_key(schema, name):
        raise BadOption(
            option,
            f"no column {name!r}; give keys, or another of {', '.join(schema.names)}",
        )
    try:
        key_texts(schema.empty_table(), name)
    except BadSchema as error:
        raise BadOption(option, str(error)) from None


def _split(schema: pa.Schema, name: str) -> tuple[str, list[str]]:
    if name in schema.names:
        return name, []
    column, *fields = name.split(".")
    return column, fields


def in_buckets(
    rows: pa.Table, key: str, topic: str, count: int
) -> Iterator[tuple[KeyBucket, pa.Table]]:
    """The rows by their keys, none of which is null."""
    if not rows.num_rows:
        return
    encoded = key_texts(rows, key).dictionary_encode()
    hashes = [crc32(text.encode()) % count for text in encoded.dictionary.to_pylist()]
    buckets = np.array(hashes, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
    for number in np.unique(buckets).tolist():
        yield KeyBucket(topic, number, count), rows.filter(pa.array(buckets == number))


def read_newest(files: pq.ParquetFile, key: str, *, by_time: bool) -> pa.Table:
    """Of a file, one group of rows at a time."""
    found = files.schema_arrow.empty_table()
    for group in range(files.num_row_groups):
        found = newest(pa.concat_tables([found, files.read_row_group(group)]), key, by_time=by_time)
    return found


def write_bucket(place: LakePlace, bucket: KeyBucket, rows: pa.Table) -> LakeFile:
    """A file of the table at that place; nothing lists it yet."""
    path = bucket.path
    file = TableFile(Storage(place), path, rows.schema)
    try:
        for batch in rows.to_batches(_ROWS_AT_ONCE):
            file.add(batch)
        return file.close(path)
    except BaseException:
        file.abandon()
        raise


def _codes(texts: pa.Array) -> npt.NDArray[np.int64]:
    indices = texts.dictionary_encode().indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)


def _ends_of_runs(*columns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Where the next row differs in one of the columns."""
    ends = np.ones(len(columns[0]), np.bool_)
    ends[:-1] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return ends
