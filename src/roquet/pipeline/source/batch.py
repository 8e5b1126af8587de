"""A batch read: its bounds are fixed when it is planned, so every run has the same rows.

`BatchReader.partitions` runs in the driver; `read_rows` runs in tasks, for streams as well.
"""

from collections.abc import Iterator, Sequence
from typing import Any, final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from roquet.pipeline.connections import retried, topic_reader
from roquet.pipeline.errors import without_frames
from roquet.pipeline.limits import NO_LIMITS, ReadLimits
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.planning import QueueRange, core_count, split_evenly, task_count
from roquet.pipeline.source.positions import batch_ranges, limited_ranges, with_tags
from roquet.pipeline.source.rows import pull_group, read_ranges


@final
class QueuePartition(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[QueueRange]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


@final
class BatchReader(DataSourceReader):
    """Made in the driver; pickled to tasks, which only `read`."""

    def __init__(
        self, options: ReadOptions, columns: Sequence[str], limits: ReadLimits = NO_LIMITS
    ) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._limits = limits

    def limited(self, limits: ReadLimits) -> "BatchReader":
        return BatchReader(with_tags(self._options, limits), self._columns, limits)

    @without_frames
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        reader = topic_reader(options.cluster, pull_group(options))
        ranges = retried(
            lambda: batch_ranges(reader, options), options.cluster.retry_timeout, is_starting=True
        )
        return planned(options, limited_ranges(reader, ranges, self._limits, options))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_rows(self._options, self._columns, partition)


def planned(options: ReadOptions, ranges: Sequence[QueueRange]) -> list[InputPartition]:
    count = task_count(
        sum(each.row_count for each in ranges),
        least=options.min_partitions,
        most=options.max_records_per_partition,
        cores=core_count(),
    )
    return [QueuePartition(share) for share in split_evenly(ranges, count)]


def read_rows(
    options: ReadOptions, columns: Sequence[str], partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    # With nothing to read, Spark makes a partition of its own.
    if not isinstance(partition, QueuePartition):
        return iter(())
    return read_ranges(options, columns, partition.ranges)
