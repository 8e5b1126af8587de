"""The newest row of each key, whatever the order in which rows are seen."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadOption
from roquet.pipeline.lake import latest as latest_module
from roquet.pipeline.lake.entries import FileBounds, LakeEntry, LakeFile, LakePiece
from roquet.pipeline.lake.files import bucket_of
from roquet.pipeline.lake.latest import check_key, in_buckets, newest, planned_step
from roquet.pipeline.lake.state import LakeState

SCHEMA = pa.schema(
    {
        "brokerName": pa.string(),
        "queueId": pa.int32(),
        "queueOffset": pa.int64(),
        "storeTimestamp": pa.timestamp("us", tz="UTC"),
        "keys": pa.string(),
    }
)
Row = tuple[str, int, int, int, str | None]


def table(*rows: Row) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def offsets(rows: pa.Table) -> dict[str, int]:
    keys, found = rows["keys"].to_pylist(), rows["queueOffset"].to_pylist()
    return dict(zip(keys, found, strict=True))


def test_within_a_queue_the_higher_offset_is_newer_whatever_the_clock() -> None:
    rows = table(("a", 0, 1, 900, "k"), ("a", 0, 2, 100, "k"))
    assert offsets(newest(rows, "keys", by_time=False)) == {"k": 2}


def test_in_a_topic_created_again_the_later_one_is_newer() -> None:
    rows = table(("a", 0, 50, 100, "k"), ("a", 0, 2, 900, "k"))
    assert offsets(newest(rows, "keys", by_time=True)) == {"k": 2}


def test_between_queues_the_one_stored_later_is_newer_then_broker_and_queue() -> None:
    rows = table(
        ("a", 0, 7, 900, "k"),
        ("a", 1, 3, 100, "k"),
        ("b", 0, 1, 500, "tie"),
        ("a", 1, 2, 500, "tie"),
        ("a", 0, 9, 500, "other"),
        ("a", 1, 4, 500, "other"),
    )
    found = offsets(newest(rows, "keys", by_time=False))
    assert found == {"k": 7, "tie": 1, "other": 4}


def test_rows_without_a_key_are_left_out() -> None:
    assert not newest(table(("a", 0, 1, 1, None)), "keys", by_time=False).num_rows


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_steps_does_not_matter(seed: int) -> None:
    chance = Random(seed)
    rows: list[Row] = [
        (
            "a" if queue < 2 else "b",
            queue % 2,
            offset,
            offset * 10 + queue,
            f"k{chance.randrange(9)}",
        )
        for queue in range(4)
        for offset in range(12)
    ]
    expected = newest(table(*rows), "keys", by_time=False).sort_by("keys")
    chance.shuffle(rows)
    found = SCHEMA.empty_table()
    while rows:
        size = chance.randint(1, 9)
        # Some are seen again.
        part = pa.concat_tables([found, table(*rows[: size + 2])])
        found, rows = newest(part, "keys", by_time=False), rows[size:]
    assert found.sort_by("keys").equals(expected)


def test_a_key_stays_in_its_bucket_and_buckets_split_in_two() -> None:
    rows = table(*(("a", 0, each, each, f"k{each}") for each in range(100)))
    of_two = dict(in_buckets(rows, "keys", "orders", 2))
    assert sum(each.num_rows for each in of_two.values()) == 100
    for bucket, its_rows in of_two.items():
        halves = dict(in_buckets(its_rows, "keys", "orders", 4))
        assert {each.number % 2 for each in halves} == {bucket.number}
        assert bucket_of(bucket.path) == bucket


@pytest.mark.parametrize("name", ["missing", "keys.field"])
def test_a_key_must_be_a_column_with_simple_values(name: str) -> None:
    with pytest.raises(BadOption):
        check_key(SCHEMA, name, "latest-by")


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.float64(), pa.timestamp("us"), pa.list_(pa.int8())]
)
def test_what_has_no_text_of_its_own_cannot_be_a_key(kind: pa.DataType) -> None:
    with pytest.raises(BadOption, match="'value' cannot be a key"):
        check_key(SCHEMA.append(pa.field("value", kind)), "value", "latest-by")


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.int8(), pa.decimal128(38), pa.date32(), pa.bool_()]
)
def test_what_has_one_can(kind: pa.DataType) -> None:
    check_key(SCHEMA.append(pa.field("value", kind)), "value", "latest-by")


def test_a_key_may_be_a_field_of_a_struct() -> None:
    schema = SCHEMA.append(pa.field("who", pa.struct({"id": pa.int64()})))
    check_key(schema, "who.id", "latest-by")
    with pytest.raises(BadOption, match="cannot be a key"):
        check_key(schema, "who", "latest-by")


# What a step takes.


def piece(queue: int, start: int, end: int, **more: Any) -> LakePiece:
    return LakePiece("orders", "broker-a", queue, start, end, end - start, 1, "", "", **more)


def state(*pieces: LakePiece) -> LakeState:
    found = LakeState()
    found.apply(LakeEntry(1, 1, 0, added=list(pieces)))
    return found


def file(name: str, queue: int, start: int, end: int, rows: int = 10) -> LakeFile:
    bounds = FileBounds((queue, queue), (start, end - 1), (0, 0))
    return LakeFile(f"topic=orders/dt=2026-11-18/hour=10/{name}", "", rows, 1, bounds)


def test_a_step_takes_the_files_that_have_what_the_table_lacks() -> None:
    files = [file("old", 0, 0, 10), file("new", 0, 10, 20), file("other", 1, 0, 20)]
    lake = state(piece(0, 0, 20), piece(1, 0, 20))
    before = state(piece(0, 0, 10), piece(1, 0, 20))
    step = planned_step(lake, files, before, [])
    assert step is not None
    assert [each.rpartition("/")[2] for each in step.sources] == ["new"]
    assert [(each.queue_ref, each.start, each.end) for each in step.covered] == [
        (QueueRef("orders", "broker-a", 0), 10, 20)
    ]
    assert planned_step(lake, files, lake, []) is None


def test_a_table_that_grew_is_divided_into_more_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_module, "BUCKET_ROWS_MAX", 10)
    old = [LakeFile("topic=orders/latest-0-1-x.parquet", "", 9, 1)]
    lake, before = state(piece(0, 0, 20)), state(piece(0, 0, 10))
    step = planned_step(lake, [file("new", 0, 10, 20)], before, old)
    assert step is not None
    assert step.bucket_counts == {"orders": 2}
    assert step.resized == {"orders"}
    assert step.replaced_by([]) == [old[0].path]


def test_a_topic_that_was_created_again_is_ordered_by_time() -> None:
    lake = state(piece(0, 0, 20), piece(0, 0, 5, generation=1))
    step = planned_step(lake, [], LakeState(), [])
    assert step is not None
    assert step.by_time == {"orders"}
