"""What the format refuses before anything is read or sent."""

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from roquet.pipeline.errors import BadOption
from roquet.pipeline.source.data_source import RocketmqDataSource

BODIES = StructType([StructField("body", StringType())])


def source(**given: str) -> RocketmqDataSource:
    return RocketmqDataSource({"nameServer": "localhost:9876", "topic": "orders"} | given)


def test_a_stream_that_is_written_has_a_name_of_its_own() -> None:
    named = source(deliveryMode="idempotent", writeId="mine")
    named.writer(BODIES, overwrite=False)
    with pytest.raises(BadOption, match="'writeId': a stream has one of its own"):
        named.streamWriter(BODIES, overwrite=False)


def test_messages_are_not_overwritten() -> None:
    with pytest.raises(BadOption, match="use mode 'append'"):
        source().writer(BODIES, overwrite=True)
