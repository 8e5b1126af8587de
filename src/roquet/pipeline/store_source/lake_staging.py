"""The log of a broker into a lake: the queues as the driver sees them, and the work of a task."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import DamagedStore
from roquet.pipeline.lake.entries import LakePiece, QueueIncarnation
from roquet.pipeline.lake.files import MissingRange, split_into_files
from roquet.pipeline.lake.schemas.body_schema import read_body_schema
from roquet.pipeline.lake.schemas.written_bodies import decoder_of
from roquet.pipeline.lake.staging import StagedWriter, Staging, lake_columns
from roquet.pipeline.options.reading import StoreOptions
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.queue_offsets import queue_key
from roquet.pipeline.store_source.rows import StoreSplit, read_split
from roquet.pipeline.store_source.splits import store_directory
from roquet.protocol.messages.record import read_record
from roquet.store.offline.reader import StoreReader

_TOPIC: Final = "topic"
_QUEUE_ID: Final = "queueId"
_OFFSET: Final = "queueOffset"
_QUEUE_ID_BITS: Final = 32


class SplitTask(NamedTuple):
    """What one task stages: the part of a split that the lake lacks."""

    split: StoreSplit
    wanted: Sequence[MissingRange]
    staging: Staging
    file_rows_max: int
    body_schema: str | None


class StoredQueue(NamedTuple):
    """A queue as the store has it: all of its offsets, and its incarnation."""

    range: QueueRange
    incarnation: QueueIncarnation


def stored_queues(
    options: StoreOptions, splits: Sequence[StoreSplit], broker_name: str
) -> list[StoredQueue]:
    """The queues of the splits. Raises StoreError and OSError."""
    bounds = (splits[0].bounds or {}) if splits else {}
    found: list[StoredQueue] = []
    with StoreReader.open(store_directory(options)) as reader:
        for (topic, queue_id), each in bounds.items():
            first = next(
                iter(reader.messages(topic, queue_id, each.min_offset, each.min_offset + 1)), None
            )
            born_ms = None if first is None else read_record(first).store_timestamp
            queue = QueueRef(topic, broker_name, queue_id)
            found.append(
                StoredQueue(
                    QueueRange(queue, each.min_offset, each.max_offset),
                    QueueIncarnation(each.min_offset, born_ms),
                )
            )
    return found


def needed_splits(
    options: StoreOptions, splits: Sequence[StoreSplit], wanted: Iterable[MissingRange]
) -> list[StoreSplit]:
    """The splits that can have messages of `wanted`. Raises StoreError and OSError."""
    with StoreReader.open(store_directory(options)) as reader:
        spans = [_log_span(reader, each.range) for each in wanted]
    return [
        split
        for split in splits
        if any(start < split.part.end and split.part.begin <= end for start, end in spans)
    ]


def _log_span(reader: StoreReader, wanted: QueueRange) -> tuple[float, float]:
    """Physical offsets of the first and the last message; unbounded if the queue lacks them."""
    topic, queue_id = wanted.queue.topic, wanted.queue.queue_id
    first = reader.entries(topic, queue_id, wanted.start, 1)
    last = reader.entries(topic, queue_id, wanted.end - 1, 1)
    return (
        first[0].physical_offset if first else -np.inf,
        last[0].physical_offset if last else np.inf,
    )


def stage_split(options: StoreOptions, task: SplitTask) -> list[LakePiece]:
    """What is staged: a file for each queue and hour, none across a multiple of file_rows_max.

    Raises DamagedStore.
    """
    by_queue: dict[tuple[str, int], list[MissingRange]] = {}
    for each in task.wanted:
        queue = each.range.queue
        by_queue.setdefault((queue.topic, queue.queue_id), []).append(each)
    columns = lake_columns(options.properties)
    decoder = decoder_of(read_body_schema(task.body_schema)) if task.body_schema else None
    writer = StagedWriter(task.staging, decoder)
    pieces: list[LakePiece] = []
    for key, rows in _queues_in(read_split(options, [_TOPIC, *columns], task.split)):
        for file_range, batches in _file_ranges(
            by_queue.get(key, []), rows.select(columns), task.file_rows_max
        ):
            pieces += writer.write(file_range, batches)
    return pieces


def _queues_in(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """The rows of each queue, in their order."""
    whole = list(batches)
    if not whole:
        return
    table = pa.Table.from_batches(whole)
    topics = table[_TOPIC].combine_chunks().dictionary_encode()
    numbers = topics.indices.to_numpy().astype(np.int64)
    keys = (numbers << _QUEUE_ID_BITS) + table[_QUEUE_ID].to_numpy()
    order = np.argsort(keys, kind="stable")
    for key in np.unique(keys):
        first, last = np.searchsorted(keys, [key, key + 1], sorter=order)
        topic = topics.dictionary[int(key) >> _QUEUE_ID_BITS].as_py()
        queue_id = int(key) & ((1 << _QUEUE_ID_BITS) - 1)
        yield (topic, queue_id), table.take(pa.array(order[first:last]))


def _file_ranges(
    wanted: Sequence[MissingRange], rows: pa.Table, file_rows_max: int
) -> Iterator[tuple[MissingRange, Sequence[pa.RecordBatch]]]:
    """Ranges without a gap: the lake still lacks what is missing, maybe damaged, in between."""
    offsets = rows[_OFFSET].to_numpy()
    steps = np.diff(offsets)
    if (steps <= 0).any():
        where = int(np.flatnonzero(steps <= 0)[0])
        raise DamagedStore("the log", [f"offset {offsets[where + 1]} occurs twice"])
    for each in wanted:
        first, last = np.searchsorted(offsets, [each.range.start, each.range.end])
        gaps = np.flatnonzero(steps[first : max(last - 1, first)] != 1) + 1 + first
        cuts = [int(first), *gaps.tolist(), int(last)]
        runs = [
            each._replace(
                range=QueueRange(each.range.queue, int(offsets[start]), int(offsets[end - 1]) + 1)
            )
            for start, end in pairwise(cuts)
            if start < end
        ]
        for file_range in split_into_files(runs, file_rows_max):
            start, end = np.searchsorted(offsets, [file_range.range.start, file_range.range.end])
            yield file_range, rows.slice(start, end - start).to_batches()


def described(queues: Iterable[StoredQueue]) -> Mapping[QueueRef, QueueIncarnation]:
    return {each.range.queue: each.incarnation for each in queues}


def replaced_since(
    queues: Iterable[StoredQueue], incarnations: Mapping[QueueRef, QueueIncarnation]
) -> list[str]:
    """Queues that were deleted and created again since: the lake has messages of the later one."""
    return [
        queue_key(each.range.queue)
        for each in queues
        if each.incarnation.is_replaced_by(incarnations[each.range.queue])
    ]
