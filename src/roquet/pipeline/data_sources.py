"""The formats `rocketmq` and `rocketmq-store`: what Spark loads by name, and their columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from roquet.pipeline.errors import BadOption, BadSchema, without_frames
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import ReadOptions, StoreOptions
from roquet.pipeline.options.writing import WriteOptions
from roquet.protocol.record_columns import PropertiesForm, record_schema

if TYPE_CHECKING:
    from roquet.pipeline.pushdown import LimitedReader

_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
    pa.map_(pa.string(), pa.string()): MapType(StringType(), StringType()),
}


@final
class RocketmqDataSource(DataSource):
    """Topics of a cluster as DataFrames, and DataFrames as topics.

    Readers and writers are imported when they are used: Spark makes an object of this class in
    many short-lived processes.
    """

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    @without_frames
    def schema(self) -> StructType:
        return message_schema(self._read_options().properties)

    @without_frames
    def reader(self, schema: StructType) -> DataSourceReader:
        from roquet.pipeline.source.batch import BatchReader  # noqa: PLC0415

        options = self._read_options()
        reader = BatchReader(options, chosen_columns(schema, options.properties))
        return _pushed(reader) if options.filter_pushdown else reader

    @without_frames
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from roquet.pipeline.source.stream import StreamReader  # noqa: PLC0415

        options = self._read_options()
        return StreamReader(options, chosen_columns(schema, options.properties))

    @without_frames
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from roquet.pipeline.sink.writers import BatchWriter  # noqa: PLC0415

        return BatchWriter(self._write_options(schema, overwrite=overwrite))

    @without_frames
    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        from roquet.pipeline.sink.writers import StreamWriter  # noqa: PLC0415

        options = self._write_options(schema, overwrite=overwrite)
        if options.write_id is not None:
            raise BadOption(
                "writeId", "not supported for a stream, which has its own: leave it out"
            )
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


@final
class RocketmqStoreDataSource(DataSource):
    """Store directories, ours and Apache's, as DataFrames.

    The reader is imported when it is used: Spark makes an object of this class in many
    short-lived processes.
    """

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    @without_frames
    def schema(self) -> StructType:
        return message_schema(self._options().properties)

    @without_frames
    def reader(self, schema: StructType) -> DataSourceReader:
        from roquet.pipeline.store_source.batch import StoreBatchReader  # noqa: PLC0415

        options = self._options()
        reader = StoreBatchReader(options, chosen_columns(schema, options.properties))
        return _pushed(reader) if options.filter_pushdown else reader

    def _options(self) -> StoreOptions:
        return read_options(StoreOptions, dict(self.options))


def _pushed(reader: "LimitedReader") -> DataSourceReader:
    """Spark refuses readers with `pushFilters` in sessions that do not push filters down."""
    from roquet.pipeline.pushdown import PushdownReader  # noqa: PLC0415

    return PushdownReader(reader)


def message_schema(form: PropertiesForm) -> StructType:
    """All columns, in their order; every one may be null."""
    return StructType(
        [StructField(each.name, _TYPES[each.type]) for each in record_schema(None, form)]
    )


def chosen_columns(schema: StructType, form: PropertiesForm) -> Sequence[str]:
    """The names of the requested columns. Raises BadSchema for those that messages do not have."""
    known = {field.name: field.dataType for field in message_schema(form).fields}
    for field in schema.fields:
        wanted = known.get(field.name)
        if wanted is None:
            raise BadSchema(f"messages have no column {field.name!r}, only {', '.join(known)}")
        if wanted != field.dataType:
            raise BadSchema(
                f"column {field.name!r} is {wanted.simpleString()},"
                f" not {field.dataType.simpleString()}"
            )
    return schema.fieldNames()
