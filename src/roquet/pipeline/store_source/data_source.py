"""Format `rocketmq-store`: what Spark finds when somebody names it."""

from typing import final

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.store import StoreOptions
from roquet.pipeline.schema import chosen_columns, message_schema


@final
class RocketmqStoreDataSource(DataSource):
    """Store directories, ours and Apache's, as DataFrames.

    What reads them is loaded when it is asked for: Spark makes an object of this class in many
    short-lived processes.
    """

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        return message_schema(self._options().properties)

    def reader(self, schema: StructType) -> DataSourceReader:
        from roquet.pipeline.store_source.batch import StoreBatchReader  # noqa: PLC0415

        options = self._options()
        return StoreBatchReader(options, chosen_columns(schema, options.properties))

    def _options(self) -> StoreOptions:
        return read_options(StoreOptions, dict(self.options))
