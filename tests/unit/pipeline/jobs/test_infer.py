"""Columns by the first messages of real topics, and what a lake makes of them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roquet import Message, Producer
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadOption, BadSchema
from roquet.pipeline.jobs.infer import INFER_MESSAGES_MAX, first_of
from roquet.pipeline.jobs.ingest import IngestPlan, check_plan, inferred_columns, with_columns
from roquet.pipeline.lake.ddl import read_ddl
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.opening import open_lake
from roquet.pipeline.lake.schemas.body_schema import read_body_schema
from roquet.pipeline.lake.schemas.choosing import BodyOptions
from roquet.pipeline.lake.schemas.written_bodies import decoder_of
from roquet.pipeline.planning import QueueRange
from roquet.testing.blocking import BlockingCluster
from tests.support.lake_rows import message_batch, staged_rows

INFER = BodyOptions(infer=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as running:
        yield running


def plan(
    cluster: BlockingCluster, lake: Path, *bodies: bytes, table_format: str | None = None
) -> IngestPlan:
    topic = cluster.new_topic(queues=2)
    with Producer(cluster.name_server, "sellers") as producer:
        for body in bodies:
            producer.send(Message(topic, body))
    source = {"nameServer": cluster.name_server, "topic": topic}
    return IngestPlan(source=source, lake=lake, bodies=INFER, format=table_format)


def make_lake(plan: IngestPlan, ddl: str) -> None:
    """With a message whose body has these columns."""
    settings = check_plan(plan)
    with open_lake(plan.lake, settings) as lake:
        rows = message_batch(0, [0], bodies=[b"{}"])
        lake.publish(staged_rows(lake, rows, decoder_of(read_body_schema(ddl))), ddl)


def test_all_queues_are_looked_at(cluster: BlockingCluster, tmp_path: Path) -> None:
    found = inferred_columns(plan(cluster, tmp_path / "lake", b'{"a": 1}', b'{"b": "x"}', b"no"))
    assert set(read_ddl(found.columns)) == set(read_ddl("a bigint, b string"))
    assert (found.messages, found.not_json) == (3, 1)


def test_a_plan_has_what_was_found_as_if_it_had_been_given(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    wanted = plan(cluster, tmp_path / "lake", b'{"a": 1}')
    given = with_columns(wanted, inferred_columns(wanted))
    assert given.bodies == BodyOptions(json_schema="`a` bigint")
    check_plan(given)


@pytest.mark.parametrize(
    ("table_format", "columns"),
    [
        ("parquet", "a int, s struct<x:int>, c string"),
        ("delta", "a int, s struct<x:int,y:boolean>, c string"),
        ("iceberg", "a int, s struct<x:int,y:boolean>, c string"),
    ],
)
def test_columns_of_the_lake_stay_and_others_are_added(
    cluster: BlockingCluster, tmp_path: Path, table_format: str, columns: str
) -> None:
    body = b'{"a": 3000000000, "s": {"x": 1, "y": true}, "c": "new"}'
    wanted = plan(cluster, tmp_path / "lake", body, table_format=table_format)
    make_lake(wanted, "a int, s struct<x:int>")
    found = inferred_columns(wanted)
    assert read_ddl(found.columns) == read_ddl(columns)
    check_plan(with_columns(wanted, found))


def test_a_column_of_the_lake_is_not_reported_as_left_out(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    body = b'{"a": null, "s": {"x": null, "y": null}, "c": null}'
    wanted = plan(cluster, tmp_path / "lake", body)
    make_lake(wanted, "a int, s struct<x:int>")
    assert set(inferred_columns(wanted).left_out) == {"s.y", "c"}


def test_a_key_of_newest_rows_is_checked_with_what_was_found(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    source = plan(cluster, tmp_path / "lake", b'{"a": 1.5}', table_format="delta")
    wanted = replace(source, latest_by="a")
    check_plan(wanted)
    with pytest.raises(BadOption, match="'a' cannot be a key"):
        check_plan(with_columns(wanted, inferred_columns(wanted)))


def test_topics_without_messages_are_refused(cluster: BlockingCluster, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no messages yet"):
        inferred_columns(plan(cluster, tmp_path / "lake"))


def test_bodies_that_are_no_json_are_refused(cluster: BlockingCluster, tmp_path: Path) -> None:
    with pytest.raises(BadSchema, match="none of the first 2 messages"):
        inferred_columns(plan(cluster, tmp_path / "lake", b"no", b"[]"))


def test_bodies_without_a_field_that_has_a_type_are_refused(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    with pytest.raises(BadSchema, match=r"a \(only null or empty\)"):
        inferred_columns(plan(cluster, tmp_path / "lake", b'{"a": null}'))


@pytest.mark.parametrize(
    "other", [{"json_schema": "a int"}, {"avro_schemas": (Path("a.avsc"),)}, {"registry": "http:"}]
)
def test_another_schema_contradicts_it(
    cluster: BlockingCluster, tmp_path: Path, other: dict[str, str]
) -> None:
    wanted = plan(cluster, tmp_path / "lake")
    with pytest.raises(BadOption, match="'infer': it contradicts"):
        check_plan(replace(wanted, bodies=replace(INFER, **other)))  # type: ignore[arg-type]


def test_a_lake_of_other_bodies_refuses_it(cluster: BlockingCluster, tmp_path: Path) -> None:
    wanted = plan(cluster, tmp_path / "lake", b'{"a": 1}')
    make_lake(replace(wanted, format=LakeFormat.PARQUET), '{"columns":"","framing":"avro"}')
    with pytest.raises(BadOption, match="avro"):
        check_plan(wanted)


def test_the_sample_is_shared_by_queues_as_far_as_they_have_messages() -> None:
    def ranges(*ends: int) -> list[QueueRange]:
        return [
            QueueRange(QueueRef("orders", "a", index), 10, 10 + end)
            for index, end in enumerate(ends)
        ]

    found = first_of(ranges(5_000, 0, 100, 5_000), INFER_MESSAGES_MAX)
    assert sorted(each.row_count for each in found) == [100, 450, 450]
    assert {each.start for each in found} == {10}
    assert [each.row_count for each in first_of(ranges(5, 5, 5), 2)] == [1, 1, 1]
