"""What the format refuses before anything is read or sent."""

import traceback

import pytest
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from roquet.pipeline.data_sources import RocketmqDataSource, chosen_columns, message_schema
from roquet.pipeline.errors import BadOption, BadSchema
from roquet.protocol.record_columns import COLUMN_NAMES, PropertiesForm
from tests.support.raising import raises

BODIES = StructType([StructField("body", StringType())])


def source(**given: str) -> RocketmqDataSource:
    return RocketmqDataSource({"nameServer": "localhost:9876", "topic": "orders"} | given)


def test_a_stream_that_is_written_has_a_name_of_its_own() -> None:
    named = source(deliveryMode="idempotent", idColumn="body", writeId="mine")
    named.writer(BODIES, overwrite=False)
    with raises(BadOption, name="writeId"):
        named.streamWriter(BODIES, overwrite=False)


def test_errors_have_no_frames_below_what_spark_calls() -> None:
    """Spark shows them all: there used to be up to thirty lines above the one that says it."""
    with pytest.raises(BadOption) as raised:
        source(groupId="a b").schema()
    called = [frame.name for frame in traceback.extract_tb(raised.tb)]
    assert called == [test_errors_have_no_frames_below_what_spark_calls.__name__, "call"]


def test_messages_are_not_overwritten() -> None:
    with raises(BadOption, name="mode"):
        source().writer(BODIES, overwrite=True)


def test_the_columns_are_those_of_messages_in_their_order() -> None:
    assert tuple(message_schema(PropertiesForm.MAP).fieldNames()) == COLUMN_NAMES


@pytest.mark.parametrize(
    ("form", "kind"),
    [(PropertiesForm.STRING, "string"), (PropertiesForm.MAP, "map<string,string>")],
)
def test_properties_are_a_text_or_a_map(form: PropertiesForm, kind: str) -> None:
    assert message_schema(form)["properties"].dataType.simpleString() == kind


def test_properties_can_be_left_out() -> None:
    assert "properties" not in message_schema(PropertiesForm.NONE).fieldNames()


def test_a_schema_may_name_some_columns_in_any_order() -> None:
    schema = StructType().add("tags", StringType()).add("body", BinaryType())
    assert list(chosen_columns(schema, PropertiesForm.NONE)) == ["tags", "body"]


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("tag", StringType(), "no column 'tag'"),
        ("body", StringType(), "'body' is binary, not string"),
    ],
)
def test_a_schema_of_something_else_is_refused(name: str, kind: DataType, says: str) -> None:
    with pytest.raises(BadSchema, match=says):
        chosen_columns(StructType().add(name, kind), PropertiesForm.NONE)
