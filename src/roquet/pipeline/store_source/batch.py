"""A batch read of a store: one snapshot when it is planned, the same rows whenever counted."""

from collections.abc import Iterator, Sequence
from typing import Any, final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from roquet.pipeline.options.store import StoreOptions
from roquet.pipeline.store_source.finding import shares_of
from roquet.pipeline.store_source.rows import StoreShare, read_share


@final
class StorePartition(InputPartition):
    """What one task reads."""

    def __init__(self, share: StoreShare) -> None:
        super().__init__(share)
        self.share = share


@final
class StoreBatchReader(DataSourceReader):
    """Made in the driver; pickled to tasks, which only `read`."""

    def __init__(self, options: StoreOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        return [StorePartition(share) for share in shares_of(self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Where nothing is to be read, Spark makes up a partition of its own.
        if not isinstance(partition, StorePartition):
            return iter(())
        return read_share(self._options, self._columns, partition.share)
