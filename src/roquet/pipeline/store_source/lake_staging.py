"""Parts of a broker's log for a lake: what the driver knows of its queues, and what a task does."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import DamagedStore
from roquet.pipeline.lake.entries import QueueIncarnation, Staged
from roquet.pipeline.lake.file_ranges import MissingRange, split_into_files
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.staging import StagedWriter, lake_columns
from roquet.pipeline.options.store import StoreOptions
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.queue_offsets import queue_key
from roquet.pipeline.store_source.batch import store_directory
from roquet.pipeline.store_source.rows import StoreShare, read_share
from roquet.protocol.messages.record import read_record
from roquet.store.offline.reading import StoreReader

_TOPIC: Final = "topic"
_QUEUE_ID: Final = "queueId"
_OFFSET: Final = "queueOffset"
_QUEUE_ID_BITS: Final = 32


class ShareTask(NamedTuple):
    """What one task stages: of a part of the log what the lake lacks.

    `base` is the last entry of the log of the lake when that was found out.
    """

    share: StoreShare
    wanted: Sequence[MissingRange]
    lake: Path
    run: str
    file_rows_max: int
    base: int
    json_schema: str | None


class StoredQueue(NamedTuple):
    """A queue as the store has it: all of its offsets, and how it would be described."""

    range: QueueRange
    incarnation: QueueIncarnation


def stored_queues(
    options: StoreOptions, shares: Sequence[StoreShare], broker_name: str
) -> list[StoredQueue]:
    """Those that the shares hold. Raises StoreError and OSError."""
    bounds = (shares[0].bounds or {}) if shares else {}
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


def needed_shares(
    options: StoreOptions, shares: Sequence[StoreShare], wanted: Iterable[MissingRange]
) -> list[StoreShare]:
    """Those in which something can be that is wanted. Raises StoreError and OSError."""
    with StoreReader.open(store_directory(options)) as reader:
        spans = [_log_span(reader, each.range) for each in wanted]
    return [
        share
        for share in shares
        if any(start < share.part.end and share.part.begin <= end for start, end in spans)
    ]


def _log_span(reader: StoreReader, wanted: QueueRange) -> tuple[float, float]:
    """Where the first and the last message lie. A queue that does not say may be anywhere."""
    topic, queue_id = wanted.queue.topic, wanted.queue.queue_id
    first = reader.entries(topic, queue_id, wanted.start, 1)
    last = reader.entries(topic, queue_id, wanted.end - 1, 1)
    return (
        first[0].physical_offset if first else -np.inf,
        last[0].physical_offset if last else np.inf,
    )


def stage_share(options: StoreOptions, task: ShareTask) -> list[Staged]:
    """What is staged: a file for each queue and hour, none of them across the file_rows_max.

    Raises DamagedStore.
    """
    by_queue: dict[tuple[str, int], list[MissingRange]] = {}
    for each in task.wanted:
        queue = each.range.queue
        by_queue.setdefault((queue.topic, queue.queue_id), []).append(each)
    columns = lake_columns(options.properties)
    json_columns = JsonColumns(task.json_schema) if task.json_schema else None
    writer = StagedWriter(task.lake, task.run, json_columns)
    staged: list[Staged] = []
    for key, rows in _queues_in(read_share(options, [_TOPIC, *columns], task.share)):
        for file_range, batches in _file_ranges(
            by_queue.get(key, []), rows.select(columns), task.file_rows_max
        ):
            staged += [Staged(task.base, piece) for piece in writer.write(file_range, batches)]
    return staged


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
    """Offsets without a gap: what is missing in between, damaged maybe, the lake still lacks."""
    offsets = rows[_OFFSET].to_numpy()
    steps = np.diff(offsets)
    if (steps <= 0).any():
        where = int(np.flatnonzero(steps <= 0)[0])
        raise DamagedStore("the log", [f"offset {offsets[where + 1]} comes twice"])
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
    """Queues that were deleted since, and made again: the lake has messages of the later one."""
    return [
        queue_key(each.range.queue)
        for each in queues
        if each.incarnation.is_replaced_by(incarnations[each.range.queue])
    ]
