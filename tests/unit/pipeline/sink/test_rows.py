"""Rows before they are messages: what is wrong with them, and which belong together."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from roquet.client.producer.queue_choice import queue_of_key
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadRow
from roquet.pipeline.sink.rows import (
    Share,
    SingleRow,
    checked_rows,
    delay_of,
    encodable,
    grouped,
    level_of,
    single_rows,
)
from roquet.protocol.messages.message import Message

MAP = pa.map_(pa.string(), pa.string())


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def checked(batch: pa.RecordBatch, topic: str | None = "orders") -> pa.RecordBatch:
    return checked_rows(batch, topic, "partition 3", 100)


def queues(topic: str) -> list[QueueRef]:
    return [QueueRef(topic, "a", number) for number in range(4)]


def shared(batch: pa.RecordBatch) -> list[tuple[str, int | None, list[int]]]:
    return [
        (topic, None if queue is None else queue.queue_id, found.tolist())
        for topic, queue, found in grouped(checked(batch), queues).shares
    ]


def test_a_row_without_a_topic_gets_that_of_the_option() -> None:
    batch = rows(topic=["a", None], body=["1", "2"])
    assert checked(batch).column("topic").to_pylist() == ["a", "orders"]
    assert checked(rows(body=["1"])).column("topic").to_pylist() == ["orders"]
    nothing = rows(topic=pa.nulls(1), body=["1"])
    assert checked(nothing).column("topic").to_pylist() == ["orders"]


@pytest.mark.parametrize("is_nullable", [True, False])
def test_keys_become_one_text(is_nullable: bool) -> None:
    kind = pa.list_(pa.field("element", pa.string(), is_nullable))
    batch = rows(body=["1", "2", "3", "4"], keys=pa.array([["a", "b"], [], None, ["c"]], kind))
    assert checked(batch).column("keys").to_pylist() == ["a b", "", None, "c"]


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (rows(topic=["a", None], body=["1", "2"]), "row 101 .* column 'topic': null"),
        (rows(topic=["a", "b c"], body=["1", "2"]), "row 101 .* column 'topic': .*'b c'"),
        (rows(topic=["a", "a"], body=["1", None]), "row 101 of partition 3, column 'body'"),
        (rows(topic=["a", "a"], body=[b"1", b""]), "row 101 .* empty"),
        (
            rows(topic=["a"] * 3, body=["1"] * 3, keys=[[], ["x"], ["y", "a b"]]),
            "row 102 .* column 'keys': the key 'a b' has a space",
        ),
        (
            rows(topic=["a"] * 2, body=["1"] * 2, keys=[["x"], ["y", None]]),
            "row 101 .* column 'keys': one of the keys is null",
        ),
        (
            rows(
                topic=["a"] * 3,
                body=["1"] * 3,
                properties=pa.array([None, [("x", "1")], [("y", "1"), ("DELAY", "3")]], MAP),
            ),
            "row 102 .* column 'properties': 'DELAY' is reserved",
        ),
        (
            rows(topic=["a"] * 2, body=["1"] * 2, properties=["a\x01b\x02", "TAGS\x01x"]),
            "row 101 .* column 'properties': 'TAGS'",
        ),
    ],
)
def test_a_bad_row_is_named(batch: pa.RecordBatch, says: str) -> None:
    with pytest.raises(BadRow, match=says):
        checked(batch, None)


def test_a_slice_of_a_batch_is_checked_by_its_own_rows() -> None:
    properties = pa.array([[("DELAY", "3")], [("x", "1")], [("y", "2")]], MAP)
    batch = rows(topic=["a"] * 3, body=["1", "2", "3"], properties=properties).slice(1)
    assert checked(batch).num_rows == 2


def test_rows_of_a_topic_belong_together_in_their_order() -> None:
    batch = rows(topic=["b", "a", "b", "a"], body=["1", "2", "3", "4"])
    assert shared(batch) == [("b", None, [0, 2]), ("a", None, [1, 3])]


@pytest.mark.parametrize("keys", [["x", None, "y", "x", "y"], [1, None, 2**40, 1, 2**40]])
def test_rows_of_a_key_belong_into_its_queue_in_their_order(keys: list[str | int | None]) -> None:
    batch = rows(topic=["a"] * 5, body=["1"] * 5, orderKey=keys)
    found = {queue: numbers for _, queue, numbers in shared(batch)}
    assert found.pop(None) == [1]
    assert sorted(number for numbers in found.values() for number in numbers) == [0, 2, 3, 4]
    for queue, numbers in found.items():
        assert numbers == sorted(numbers)
        for number in numbers:
            key = keys[number]
            assert key is not None
            assert queue_of_key(queues("a"), key).queue_id == queue


def test_rows_with_a_delay_are_alone() -> None:
    batch = rows(topic=["a"] * 3, body=["1"] * 3, delay=["1s", None, "2s"])
    shares, single = grouped(checked(batch), queues)
    assert [share.rows.tolist() for share in shares] == [[1]]
    assert single.tolist() == [0, 2]


def test_of_a_share_only_what_is_in_messages_is_encoded() -> None:
    batch = checked(rows(topic=["b", "a", "b"], body=["1", "2", "3"], orderKey=["x", "y", "z"]))
    (share, *_) = grouped(batch.drop_columns(["orderKey"]), queues).shares
    assert isinstance(share, Share)
    assert encodable(batch, share).to_pydict() == {"body": ["1", "3"]}


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
        ({"delay": ["1s", "soon"]}, "row 101 .* 'soon': expected a time span"),
        ({"delayLevel": [1, 0]}, "row 101 .* column 'delayLevel': no delay level 0"),
    ],
)
def test_a_delay_that_is_none_is_refused(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRow, match=says):
        singles(0, 1, topic=["a", "a"], body=["x", "y"], **columns)
