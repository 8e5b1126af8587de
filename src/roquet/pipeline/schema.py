"""Columns of messages as Spark types, and which of them a reader was asked for."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
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

from roquet.pipeline.errors import BadSchema
from roquet.protocol.record_columns import PropertiesForm, record_schema

_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
    pa.map_(pa.string(), pa.string()): MapType(StringType(), StringType()),
}


def message_schema(form: PropertiesForm) -> StructType:
    """All columns, in their order; every one may be null."""
    return StructType(
        [StructField(each.name, _TYPES[each.type]) for each in record_schema(None, form)]
    )


def chosen_columns(schema: StructType, form: PropertiesForm) -> Sequence[str]:
    """The names of the columns that are wanted. Raises BadSchema for what messages do not have."""
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
