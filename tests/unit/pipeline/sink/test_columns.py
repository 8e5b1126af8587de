"""Which columns can be written: refused by name, before anything is sent."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.writing import WriteOptions
from roquet.pipeline.sink.columns import check_columns

TEXT = StringType()
INT = IntegerType()
IDEMPOTENT = {"deliveryMode": "idempotent", "idColumn": "body"}


def check(columns: dict[str, DataType], **given: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    check_columns(schema, read_options(WriteOptions, {"nameServer": "localhost:1"} | given))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("body", BinaryType()),
        ("body", TEXT),
        ("keys", TEXT),
        ("keys", ArrayType(TEXT)),
        ("orderKey", LongType()),
        ("orderKey", TEXT),
        ("delay", DayTimeIntervalType()),
        ("delay", TimestampType()),
        ("delay", TEXT),
        ("delayLevel", INT),
        ("properties", MapType(TEXT, TEXT)),
        ("properties", TEXT),
        ("tags", NullType()),
        ("flag", INT),
    ],
)
def test_a_column_of_its_type_can_be_written(name: str, kind: DataType) -> None:
    check({"topic": TEXT, "body": TEXT} | {name: kind})


@pytest.mark.parametrize(
    ("columns", "given", "says"),
    [
        ({"queueId": INT}, {}, "no column 'queueId'"),
        ({"body": INT}, {}, "'body' has to be binary or a string, not int"),
        ({"body": NullType()}, {}, "'body' has to be"),
        ({"tags": ArrayType(TEXT)}, {}, "'tags' has to be a string"),
        ({"keys": ArrayType(INT)}, {}, "'keys' has to be .* not array<int>"),
        ({"orderKey": BinaryType()}, {}, "'orderKey'"),
        ({"delay": INT}, {}, "'delay' has to be an interval.*'delayLevel'"),
        ({"delayLevel": TEXT}, {}, "'delayLevel' has to be an int"),
        ({"delay": TEXT, "delayLevel": INT}, {}, "not both"),
        ({"properties": MapType(TEXT, INT)}, {}, "'properties'"),
        ({"delay": TEXT}, IDEMPOTENT, "'delay' cannot be written with deliveryMode 'idempotent'"),
        ({}, IDEMPOTENT | {"idColumn": "id"}, "no column 'id', which the option 'idColumn' names"),
        ({"id": MapType(TEXT, INT)}, IDEMPOTENT | {"idColumn": "id"}, "'id' identifies rows"),
        ({"id": TEXT, "more": TEXT}, IDEMPOTENT | {"idColumn": "id"}, "no column 'more'"),
    ],
)
def test_what_cannot_be_written_is_named(
    columns: dict[str, DataType], given: dict[str, str], says: str
) -> None:
    with pytest.raises(BadSchema, match=says):
        check({"topic": TEXT, "body": TEXT} | columns, **given)


def test_a_topic_and_a_body_are_required() -> None:
    check({"body": TEXT}, topic="orders")
    with pytest.raises(BadSchema, match="neither a column 'topic' nor the option"):
        check({"body": TEXT})
    with pytest.raises(BadSchema, match="no column 'body'"):
        check({"topic": TEXT})
