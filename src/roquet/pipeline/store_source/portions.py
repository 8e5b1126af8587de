"""How many rows go to Spark at once: neither a few, which cost as much as many, nor too many."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

ROWS_MIN: Final = 4_096
ROWS_MAX: Final = 16_384
SIZE_MAX: Final = 8 << 20


def in_portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order. Only the last portion, or one of large rows, is small."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= ROWS_MIN or 2 * size >= SIZE_MAX:
            yield from _cut(_joined(waiting))
            waiting = []
            count = size = 0
    if waiting:
        yield from _cut(_joined(waiting))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    count = batch.num_rows
    if count > 1 and (count > ROWS_MAX or batch.nbytes > SIZE_MAX):
        middle = count // 2
        yield from _cut(batch.slice(0, middle))
        yield from _cut(batch.slice(middle))
    else:
        yield batch
