"""Format `rocketmq`: what Spark finds when somebody names it."""

from typing import final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.options.writing import WriteOptions
from roquet.pipeline.schema import chosen_columns, message_schema


@final
class RocketmqDataSource(DataSource):
    """Topics of a cluster as DataFrames, and DataFrames as topics.

    What reads and writes is loaded when it is asked for: Spark makes an object of this class in
    many short-lived processes.
    """

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return message_schema(self._read_options().properties)

    def reader(self, schema: StructType) -> DataSourceReader:
        from roquet.pipeline.source.batch import BatchReader  # noqa: PLC0415

        options = self._read_options()
        return BatchReader(options, chosen_columns(schema, options.properties))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from roquet.pipeline.source.stream import StreamReader  # noqa: PLC0415

        options = self._read_options()
        return StreamReader(options, chosen_columns(schema, options.properties))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from roquet.pipeline.sink.writers import BatchWriter  # noqa: PLC0415

        return BatchWriter(self._write_options(schema, overwrite=overwrite))

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        from roquet.pipeline.sink.writers import StreamWriter  # noqa: PLC0415

        options = self._write_options(schema, overwrite=overwrite)
        if options.write_id is not None:
            raise BadOption("writeId", "a stream has one of its own: leave it out")
        return StreamWriter(options)

    def _write_options(self, schema: StructType, *, overwrite: bool) -> WriteOptions:
        """Raises BadOption or BadSchema, before anything is sent."""
        from roquet.pipeline.sink.columns import check_columns  # noqa: PLC0415

        if overwrite:
            raise BadOption(
                "mode",
                "messages cannot be overwritten: use mode 'append', or output mode 'append' or"
                " 'update' of a stream",
            )
        options = read_options(WriteOptions, dict(self.options))
        check_columns(schema, options)
        return options

    def _read_options(self) -> ReadOptions:
        return read_options(ReadOptions, dict(self.options))
