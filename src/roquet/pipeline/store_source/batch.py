"""A batch read of a store by Spark: one snapshot, taken in the driver and split among tasks.

It stands alone because it needs Spark, and what reads a store does not.
"""

from collections.abc import Iterator, Sequence
from typing import Any, final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from roquet.pipeline.errors import without_frames
from roquet.pipeline.limits import NO_LIMITS, ReadLimits
from roquet.pipeline.options.reading import StoreOptions
from roquet.pipeline.store_source.rows import StoreSplit, read_split
from roquet.pipeline.store_source.splits import splits_of, within_times


@final
class StorePartition(InputPartition):
    """What one task reads."""

    def __init__(self, split: StoreSplit) -> None:
        super().__init__(split)
        self.split = split


@final
class StoreBatchReader(DataSourceReader):
    """Made in the driver; pickled to tasks, which only `read`."""

    def __init__(
        self, options: StoreOptions, columns: Sequence[str], limits: ReadLimits = NO_LIMITS
    ) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._limits = limits

    def limited(self, limits: ReadLimits) -> "StoreBatchReader":
        return StoreBatchReader(
            within_times(self._options, limits.stored_ms), self._columns, limits
        )

    @without_frames
    def partitions(self) -> Sequence[InputPartition]:
        return [StorePartition(split) for split in splits_of(self._options, self._limits)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # With nothing to read, Spark makes a partition of its own.
        if not isinstance(partition, StorePartition):
            return iter(())
        return read_split(self._options, self._columns, partition.split)
