"""Columns as people write them for Spark."""

import pyarrow as pa
import pytest

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.ddl import read_ddl, write_ddl


def test_columns_have_the_types_that_spark_means() -> None:
    schema = read_ddl(
        "id BIGINT, `a b` string,at timestamp, price decimal(10, 2), ok boolean, n long,"
        " tags array<string>, more map<string,double>, who struct<name:string, age:int>"
    )
    assert schema == pa.schema(
        [
            ("id", pa.int64()),
            ("a b", pa.string()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("price", pa.decimal128(10, 2)),
            ("ok", pa.bool_()),
            ("n", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("more", pa.map_(pa.string(), pa.float64())),
            ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        "`id` bigint",
        "`a` int, `b c` decimal(5,0)",
        "`x` array<map<string,struct<`y`:date,`z`:binary>>>",
    ],
)
def test_what_is_written_is_what_was_read(text: str) -> None:
    assert write_ddl(read_ddl(text)) == text
    assert read_ddl(write_ddl(read_ddl(text))) == read_ddl(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a name"),
        ("id", "expected a name"),
        ("id text", "type 'text'"),
        ("id int,", "expected a name"),
        ("id int name string", "expected ','"),
        ("a int, A string", "column 'a'"),
        ("a array<int", "expected '>'"),
        ("a map<int,int>", "keys of a map"),
        ("a decimal(x)", "expected a number"),
        ("a decimal(39)", "1 to 38 digits"),
        ("a decimal(3,4)", "1 to 38 digits"),
        ("a " + "array<" * 60, "nested more than 50 deep"),
    ],
)
def test_mistakes_are_named(text: str, reason: str) -> None:
    with pytest.raises(BadSchema, match=reason):
        read_ddl(text)
