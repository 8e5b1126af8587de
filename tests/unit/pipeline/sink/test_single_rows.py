"""Rows that are requests of their own: their messages and their delays."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from roquet.pipeline.errors import BadRow
from roquet.pipeline.sink.single_rows import SingleRow, delay_of, level_of, single_rows
from roquet.protocol.messages.message import Message


def singles(*chosen: int, **columns: Any) -> list[SingleRow]:
    rows = pa.RecordBatch.from_pydict(columns)
    return list(single_rows(rows, np.array(chosen), "partition 3", 100))


def test_a_row_has_all_that_a_message_has() -> None:
    properties = pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))
    columns = {"topic": ["orders"], "body": ["x"], "tags": ["t"], "keys": ["k l"], "flag": [3]}
    expected = Message("orders", b"x", "t", ("k", "l"), {"a": "b"}, 3)
    for form in (properties, ["a\x01b\x02"]):
        found = singles(0, **columns, properties=form, orderKey=[7])
        assert found == [SingleRow(100, expected, 7)]


def test_what_is_null_is_not_there() -> None:
    nothing = pa.nulls(1, pa.string())
    columns = {"tags": nothing, "keys": nothing, "properties": nothing, "orderKey": nothing}
    assert singles(0, topic=["orders"], body=[b"x"], **columns) == [
        SingleRow(100, Message("orders", b"x"))
    ]


@pytest.mark.parametrize(
    ("values", "delay"),
    [
        ({"delay": "10s"}, timedelta(seconds=10)),
        ({"delay": " 15m "}, timedelta(minutes=15)),
        ({"delay": timedelta(days=1)}, timedelta(days=1)),
        ({"delay": datetime(2030, 1, 1, tzinfo=UTC)}, datetime(2030, 1, 1, tzinfo=UTC)),
        ({"delay": None}, None),
        ({"delayLevel": 3}, None),
        ({}, None),
    ],
)
def test_a_delay_is_a_time(values: dict[str, Any], delay: object) -> None:
    assert delay_of(values) == delay


@pytest.mark.parametrize(
    ("values", "level"), [({"delayLevel": 3}, 3), ({"delayLevel": None}, None), ({}, None)]
)
def test_a_level_is_no_delay(values: dict[str, Any], level: int | None) -> None:
    assert level_of(values) == level


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"delay": ["1s", "5"]}, "row 101 of partition 3, column 'delay': '5' has no unit"),
        ({"delay": ["1s", "soon"]}, "row 101 .* 'soon' is not a time span"),
        ({"delayLevel": [1, 0]}, "row 101 .* column 'delayLevel': there is no level 0"),
    ],
)
def test_a_delay_that_is_none_is_refused(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRow, match=says):
        singles(0, 1, topic=["a", "a"], body=["x", "y"], **columns)
