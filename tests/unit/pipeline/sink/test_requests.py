"""Requests: cut the same way each time, known by what is in them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadRow
from roquet.pipeline.sink.requests import RequestBuilder, RequestLimits, SendRequest, TaskId
from roquet.pipeline.sink.rows import checked_rows, grouped
from roquet.protocol.messages.batch import decode_batch
from roquet.protocol.messages.message_id import parse_unique_id
from roquet.protocol.messages.properties import parse_properties

TASK = TaskId("query", 7, 3)
LIMITS = RequestLimits(1000, 10)


def queues(topic: str) -> list[QueueRef]:
    return [QueueRef(topic, "a", number) for number in range(2)]


def cut(task: TaskId = TASK, limits: RequestLimits = LIMITS, **columns: Any) -> list[SendRequest]:
    batch = checked_rows(pa.RecordBatch.from_pydict(columns), "orders", task.place, 0)
    builder = RequestBuilder(task, limits, {})
    return list(builder.requests(batch, grouped(batch, queues).shares, 0))


def messages(request: SendRequest) -> list[tuple[bytes, dict[str, str]]]:
    return [
        (bytes(item.body), parse_properties(bytes(item.properties).decode()))
        for item in decode_batch(request.body)
    ]


def ids(requests: list[SendRequest]) -> list[str]:
    return [properties["UNIQ_KEY"] for request in requests for _, properties in messages(request)]


def test_all_rows_are_in_pieces_of_the_allowed_size() -> None:
    bodies = [f"{number:0{number % 90 + 3}}" for number in range(200)]
    requests = cut(body=bodies, tags=["t"] * 200)
    found = [body.decode() for request in requests for body, _ in messages(request)]
    assert found == bodies
    assert all(len(request.body) <= 1000 and request.message_count <= 10 for request in requests)
    assert [len(messages(request)) for request in requests] == [
        request.message_count for request in requests
    ]


def test_every_message_has_an_id_of_its_own_that_tools_can_read() -> None:
    requests = cut(body=["same"] * 100, topic=["a", "b"] * 50)
    found = ids(requests)
    assert len(set(found)) == 100
    assert [request.first_id for request in requests] == [ids([request])[0] for request in requests]
    assert {parse_unique_id(each).month_ms for each in found} == {0}


def test_properties_that_all_messages_get_leave_their_ids_whole() -> None:
    rows = pa.RecordBatch.from_pydict({"body": ["x", "longer", "x"], "tags": ["t", None, "täg"]})
    batch = checked_rows(rows, "orders", TASK.place, 0)
    extra = {"INSTANCE_ID": "plätze", "MARK": "run 1", "EMPTY": ""}
    builder = RequestBuilder(TASK, LIMITS, extra)
    (request,) = builder.requests(batch, grouped(batch, queues).shares, 0)
    found = [properties for _, properties in messages(request)]
    assert [each["UNIQ_KEY"][-4:] for each in found] == ["0000", "0001", "0002"]
    assert len({each["UNIQ_KEY"][:-4] for each in found}) == 1
    assert found[0] == {
        "TAGS": "t",
        "UNIQ_KEY": request.first_id,
        "INSTANCE_ID": "plätze",
        "MARK": "run 1",
    }


def test_the_same_rows_of_the_same_task_are_the_same_pieces() -> None:
    columns: dict[str, Any] = {
        "body": ["x"] * 25,
        "keys": [["a"]] * 25,
        "orderKey": list(range(25)),
    }
    assert cut(**columns) == cut(**columns)


@pytest.mark.parametrize(
    "other",
    [TASK._replace(write_id="r"), TASK._replace(batch_id=8), TASK._replace(partition=4)],
)
def test_another_write_batch_or_task_has_other_ids(other: TaskId) -> None:
    assert set(ids(cut(body=["x"] * 3))).isdisjoint(ids(cut(other, body=["x"] * 3)))


def test_a_piece_with_something_else_in_it_is_another_piece() -> None:
    first, second = (cut(body=[f"{number}" for number in each]) for each in ([1, 2], [2, 1]))
    assert set(ids(first)).isdisjoint(ids(second))
    tagged = cut(body=["1", "2"], tags=["a", None])
    assert set(ids(first)).isdisjoint(ids(tagged))


def test_pieces_that_are_cut_otherwise_are_other_pieces() -> None:
    """Or a row of a request that was never sent could be taken for one that was."""
    one_way = cut(body=["x"] * 20)
    other_way = cut(limits=RequestLimits(1000, 20), body=["x"] * 20)
    assert set(ids(one_way)).isdisjoint(ids(other_way))


def test_rows_with_an_identity_have_the_same_ids_in_every_task_and_request() -> None:
    def found(task: TaskId, limits: RequestLimits, numbers: Sequence[int]) -> dict[int, str]:
        rows = pa.RecordBatch.from_pydict({"body": list(map(str, numbers)), "id": numbers})
        batch = checked_rows(rows, "orders", task.place, 0)
        builder = RequestBuilder(task, limits, {"MARK": "x"}, ["id"])
        requests = list(builder.requests(batch, grouped(batch, queues).shares, 0))
        assert ids(requests) == [row.id for request in requests for row in request.rows]
        sent = [message for request in requests for message in messages(request)]
        return {int(body): properties["UNIQ_KEY"] for body, properties in sent}

    once = found(TASK, LIMITS, range(30))
    assert len(set(once.values())) == 30
    assert {parse_unique_id(each).month_ms for each in once.values()} == {0}
    again = found(TASK._replace(partition=9), RequestLimits(9999, 7), range(29, -1, -1))
    assert again == once
    assert set(found(TASK._replace(batch_id=8), LIMITS, range(30)).values()).isdisjoint(
        once.values()
    )


def test_a_request_without_what_is_stored_has_the_others_in_order() -> None:
    rows = pa.RecordBatch.from_pydict({"body": list("abcde"), "id": list("abcde")})
    batch = checked_rows(rows, "orders", TASK.place, 0)
    builder = RequestBuilder(TASK, LIMITS, {}, ["id"])
    (request,) = builder.requests(batch, grouped(batch, queues).shares, 0)
    stored = [request.rows[each].id for each in (0, 3)]
    left = request.without(stored)
    assert left is not None
    assert [body for body, _ in messages(left)] == [b"b", b"c", b"e"]
    assert ids([left]) == [row.id for row in left.rows] == [left.first_id, *ids([left])[1:]]
    assert left.without([left.first_id]) == request.without([*stored, request.rows[1].id])
    assert request.without([row.id for row in request.rows]) is None
    assert request.without(()) is request


def test_a_row_that_is_too_large_for_a_batch_is_alone() -> None:
    bodies = ["a", "b" * 5000, "c" * 5000, "d", "e"]
    requests = cut(body=bodies)
    assert [[body.decode() for body, _ in messages(request)] for request in requests] == [
        ["a"],
        ["b" * 5000],
        ["c" * 5000],
        ["d", "e"],
    ]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"body": ["a", "b" * (5 << 20)]}, "row 1 of partition 3, column 'body': .* limit of"),
        (
            {"body": ["a"] * 2, "properties": ["", "a\x01" + "b" * 40_000]},
            "row 1 .* column 'properties': .* limit of 32767",
        ),
        (
            {"body": ["a"] * 2, "tags": ["x", "y\x02z"]},
            "row 1 .* column 'tags': property 'TAGS' cannot be",
        ),
        (
            {
                "body": ["a"] * 2,
                "properties": pa.array(
                    [[("a", "b")], [("c\x01", "d")]], pa.map_(pa.string(), pa.string())
                ),
            },
            "row 1 .* column 'properties': property",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_named(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRow, match=says):
        cut(**columns)


def test_the_row_that_is_named_is_that_of_the_partition() -> None:
    with pytest.raises(BadRow, match="row 2 "):
        cut(topic=["a", "b", "b"], body=["1", "2", "3"], tags=["x", "y", "\x02"])
